"""MLflow as a projection of the study's record: written by one thread, never in the way."""
