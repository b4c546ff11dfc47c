"""Pretrained weights without a network: looked up where HSEARCH_WEIGHTS says, by timm's names."""

import hashlib
import os
from pathlib import Path

from hsearch.addresses import Address, Place, read_place
from hsearch.data.library import data_folder
from hsearch.data.objects import Objects
from hsearch.data.places import absolute
from hsearch.errors import ConfigError
from hsearch.files import locked
from hsearch.spec import ModelSpec

VARIABLE = "HSEARCH_WEIGHTS"


def weights_place() -> Place | None:
    """Returns where files of weights lie: $HSEARCH_WEIGHTS, a folder or an address."""
    given = os.environ.get(VARIABLE)
    return absolute(read_place(given)) if given else None


def local_weights(model: ModelSpec) -> ModelSpec:
    """Returns the model with the file of its pretrained weights, where HSEARCH_WEIGHTS has one.

    A file at an address is fetched once per machine. The spec of a job never holds such a path, as
    that of another machine may differ.
    """
    if model.weights != "pretrained":
        return model
    path = find_weights(model.backbone)
    return model if path is None else model.model_copy(update={"weights": str(path)})


def find_weights(backbone: str) -> Path | None:
    """Returns the file with the pretrained weights of a backbone; null where there is none."""
    place = weights_place()
    if place is None:
        return None
    from hsearch.models.backbone import weight_files  # imports timm

    names = weight_files(backbone)
    if isinstance(place, Path):
        return next((place / name for name in names if (place / name).is_file()), None)
    return _copied(place, names)


def weights_at_hand(model: ModelSpec) -> bool:
    """Whether the weights of a model are on this machine, or where HSEARCH_WEIGHTS says."""
    if model.weights == "random":
        return True
    if model.weights != "pretrained":
        return Path(model.weights).is_file()
    from hsearch.models.backbone import is_cached

    return find_weights(model.backbone) is not None or is_cached(model.backbone)


def check_network(model: ModelSpec) -> None:
    """Raises now what would meet every training: weights that are not there, or do not fit.

    Nothing is checked of a network from scratch.
    """
    if model.weights != "random":
        from hsearch.models.backbone import build_backbone

        place = weights_place()
        if isinstance(place, Path) and not place.is_dir():
            raise ConfigError(
                f"{VARIABLE} must be a folder with files of weights, or its address, but there is "
                f"no folder {place}; make it, or unset {VARIABLE}."
            )
        build_backbone(local_weights(model), seed=0)


def _copied(address: Address, names: list[str]) -> Path | None:
    """This machine's copy of the first of the files that is there."""
    key = hashlib.sha256(str(address).encode()).hexdigest()[:12]
    folder = data_folder() / "weights" / key
    with locked(folder / ".lock"):
        for name in names:
            if (folder / name).is_file():
                return folder / name
        objects = Objects(address, patient=True)
        there = objects.children()
        for name in names:
            if name in there:
                objects.fetch(name, folder / name)
                return folder / name
    return None
