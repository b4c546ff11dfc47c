"""PostgreSQL."""

PORT = 5433
