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


def available_methods() -> list[str]:
    """Returns the names of all methods, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load_method(name: str) -> type[Method]:
    """Returns the `Loss` class of `methods/<name>.py`."""
    if name not in available_methods():
        raise ConfigError(f"Unknown method '{name}'; {did_you_mean(name, available_methods())}")
    loss: type[Method] = importlib.import_module(f"hsearch.methods.{name}").Loss
    return loss


def check_knobs(name: str, values: Mapping[str, object]) -> dict[str, KnobValue]:
    """Returns the values of all knobs: the given ones checked, the published ones elsewhere."""
    knobs = knobs_of(load_method(name))
    for given in values:
        if given not in knobs:
            raise ConfigError(f"Unknown knob '{given}' of {name}; {did_you_mean(given, knobs)}")
    return {key: knob.check(name, values.get(key, knob.default)) for key, knob in knobs.items()}


def check_ranges(name: str, knobs: Mapping[str, KnobValue], num_levels: int = 2) -> None:
    """Raises the method's own ConfigError about knobs out of range, for data of so many levels.

    The method is built for two classes and embeddings of length 1, which takes a millisecond. One
    with a head of its own over spatial features is not, since that may need the network's shape.
    """
    method = load_method(name)
    if method.features == "vector":
        hierarchy = Hierarchy.from_names([("0",) * num_levels, ("1",) * num_levels])
        method(Setting(hierarchy, (1,), 1, torch.Generator()), **knobs)
