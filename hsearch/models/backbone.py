"""Backbones by their names: any of timm, of which only this file knows, and `bn_inception`."""

import copy
import difflib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import timm
import torch
from huggingface_hub import constants, try_to_load_from_cache
from timm.layers.pos_embed import resample_abs_pos_embed
from torch import Tensor, nn

from hsearch.errors import ConfigError
from hsearch.models import bn_inception
from hsearch.models.weights import first_line, load_weights, reachable
from hsearch.spec import ModelSpec

OWN = "bn_inception"
WEIGHTS_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class BackboneDefaults:
    """How a backbone wants its images, as timm's configuration of its weights says.

    Attributes:
        crop: Side of the images that the weights come from.
        crop_share: `crop` as a share of the short side before cropping.
        mean: Per channel.
        std: Per channel.
        interpolation: How images are resized.
        range_max: Value of a full channel before mean and std.
        channels: Order of the channels.
        pooling: Its own one.
        fixed_size: Whether it is made for one size of images, which `img_size` changes.
        licence: Of the weights, as timm calls it; null where it does not say.
    """

    crop: int
    crop_share: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: Literal["bilinear", "bicubic"]
    range_max: Literal[1, 255] = 1
    channels: Literal["rgb", "bgr"] = "rgb"
    pooling: Literal["avg", "token"] = "avg"
    fixed_size: bool = False
    licence: str | None = None

    def resize(self, crop: int) -> int:
        """Returns the short side in pixels before cropping to squares of that side."""
        return max(crop, round(crop / self.crop_share))


_USUAL = BackboneDefaults(
    crop=224,
    crop_share=0.875,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    interpolation="bilinear",
)
_BN_INCEPTION = BackboneDefaults(
    crop=224,
    crop_share=0.875,
    mean=(104.0, 117.0, 128.0),
    std=(1.0, 1.0, 1.0),
    interpolation="bilinear",
    range_max=255,
    channels="bgr",
)


@cache
def backbone_defaults(name: str) -> BackboneDefaults:
    """Returns how a backbone wants its images; as most do, where timm has no weights of it.

    Raises:
        ConfigError: There is no such backbone, or it has no such weights.
    """
    if name == OWN:
        return _BN_INCEPTION
    _check_name(name)
    try:
        found = timm.get_pretrained_cfg(name)
    except RuntimeError:  # of a tag that is not there
        raise ConfigError(_no_weights(name)) from None
    if found is None:
        return _USUAL
    return BackboneDefaults(
        crop=int(found.input_size[-1]),
        crop_share=float(found.crop_pct),
        mean=tuple(map(float, found.mean)),
        std=tuple(map(float, found.std)),
        interpolation="bicubic" if found.interpolation == "bicubic" else "bilinear",
        pooling="token" if _is_transformer(name) else "avg",
        fixed_size=bool(found.fixed_input_size),
        licence=found.license,
    )


def weight_files(name: str) -> list[str]:
    """Returns what a file with the pretrained weights of a backbone may be called, best first."""
    if name == OWN:
        return [f"{OWN}{WEIGHTS_SUFFIX}", bn_inception.WEIGHTS_FILE]
    base, _, tag = name.partition(".")
    found = None if tag or not timm.is_model(base) else timm.get_pretrained_cfg(name)
    names = [name, base] if tag else [name, f"{name}.{found.tag}"] if found else [name]
    return [f"{each}{WEIGHTS_SUFFIX}" for each in names]


def is_cached(name: str) -> bool:
    """Whether this machine's own cache has the pretrained weights of a backbone."""
    if name == OWN:
        return bn_inception.cached_file().is_file()
    _check_name(name)
    return timm.is_model_pretrained(name) and _cached(_repository(name))


class Backbone(nn.Module):
    """A network without its classifier.

    Attributes:
        num_features: Channels of its output.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.network = _bn_inception(spec) if spec.backbone == OWN else _timm_network(spec)
        self.num_features = int(self.network.num_features)
        self.pooled = spec.pooling == "token"
        if self.pooled and not hasattr(self.network, "num_prefix_tokens"):
            raise ConfigError(
                "`model.pooling: token` is a transformer's own pooling, but "
                f"'{spec.backbone}' has none; choose avg, max or avg+max."
            )
        for name in _unused(self, spec):
            owner, _, leaf = name.rpartition(".")
            self.get_submodule(owner).register_parameter(leaf, None)

    def forward(self, images: Tensor) -> Tensor:
        """Maps (B, 3, H, W) images to (B, C, h, w) features; pooling `token` gives (B, C)."""
        features: Any = self.network.forward_features(images)
        if not isinstance(features, Tensor):
            raise ConfigError(
                f"A backbone must give one feature map, but {type(self.network).__name__} gives "
                "several; choose another one."
            )
        if self.pooled:
            token: Tensor = self.network.forward_head(features, pre_logits=True)
            return token
        if features.ndim == 3:  # (B, tokens, C) of a transformer: a column of its patches
            prefix = getattr(self.network, "num_prefix_tokens", 0)
            return features[:, prefix:].transpose(1, 2).unsqueeze(-1)
        if features.shape[1] != self.num_features:  # (B, h, w, C)
            return features.permute(0, 3, 1, 2)
        return features


def build_backbone(spec: ModelSpec, seed: int) -> Backbone:
    """Returns the backbone of a spec; random weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Backbone(spec)


