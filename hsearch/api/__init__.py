"""What the verbs do, as functions."""
