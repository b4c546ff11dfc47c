"""Pooling of spatial features, and the heads that turn pooled features into vectors."""

import torch
from torch import Tensor, nn

from hsearch.errors import ConfigError
from hsearch.spec import ModelSpec


def pool(features: Tensor, kind: str) -> Tensor:
    """Maps (B, C, H, W) features to (B, C); `avg+max` adds the two; (B, C) passes unchanged."""
    if features.ndim == 2:
        return features
    flat = features.flatten(2)
    if kind == "avg":
        return flat.mean(dim=2)
    largest = flat.amax(dim=2)
    return largest if kind == "max" else largest + flat.mean(dim=2)


def build_head(spec: ModelSpec, num_features: int, seed: int) -> nn.Module:
    """Returns the head of a spec: (B, num_features) -> (B, embedding_dim), not normalised.

    Random weights follow from the seed alone.
    """
    if spec.head in ("none", "layernorm") and spec.embedding_dim != num_features:
        raise ConfigError(
            f"`model.head: {spec.head}` keeps the backbone's {num_features} features, so "
            f"`model.embedding_dim` must be {num_features}, but got {spec.embedding_dim}."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = _layers(spec, num_features)
        for layer in head:
            if isinstance(layer, nn.Linear):
                _initialise(layer, spec.head_init)
    return head


def _layers(spec: ModelSpec, width: int) -> nn.Sequential:
    linear = nn.Linear(width, spec.embedding_dim)
    norm = nn.LayerNorm(width, elementwise_affine=False)
    match spec.head:
        case "none":
            return nn.Sequential()
        case "layernorm":
            return nn.Sequential(norm)
        case "linear":
            return nn.Sequential(linear)
        case "layernorm-linear":
            return nn.Sequential(norm, linear)
        case "mlp":
            return nn.Sequential(nn.Linear(width, width), nn.ReLU(), linear)


def _initialise(layer: nn.Linear, kind: str) -> None:
    if kind == "kaiming":
        nn.init.kaiming_normal_(layer.weight, mode="fan_out")
    elif kind == "orthogonal":
        nn.init.orthogonal_(layer.weight)
    if kind != "default":
        nn.init.zeros_(layer.bias)