def _bn_inception(spec: ModelSpec) -> Any:  # noqa: ANN401 (as timm's networks, which are untyped)
    if spec.backbone_args:
        raise ConfigError(f"'{OWN}' takes no `model.backbone_args`, but got {spec.backbone_args}.")
    network = bn_inception.BNInception()
    if spec.weights == "pretrained":
        bn_inception.load_pretrained(network)
    elif spec.weights != "random":
        load_weights(network, Path(spec.weights), ignore=(bn_inception.CLASSIFIER,))
    return network


def _timm_network(spec: ModelSpec) -> Any:  # noqa: ANN401
    _check_name(spec.backbone)
    if spec.weights == "pretrained":
        return _pretrained(spec)
    network = _create(spec, pretrained=False)
    if spec.weights != "random":
        classifier = network.pretrained_cfg.get("classifier") or ()
        names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
        path = Path(spec.weights)
        load_weights(network, path, ignore=names, adapt=lambda state: _resampled(state, network))
    return network


def _check_name(name: str) -> None:
    if not timm.is_model(name.partition(".")[0]):
        near = difflib.get_close_matches(name, [*timm.list_models(), OWN], n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"There is no backbone called '{name}'.{hint} All names of timm serve.")


def _is_transformer(name: str) -> bool:
    """Whether a network has tokens, which it pools in its own way."""
    with torch.device("meta"), suppress(TypeError, RuntimeError, AssertionError, ValueError):
        return hasattr(timm.create_model(name, num_classes=0), "num_prefix_tokens")
    return False


def _resampled(state: dict[str, Tensor], network: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Weights of a transformer for images of another size, as timm itself takes them over."""
    theirs, own = state.get("pos_embed"), getattr(network, "pos_embed", None)
    if theirs is None or own is None or theirs.shape == own.shape or theirs.ndim != own.ndim:
        return state
    prefix = 0 if getattr(network, "no_embed_class", False) else network.num_prefix_tokens
    side = (theirs.shape[1] - prefix) ** 0.5
    if theirs.ndim != 3 or theirs.shape[2] != own.shape[2] or side != int(side):
        return state
    size = list(network.patch_embed.grid_size)
    fitting = resample_abs_pos_embed(theirs, new_size=size, num_prefix_tokens=prefix)
    return {**state, "pos_embed": fitting}


def _create(spec: ModelSpec, *, pretrained: bool) -> Any:  # noqa: ANN401
    arguments: dict[str, Any] = {"num_classes": 0, **spec.backbone_args}
    if spec.pooling != "token":  # some networks refuse this; their own pooling is never run here
        with suppress(TypeError, RuntimeError, AssertionError, ValueError):
            return timm.create_model(
                spec.backbone, pretrained=pretrained, global_pool="", **arguments
            )
    try:
        return timm.create_model(spec.backbone, pretrained=pretrained, **arguments)
    except (TypeError, RuntimeError, AssertionError, ValueError) as error:
        given = f" with the arguments {spec.backbone_args}" if spec.backbone_args else ""
        raise ConfigError(
            f"timm cannot make '{spec.backbone}'{given} for pooling '{spec.pooling}': "
            f"{first_line(error)}; see `model.backbone_args` and `model.pooling`."
        ) from error


def _pretrained(spec: ModelSpec) -> Any:  # noqa: ANN401
    name = spec.backbone
    if not timm.is_model_pretrained(name):
        raise ConfigError(_no_weights(name))
    repository = _repository(name)
    try:
        if not (_cached(repository) or reachable(constants.ENDPOINT)):
            raise FileNotFoundError("no network")
        return _create(spec, pretrained=True)
    except OSError as error:
        raise ConfigError(
            f"The pretrained weights of '{name}' are not on this machine and could not be "
            f"downloaded ({first_line(error)}). With network access, run "
            f"`python -c \"import timm; timm.create_model('{name}', pretrained=True)\"` once; "
            f"without, copy `model.safetensors` of the Hugging Face repository '{repository}' "
            f"here, as {name}{WEIGHTS_SUFFIX} in the folder that HSEARCH_WEIGHTS names, or as any "
            "file with `--set model.weights=FILE`; or train from scratch with "
            "`--set model.weights=random`."
        ) from error


def _no_weights(name: str) -> str:
    return (
        f"timm has no pretrained weights for '{name}'. Choose a name with a tag, such as "
        "'resnet50.tv_in1k', give a file with `--set model.weights=FILE`, or train from "
        "scratch with `--set model.weights=random`."
    )


def _repository(name: str) -> str:
    return str(getattr(timm.get_pretrained_cfg(name), "hf_hub_id", ""))


def _cached(repository: str) -> bool:
    files = ("model.safetensors", "pytorch_model.bin")
    return any(isinstance(try_to_load_from_cache(repository, file), str) for file in files)


def _native_size(network: Any, spec: ModelSpec) -> int:  # noqa: ANN401
    """Side of the square images that a network takes in any case."""
    native = getattr(network, "pretrained_cfg", {}).get("input_size", (3, 224, 224))[-1]
    return int(spec.backbone_args.get("img_size", native))


_known_unused: dict[str, list[str]] = {}  # a search builds the same network for every fold


def _unused(backbone: Backbone, spec: ModelSpec) -> list[str]:
    """Names of parameters that take no part in the features, such as the norm of timm's own head.

    They would never get a gradient, which DistributedDataParallel refuses.
    """
    key = spec.model_dump_json(include={"backbone", "backbone_args", "pooling", "weights"})
    if key not in _known_unused:
        ghost = copy.deepcopy(backbone).to("meta").eval()  # shapes and gradients, no arithmetic
        size = _native_size(backbone.network, spec)
        ghost(torch.zeros(1, 3, size, size, device="meta")).sum().backward()
        _known_unused[key] = [n for n, p in ghost.named_parameters() if p.grad is None]
    return _known_unused[key]
