"""Backbone, pooling and head as one network, with its batch-norm policy."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hsearch.errors import ConfigError, did_you_mean
from hsearch.models.adapters import MARK, add_adapters
from hsearch.models.backbone import Backbone, build_backbone
from hsearch.models.batch_norm import synchronise_batch_norm
from hsearch.models.heads import build_head, pool
from hsearch.models.weights import first_line
from hsearch.spec import ModelSpec


class Embedder(nn.Module):
    """Maps images to the features that a method embeds.

    Frozen batch norm means what it does in the Reality Check, in HAPPIER and, after its warm-up,
    in Proxy-Anchor: training normalises with the running statistics and leaves them as they are,
    while scale and shift are trained like any other weight of the backbone. In the regime `frozen`
    nothing of the backbone trains, and in `lora` its adapters alone do.

    Args:
        spec: Of the network.
        seed: Root of the random weights of backbone and head.
        features: `vector`: pooled and passed through the head; `pooled`: without the head; `map`:
            the backbone's spatial features. The last two are for methods with a head of their own.
        cached: Shape of one item of the backbone's output, pooled unless `features` is `map`, if
            that is given in the place of images; the embedder then has no backbone. For the
            regime `frozen` alone.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        seed: int,
        features: str = "vector",
        cached: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.regime, self.batch_norm = spec.regime, spec.batch_norm
        self.pooling = None if features == "map" else spec.pooling
        self.backbone = self._make_backbone(spec, seed) if cached is None else None
        width = self.backbone.num_features if self.backbone else (cached or (0,))[0]
        self._cached = cached
        self.head = build_head(spec, width, seed + 1) if features == "vector" else None
        self.train_backbone(True)

    def _make_backbone(self, spec: ModelSpec, seed: int) -> Backbone:
        # A frozen one is the same for all folds and seeds, so that they share what it gives.
        backbone = build_backbone(spec, 0 if spec.regime == "frozen" else seed)
        if spec.batch_norm == "synchronised" and spec.regime != "frozen":
            synchronise_batch_norm(backbone)
        self.fixed = _parts(backbone.network, spec.frozen)
        if spec.regime == "lora":
            add_adapters(
                backbone.network, rank=spec.lora_rank, alpha=spec.lora_alpha, seed=seed + 2
            )
        if spec.regime != "full":
            names = (name for name, _ in backbone.network.named_parameters())
            self.fixed = frozenset(name for name in names if MARK not in name)
        return backbone

    def forward(self, images: Tensor) -> Tensor:
        """Maps (B, 3, H, W) to (B, embedding_dim), to (B, C) or to (B, C, h, w): see `features`.

        Without a backbone it takes (B, ...) cached features instead of images.
        """
        features = images if self.backbone is None else self.features(images)
        return features if self.head is None else self.head(features)

    def features(self, images: Tensor) -> Tensor:
        """Maps (B, 3, H, W) images to the backbone's output: (B, C), or (B, C, h, w) for `map`."""
        assert self.backbone is not None, "cached features come without a backbone"
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.regime != "frozen"):
            features: Tensor = self.backbone(images)
            return features if self.pooling is None else pool(features, self.pooling)

    def train(self, mode: bool = True) -> "Embedder":
        """Sets the mode; a frozen backbone and frozen batch norm stay in evaluation mode."""
        super().train(mode)
        if self.backbone is None:
            return self
        if self.regime == "frozen":
            self.backbone.eval()
        if self.batch_norm == "frozen":
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def train_backbone(self, trained: bool) -> None:
        """Lets gradients reach what of the backbone trains in its regime, or keeps them away."""
        if self.backbone is not None:
            for name, parameter in self.backbone.network.named_parameters():
                parameter.requires_grad_(trained and name not in self.fixed)

    def trained_by_regime(self) -> list[nn.Parameter]:
        """Returns the backbone's parameters that may train: all, those of adapters, or none.

        In the regime `full`, parts that `model.frozen` names are among them, without gradient.
        """
        if self.backbone is None:
            return []
        named = self.backbone.network.named_parameters()
        return [p for name, p in named if self.regime == "full" or name not in self.fixed]

    def unchanged(self) -> frozenset[str]:
        """Returns the names, in the state dict, of what training never changes.

        Checkpoints leave it out: it is found again with the backbone's weights. In the regime
        `full` that is nothing, so that a trained network is whole in its file.
        """
        if self.backbone is None or self.regime == "full":
            return frozenset()
        names = {f"backbone.network.{name}" for name in self.fixed}
        if self.regime == "frozen" or self.batch_norm == "frozen":
            names |= {f"backbone.{name}" for name, _ in self.backbone.named_buffers()}
        return frozenset(names)

    def feature_shape(self, image_size: int) -> tuple[int, ...]:
        """Returns the shape of one item of the output for square images of that size."""
        if self._cached is not None:
            return tuple(self(torch.zeros(1, *self._cached)).shape[1:])
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
