"""Settings that follow from the backbone where neither recipe nor command line gives them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from hsearch.recipes import Recipe, section
from hsearch.yaml_file import Value

if TYPE_CHECKING:
    from hsearch.models.backbone import BackboneDefaults

Settings = dict[str, Value]

_IMAGE = ("mean", "std", "interpolation", "crop", "resize")
_OTHERS = ("range_max", "channels")  # which stay as they are by default, but for `bn_inception`


def fill_in_backbone(
    content: dict[str, Value], recipe: Recipe, settings: Mapping[str, Value], *, maps: bool = False
) -> None:
    """Fills in size, values and pooling of images as the backbone wants them, in place.

    A network from scratch has no wishes. timm is imported only where something is left open, or
    where somebody names the backbone or the size.

    Args:
        content: Nested values of a `TrainingSpec`, as far as they are given.
        recipe: That they come from.
        settings: Of the command line, by dotted key.
        maps: Whether the method looks at the backbone's spatial features.
    """
    model, image = section(content, "model"), content.setdefault("image", {})
    backbone = model.get("backbone")
    if not (isinstance(backbone, str) and isinstance(image, dict)):
        return  # which the spec's own validation refuses
    scratch = model.get("weights") == "random"
    is_open = "pooling" not in model or any(key not in image for key in _IMAGE)
    is_named = "model.backbone" in settings or (recipe.own and backbone == recipe.backbone)
    if not (is_named or (not scratch and (is_open or "image.crop" in settings))):
        return
    from hsearch.models.backbone import backbone_defaults  # imports timm

    wanted = backbone_defaults(backbone)
    if not scratch:
        _fill_in(model, image, wanted, maps)


def _fill_in(model: Settings, image: Settings, wanted: "BackboneDefaults", maps: bool) -> None:
    values = {key: _plain(value) for key, value in asdict(wanted).items()}
    for key in (*_IMAGE[:-1], *_OTHERS):
        image.setdefault(key, values[key])
    model.setdefault("pooling", "avg" if maps else values["pooling"])
    crop = image["crop"]
    if isinstance(crop, int):
        image.setdefault("resize", wanted.resize(crop))
        arguments = model.setdefault("backbone_args", {})
        if wanted.fixed_size and crop != wanted.crop and isinstance(arguments, dict):
            arguments.setdefault("img_size", crop)


def _plain(value: object) -> Value:
    assert isinstance(value, str | int | float | tuple) or value is None
    return list(value) if isinstance(value, tuple) else value
