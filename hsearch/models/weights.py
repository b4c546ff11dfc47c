"""Weights from a local file: safetensors, or a torch file read without unpickling objects."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hsearch.errors import ConfigError


def load_weights(network: nn.Module, path: Path, *, ignore: Sequence[str] = ()) -> None:
    """Loads weights that must fit the network exactly.

    Args:
        network: Receives the weights.
        path: A `.safetensors` file or a torch file.
        ignore: Prefixes of modules in the file that the network does not have: its classifier.
    """
    state = {
        key.removeprefix("module."): value
        for key, value in _read(path).items()
        if not key.removeprefix("module.").startswith(tuple(f"{name}." for name in ignore))
    }
    own = network.state_dict()
    problems = [f"misses '{key}'" for key in own if key not in state and _matters(key)]
    problems += [f"has '{key}', which the network has not" for key in state if key not in own]
    problems += [
        f"has '{key}' of shape {tuple(state[key].shape)} instead of {tuple(own[key].shape)}"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    if problems:
        more = f" (and {len(problems) - 1} more differences)" if len(problems) > 1 else ""
        raise ConfigError(
            f"The weights in {path} must fit the backbone exactly, but the file {problems[0]}"
            f"{more}; give the weights of this very architecture."
        )
    network.load_state_dict(state, strict=False)


def _matters(key: str) -> bool:
    return not key.endswith("num_batches_tracked")


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ConfigError(
            f"`model.weights` must be 'pretrained', 'random' or a file, but there is no file "
            f"{path}."
        )
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise ConfigError(
            f"{path} cannot be read as weights: only safetensors files and torch files that hold "
            f"nothing but tensors are accepted ({str(error).splitlines()[0]})."
        ) from error
    for wrapper in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise ConfigError(f"{path} must hold a state dict: tensors by name.")
    return content
