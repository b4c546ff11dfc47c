"""Settings that follow from the backbone where neither recipe nor command line gives them."""

from collections.abc import Mapping
from dataclasses import asdict

from hsearch.recipes import Recipe, section
from hsearch.yaml_file import Value

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
    model = section(content, "model")
    backbone = model.get("backbone")
    if not isinstance(backbone, str):
        return  # which the spec's own validation refuses
    image = content.setdefault("image", {})
    if not isinstance(image, dict):
        return
    scratch = model.get("weights") == "random"
    is_open = not scratch and ("pooling" not in model or any(key not in image for key in _IMAGE))
    is_named = "model.backbone" in settings or (recipe.own and backbone == recipe.backbone)
    if not (is_open or is_named or (not scratch and "image.crop" in settings)):
        return
    from hsearch.models.backbone import backbone_defaults  # imports timm

    wanted = backbone_defaults(backbone)
    if scratch:
        return
    values = {key: _plain(value) for key, value in asdict(wanted).items()}
    for key in (*_IMAGE[:-1], *_OTHERS):
        image.setdefault(key, values[key])
    crop = image["crop"]
    if isinstance(crop, int):
        image.setdefault("resize", wanted.resize(crop))
        if wanted.fixed_size and crop != wanted.crop:
            arguments = model.setdefault("backbone_args", {})
            if isinstance(arguments, dict):
                arguments.setdefault("img_size", crop)
    model.setdefault("pooling", "avg" if maps else values["pooling"])


def _plain(value: object) -> Value:
    assert isinstance(value, str | int | float | tuple) or value is None
    return list(value) if isinstance(value, tuple) else value
