"""Backbone, pooling and head as one network, with its batch-norm policy."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hsearch.errors import ConfigError, did_you_mean
from hsearch.models.backbone import build_backbone
from hsearch.models.batch_norm import synchronise_batch_norm
from hsearch.models.heads import build_head, pool
from hsearch.models.weights import first_line
from hsearch.spec import ModelSpec


class Embedder(nn.Module):
    """Maps images to the features that a method embeds.

    Frozen batch norm means what it does in the Reality Check, in HAPPIER and, after its warm-up,
    in Proxy-Anchor: training normalises with the running statistics and leaves them as they are,
    while scale and shift are trained like any other weight of the backbone.

    Args:
        spec: Of the network.
        seed: Root of the random weights of backbone and head.
        features: `vector`: pooled and passed through the head; `pooled`: without the head; `map`:
            the backbone's spatial features. The last two are for methods with a head of their own.
    """

    def __init__(self, spec: ModelSpec, *, seed: int, features: str = "vector") -> None:
        super().__init__()
        self.backbone = build_backbone(spec, seed)
        self.pooling = None if features == "map" else spec.pooling
        width = self.backbone.num_features
        self.head = build_head(spec, width, seed + 1) if features == "vector" else None
        self.batch_norm = spec.batch_norm
        if spec.batch_norm == "synchronised":
            synchronise_batch_norm(self.backbone)
        self.frozen = _parts(self.backbone.network, spec.frozen)
        self.train_backbone(True)

    def forward(self, images: Tensor) -> Tensor:
        """Maps (B, 3, H, W) to (B, embedding_dim), to (B, C) or to (B, C, h, w): see `features`."""
        features: Tensor = self.backbone(images)
        if self.pooling is not None:
            features = pool(features, self.pooling)
        return features if self.head is None else self.head(features)

    def train(self, mode: bool = True) -> "Embedder":
        """Sets the mode; frozen batch norm stays in evaluation mode."""
        super().train(mode)
        if self.batch_norm == "frozen":
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def train_backbone(self, trained: bool) -> None:
        """Lets gradients reach the backbone, but for its frozen parts, or keeps them away."""
        for name, parameter in self.backbone.network.named_parameters():
            parameter.requires_grad_(trained and name not in self.frozen)

    def feature_shape(self, image_size: int) -> tuple[int, ...]:
        """Returns the shape of one item of the output for square images of that size."""
        was_training = self.training
        self.eval()
        try:
            with torch.no_grad():
                output = self(next(self.parameters()).new_zeros(1, 3, image_size, image_size))
        except (AssertionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"The backbone cannot take images of {image_size} pixels ({first_line(error)}); "
                "change `image.crop`, or a transformer's own size with "
                "`--set model.backbone_args.img_size=N`."
            ) from error
        self.train(was_training)
        return tuple(output.shape[1:])


def _parts(network: nn.Module, prefixes: Iterable[str]) -> frozenset[str]:
    """Names of the parameters that lie in one of the parts."""
    names = [name for name, _ in network.named_parameters()]
    found: set[str] = set()
    for prefix in prefixes:
        inside = {name for name in names if f"{name}.".startswith(f"{prefix}.")}
        if not inside:
            parts = {name.partition(".")[0] for name in names}
            raise ConfigError(
                f"`model.frozen` names '{prefix}', which the backbone does not have; "
                f"{did_you_mean(prefix, parts)}"
            )
        found |= inside
    return frozenset(found)
