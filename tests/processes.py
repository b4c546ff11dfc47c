"""Processes of tests, forked from one that has imported the heavy libraries."""

import multiprocessing
from functools import cache
from multiprocessing.context import ForkServerContext

# Not Ray and not MLflow, which read variables of the environment when they are imported, but much
# that they import.
HEAVY = [
    "tests.startup.sitecustomize",  # first: before hsearch.training.loop
    *("alembic", "flask", "fsspec", "google.protobuf.message", "jsonschema", "pandas"),
    *("opentelemetry.sdk.trace", "pyarrow.fs", "pydantic", "pytest", "requests", "rich"),
    *("sqlalchemy.orm", "timm", "torch._dynamo"),
    *("hsearch.search.study", "hsearch.training.score"),
]


@cache
def ready_processes() -> ForkServerContext:
    """Returns the context in which a process starts in milliseconds instead of seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    return context
