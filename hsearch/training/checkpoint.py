"""Checkpoints: one safetensors file each, replaced atomically; nothing is ever unpickled.

Tensors are named `model.*` (embedder and method with all their state), `optimizer.<index>.*` and
`average.*` (of the model's weights); what is not a tensor stands as JSON in the file's metadata.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

from hsearch.errors import DatasetError
from hsearch.files import write_whole
from hsearch.training.average import WeightAverage

Notes = dict[str, Any]

_UPDATES = "updates of the average"


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: Optimizer | None,
    notes: Mapping[str, object],
    average: WeightAverage | None = None,
    leave_out: Collection[str] = (),
) -> None:
    """Writes a checkpoint; at every moment the path holds the old one or the new one, whole.

    `leave_out` names what of the module's state is found elsewhere: a frozen backbone.
    """
    state_dict = module.state_dict().items()
    tensors = {f"model.{name}": tensor for name, tensor in state_dict if name not in leave_out}
    if optimizer is not None:
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": value for key, value in state.items()}
    if average is not None:
        tensors |= {f"average.{name}": value for name, value in average.state().items()}
        notes = {**notes, _UPDATES: average.updates}
    copies = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(copies, metadata={"notes": json.dumps(notes)}))


def read_notes(path: Path) -> Notes:
    """Returns what a checkpoint says beside its tensors."""
    with _opened(path) as file:
        notes: Notes = json.loads((file.metadata() or {}).get("notes", "{}"))
        return notes


def load_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: Optimizer | None = None,
    average: WeightAverage | None = None,
    leave_out: Collection[str] = (),
) -> Notes:
    """Restores module, optimiser and average in place and returns the notes.

    What `leave_out` names may be missing in the file, and then stays as it is.
    """
    with _opened(path) as file:
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    state_dict = _under("model.", tensors)
    own = module.state_dict()
    state_dict |= {name: own[name] for name in leave_out if name not in state_dict}
    try:
        module.load_state_dict(state_dict)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()
        raise DatasetError(f"The checkpoint {path} is of another network: {first}") from error
    if optimizer is not None:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".", 2)
                state.setdefault(int(index), {})[key] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    notes = read_notes(path)
    if average is not None:
        average.load(_under("average.", tensors), notes[_UPDATES])
    return notes


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _opened(path: Path) -> safe_open:
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError:
        raise DatasetError(f"There is no checkpoint {path}; train first.") from None
    except (SafetensorError, OSError) as error:
        raise DatasetError(f"The checkpoint {path} cannot be read: {error}.") from error
