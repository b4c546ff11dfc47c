"""Backbones by their timm names: the only file that knows timm."""

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import timm
import torch
from huggingface_hub import constants, try_to_load_from_cache
from torch import Tensor, nn

from hsearch.errors import ConfigError, did_you_mean
from hsearch.models.weights import load_weights
from hsearch.spec import ModelSpec


class Backbone(nn.Module):
    """A timm network without its classifier.

    Attributes:
        num_features: Channels of its output.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.network = _create(spec)
        self.num_features = int(self.network.num_features)
        self.pooled = spec.pooling == "token"

    def forward(self, images: Tensor) -> Tensor:
        """Maps (B, 3, H, W) images to (B, C, h, w) features; pooling `token` gives (B, C)."""
        features: Tensor = self.network.forward_features(images)
        if self.pooled:
            token: Tensor = self.network.forward_head(features, pre_logits=True)
            return token
        if features.ndim == 3:  # (B, tokens, C) of a transformer: a column of its patches
            prefix = getattr(self.network, "num_prefix_tokens", 0)
            return features[:, prefix:].transpose(1, 2).unsqueeze(-1)
        if getattr(self.network, "output_fmt", "NCHW") == "NHWC":
            return features.permute(0, 3, 1, 2)
        return features


def _create(spec: ModelSpec) -> Any:  # noqa: ANN401 (timm is untyped)
    name = spec.backbone
    if not timm.is_model(name.split(".")[0]):
        near = did_you_mean(name, timm.list_models()).rpartition(".")[2] or ""
        raise ConfigError(f"timm has no model called '{name}'.{' ' * bool(near)}{near.strip()}")
    pooling = {} if spec.pooling == "token" else {"global_pool": ""}
    arguments: dict[str, Any] = {"num_classes": 0, **pooling, **spec.backbone_args}
    if spec.weights == "pretrained":
        return _create_pretrained(name, arguments)
    network: Any = timm.create_model(name, pretrained=False, **arguments)
    if spec.weights != "random":
        classifier = network.pretrained_cfg.get("classifier") or ()
        names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
        load_weights(network, Path(spec.weights), ignore=names)
    return network


def _create_pretrained(name: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401
    if not timm.is_model_pretrained(name):
        raise ConfigError(
            f"timm has no pretrained weights for '{name}'. Choose a name with a tag, such as "
            "'resnet50.tv_in1k', give a file with `--set model.weights=FILE`, or train from "
            "scratch with `--set model.weights=random`."
        )
    repository = str(getattr(timm.get_pretrained_cfg(name), "hf_hub_id", ""))
    try:
        if not (_cached(repository) or _hub_reachable()):
            raise FileNotFoundError("no network")
        return timm.create_model(name, pretrained=True, **arguments)
    except OSError as error:
        raise ConfigError(
            f"The pretrained weights of '{name}' are not on this machine and could not be "
            f"downloaded ({str(error).splitlines()[0]}). With network access, run "
            f"`python -c \"import timm; timm.create_model('{name}', pretrained=True)\"` once; "
            f"without, copy `model.safetensors` of the Hugging Face repository '{repository}' "
            "here and add `--set model.weights=FILE`; or train from scratch with "
            "`--set model.weights=random`."
        ) from error


def _cached(repository: str) -> bool:
    files = ("model.safetensors", "pytorch_model.bin")
    return any(isinstance(try_to_load_from_cache(repository, file), str) for file in files)


def _hub_reachable() -> bool:
    """Asks once, for a few seconds: without network the hub's client retries for a minute."""
    if getproxies():
        return True
    host = urlsplit(constants.ENDPOINT).hostname or ""
    try:
        socket.create_connection((host, 443), timeout=5).close()
    except OSError:
        return False
    return True


def build_backbone(spec: ModelSpec, seed: int) -> Backbone:
    """Returns the backbone of a spec; random weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Backbone(spec)
