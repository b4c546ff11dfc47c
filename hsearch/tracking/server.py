"""MLflow's server on loopback, for all who work on a cluster's head."""

PORT = 5000
