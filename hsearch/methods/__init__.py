"""Methods: one file each, `methods/<name>.py` with a pure loss function and `class Loss(Method)`.

The file name is the registry; files that begin with an underscore are not methods.
"""

import importlib
import pkgutil
from collections.abc import Mapping

import torch

from hsearch.errors import ConfigError, did_you_mean
from hsearch.hierarchy import Hierarchy
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import Knob, KnobValue, knobs_of
from hsearch.methods._proxies import ProxyView

__all__ = [
    "Knob",
    "Method",
    "ProxyView",
    "Setting",
    "available_methods",
    "check_knobs",
    "check_ranges",
    "knobs_of",
    "load_method",
]

_TOO_LARGE = ("allocate", "overflow")  # of a tensor, in torch's words

# Shapes of features that suit every knob: whatever must share channels out can do so with none.
_SMALLEST = {"vector": (1,), "pooled": (1,), "map": (0, 1, 1)}


def available_methods(task: str | None = None) -> list[str]:
    """Returns the names of all methods, or of those of one task, sorted."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return [name for name in names if task is None or load_method(name).task == task]


def load_method(name: str) -> type[Method]:
    """Returns the `Loss` class of `methods/<name>.py`."""
    if name not in available_methods():
        raise ConfigError(f"Unknown method '{name}'; {did_you_mean(name, available_methods())}")
    loss: type[Method] = importlib.import_module(f"hsearch.methods.{name}").Loss
    return loss


def check_knobs(name: str, values: Mapping[str, object]) -> dict[str, KnobValue]:
    """Returns the values of all knobs: the given ones checked, the published ones elsewhere."""
    method = load_method(name)
    knobs = knobs_of(method)
    for given in values:
        if given not in knobs:
            raise ConfigError(f"Unknown knob '{given}' of {name}; {did_you_mean(given, knobs)}")
    published = {key: knob.default for key, knob in knobs.items()} | method.published(values)
    return {key: knob.check(name, {**published, **values}[key]) for key, knob in knobs.items()}


def check_ranges(
    name: str, knobs: Mapping[str, KnobValue], num_levels: int = 2, embedding_dim: int = 0
) -> None:
    """Raises the method's own ConfigError about knobs out of range, for data of so many levels.

    Likewise where what they ask for does not fit into memory.

    The method is built for two classes and the smallest features, which takes milliseconds. What
    depends on the network's shape is found when the network is there, and nothing is checked of a
    retrieval method over spatial features, which may need that shape to be built at all. A method
    over spatial features that decides the length of its embeddings itself is built for
    `embedding_dim`.
    """
    method = load_method(name)
    if method.features == "map" and method.task == "retrieval":
        return
    shape = _SMALLEST[method.features]
    hierarchy = Hierarchy.from_names([("0",) * num_levels, ("1",) * num_levels])
    length = embedding_dim if method.features == "map" else shape[0]
    try:
        method(Setting(hierarchy, shape, length, torch.Generator()), **knobs)
    except (MemoryError, RuntimeError) as error:
        told = str(error)
        if not isinstance(error, MemoryError) and not any(w in told for w in _TOO_LARGE):
            raise
        given = dict(knobs)
        if method.features == "map":
            given["model.embedding_dim"] = length
        raise ConfigError(
            f"What {name} learns must fit into the memory of this machine, even for two classes, "
            f"but does not with {', '.join(f'{key}={value}' for key, value in given.items())}; "
            "choose smaller values."
        ) from error
