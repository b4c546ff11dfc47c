"""Which (hierarchical) deep-metric-learning loss works best on your images?

The names below are imported at their first use, so that `import hsearch` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hsearch.data.library import open_data
    from hsearch.evaluation.evaluate import retrieval_metrics
    from hsearch.folds import class_splits
    from hsearch.hierarchy import Hierarchy
    from hsearch.methods import Method, available_methods, load_method
    from hsearch.search.space import load_space
    from hsearch.training.launch import train_locally
    from hsearch.training.resolve import resolve_job

_HOMES = {
    "Hierarchy": "hierarchy",
    "Method": "methods",
    "available_methods": "methods",
    "class_splits": "folds",
    "load_method": "methods",
    "load_space": "search.space",
    "open_data": "data.library",
    "resolve_job": "training.resolve",
    "retrieval_metrics": "evaluation.evaluate",
    "train_locally": "training.launch",
}

__all__ = [
    "Hierarchy",
    "Method",
    "available_methods",
    "class_splits",
    "load_method",
    "load_space",
    "open_data",
    "resolve_job",
    "retrieval_metrics",
    "train_locally",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'hsearch' has no attribute '{name}'")
    return getattr(importlib.import_module(f"hsearch.{_HOMES[name]}"), name)
