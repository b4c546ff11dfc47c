"""The search: spaces, races, and the study's record."""
