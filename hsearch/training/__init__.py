"""Training one fold, on one process or several."""
