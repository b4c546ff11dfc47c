"""Processes of tests that train: forked from one that has imported everything once."""

import multiprocessing
from functools import cache
from multiprocessing.context import ForkServerContext


@cache
def ready_processes() -> ForkServerContext:
    """Returns the context in which a process starts in milliseconds instead of seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "pandas", "timm", "torch._dynamo", "hsearch.training.score"])
    return context
