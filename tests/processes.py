"""Processes of tests that train: forked from one that has imported everything once."""

import multiprocessing
from functools import cache
from multiprocessing.context import ForkServerContext

# Not Ray, which reads variables of the environment when it is imported, but much that it imports.
HEAVY = [
    *("fsspec", "jsonschema", "mlflow", "pandas", "pyarrow.fs", "pytest", "rich"),
    *("timm", "torch._dynamo", "hsearch.training.score", "hsearch.search.study"),
]


@cache
def ready_processes() -> ForkServerContext:
    """Returns the context in which a process starts in milliseconds instead of seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    return context
