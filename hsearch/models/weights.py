"""Weights from a local file: safetensors, or a torch file read without unpickling objects."""

import pickle
import socket
import struct
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hsearch.errors import ConfigError

# What torch and safetensors raise for files that are truncated, foreign, or hold more than tensors.
_UNREADABLE = (
    SafetensorError,
    pickle.UnpicklingError,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
)


def load_weights(
    network: nn.Module,
    path: Path,
    *,
    ignore: Sequence[str] = (),
    adapt: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None,
) -> None:
    """Loads weights that must fit the network exactly.

    A state dict inside `state_dict` or `model`, the prefix `module.` of DataParallel and the
    leading axis of length 1 that ports from Caffe carry are seen through.

    Args:
        network: Receives the weights.
        path: A `.safetensors` file or a torch file.
        ignore: Prefixes of modules in the file that the network does not have: its classifier.
        adapt: Makes weights for images of another size fit.
    """
    state = {
        key.removeprefix("module."): value
        for key, value in _read(path).items()
        if not key.removeprefix("module.").startswith(tuple(f"{name}." for name in ignore))
    }
    if adapt is not None:
        state = adapt(state)
    own = network.state_dict()
    for key in own.keys() & state.keys():
        if state[key].shape == (1, *own[key].shape):
            state[key] = state[key][0]
    problems = _differences(state, own)
    if problems:
        more = f" (and {len(problems) - 1} more differences)" if len(problems) > 1 else ""
        raise ConfigError(
            f"The weights in {path} must fit the backbone exactly, but the file {problems[0]}"
            f"{more}; give the weights of this very architecture."
        )
    network.load_state_dict(state, strict=False)


def reachable(url: str) -> bool:
    """Asks once, for a few seconds, whether a host answers: clients retry for a minute."""
    if getproxies():
        return True
    parts = urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=5).close()
    except OSError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """Returns what an error says in one line without its final stop."""
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _differences(state: dict[str, Tensor], own: dict[str, Tensor]) -> list[str]:
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    problems = [f"misses '{key}'" for key in missing]
    problems += [f"has '{key}', which the network has not" for key in state if key not in own]
    problems += [
        f"has '{key}' of shape {tuple(state[key].shape)} instead of {tuple(own[key].shape)}"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    return problems


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ConfigError(
            f"`model.weights` must be 'pretrained', 'random' or a file, but there is no file "
            f"{path}."
        )
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        with warnings.catch_warnings(action="ignore"):  # about pickles that it then refuses
            content = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise ConfigError(
            f"{path} cannot be read as weights: only safetensors files and torch files that hold "
            "nothing but tensors are accepted; save the network's `state_dict()` alone."
        ) from error
    for wrapper in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not (
        isinstance(content, dict)
        and all(isinstance(key, str) for key in content)
        and all(isinstance(value, Tensor) for value in content.values())
    ):
        raise ConfigError(f"{path} must hold a state dict: tensors by name.")
    return content
