"""Backbones by their names: any of timm, of which only this file knows, and `bn_inception`."""

import copy
import difflib
from contextlib import suppress
from pathlib import Path
from typing import Any

import timm
import torch
from huggingface_hub import constants, try_to_load_from_cache
from torch import Tensor, nn

from hsearch.errors import ConfigError
from hsearch.models import bn_inception
from hsearch.models.weights import first_line, load_weights, reachable
from hsearch.spec import ModelSpec

OWN = "bn_inception"


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
    name = spec.backbone
    if not timm.is_model(name.partition(".")[0]):
        near = difflib.get_close_matches(name, [*timm.list_models(), OWN], n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"There is no backbone called '{name}'.{hint} All names of timm serve.")
    if spec.weights == "pretrained":
        return _pretrained(spec)
    network = _create(spec, pretrained=False)
    if spec.weights != "random":
        classifier = network.pretrained_cfg.get("classifier") or ()
        names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
        load_weights(network, Path(spec.weights), ignore=names)
    return network


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
        raise ConfigError(
            f"timm has no pretrained weights for '{name}'. Choose a name with a tag, such as "
            "'resnet50.tv_in1k', give a file with `--set model.weights=FILE`, or train from "
            "scratch with `--set model.weights=random`."
        )
    repository = str(getattr(timm.get_pretrained_cfg(name), "hf_hub_id", ""))
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
            "here and add `--set model.weights=FILE`; or train from scratch with "
            "`--set model.weights=random`."
        ) from error


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
