"""The contract of a method: its training objective, its embedding map and its parameters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.hierarchy import Hierarchy
from hsearch.methods._proxies import ProxyView


@dataclass(frozen=True)
class Setting:
    """What a method is built for.

    Attributes:
        hierarchy: Label paths of the training classes only, numbered 0..C-1; for `multilabel` all
            labels, on one level.
        feature_shape: Shape of one item of what `embed` receives: `(embedding_dim,)` behind the
            recipe's head, `(channels,)` for methods with `features = "pooled"`, or
            `(channels, height, width)` for those with `features = "map"`.
        embedding_dim: Length D of an embedding.
        generator: Source of every random draw of the method. It is seeded alike on all ranks and
            is saved with the method's state; it lives on the CPU.
        views: Augmented copies of each image, if others than the method asks for.
    """

    hierarchy: Hierarchy
    feature_shape: tuple[int, ...]
    embedding_dim: int
    generator: torch.Generator
    views: int | None = None


class Method(nn.Module):
    """A training objective with the parameters that belong to it.

    A subclass is called `Loss` and lives in `methods/<name>.py`; the keyword-only arguments of its
    constructor are its knobs, and their defaults are the published values, or None where
    `published` says them. It knows no optimiser,
    rank, device, logger or global random state: the same batch gives the same loss everywhere.

    Class attributes:
        task: `retrieval` (labels are paths, (B, L) ids) or `multilabel` (labels are multi-hot).
        geometry: Where embeddings live: `sphere` (unit vectors, euclidean order) or `poincare`
            (a ball with the method's `curvature`).
        features: What `embed` receives: `vector`, the output of the recipe's pooling and head;
            `pooled`, that of the pooling alone, or `map`, the backbone's spatial features. For the
            last two the method owns its head. A `multilabel` one over maps can also be built for 0
            channels, so that its knobs are checked before there is a network.
        views: Augmented copies of each image in a batch, where the recipe does not say.
        wishes: Settings that the method wants where a recipe leaves them open, by dotted name, such
            as a sampler or changes of colours.
        supervised: Whether the loss sees the labels; if not, only views of an image attract.
        groups: Names of the method's optimiser groups, with the published factor of their learning
            rate relative to the backbone's. A group called `head` follows the recipe's head.
    """

    task: ClassVar[Literal["retrieval", "multilabel"]] = "retrieval"
    geometry: ClassVar[Literal["sphere", "poincare"]] = "sphere"
    features: ClassVar[Literal["vector", "pooled", "map"]] = "vector"
    views: int = 1
    wishes: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    supervised: ClassVar[bool] = True
    groups: ClassVar[Mapping[str, float]] = {}
    curvature: float = 1.0

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.generator = setting.generator
        if setting.views is not None:
            self.views = setting.views

    @classmethod
    def published(cls, knobs: Mapping[str, object]) -> dict[str, bool | int | float | str]:
        """Returns the published values of knobs whose default is None, as they depend on others.

        Args:
            knobs: Values of some knobs; the others have their defaults.
        """
        return {}

    def embed(self, features: Tensor) -> Tensor:
        """Maps (B, *feature_shape) features to embeddings in the method's geometry.

        They are (B, D), or (B, T, D) of a `multilabel` method that has one for each of T labels.
        """
        return l2_normalise(features)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss of the whole batch over all ranks.

        Args:
            embeddings: (V * B, ...) float32, of `embed`; all first views come first.
            labels: (V * B, L) ids, coarsest level first; multi-hot (V * B, T) for multilabel.
        """
        raise NotImplementedError(f"{type(self).__module__} must define forward().")

    def scores(self, embeddings: Tensor) -> Tensor:
        """Returns (B, T) logits of every label from embeddings; only `multilabel` methods do."""
        raise NotImplementedError(f"{type(self).__module__} must define scores().")

    def attention(self, features: Tensor) -> Tensor | None:
        """Returns where the method looks for each label, to be drawn; None if it does not say.

        Args:
            features: (B, *feature_shape).

        Returns:
            (B, T, heads, height, width) weights, which sum to 1 over the places of a head.
        """
        return None

    def label_vectors(self) -> Tensor | None:
        """Returns (T, K), what the method has learned about every label; None if there is none."""
        return None

    def step(self, iteration: int) -> Iterable[nn.Parameter]:
        """Moves the method's state after optimiser step `iteration` (from 1).

        Returns:
            The parameters it has overwritten; the training loop forgets their moments.
        """
        return ()

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Returns the trainable parameters by group; the names are the keys of `groups`."""
        if not self.groups:
            return {}
        (name,) = self.groups
        return {name: list(self.parameters())}

    def proxy_view(self) -> ProxyView | None:
        """Returns the method's proxies to be drawn, None if it has none; it changes nothing."""
        return None

    def get_extra_state(self) -> Tensor:
        """Saves the generator with the parameters and buffers."""
        return self.generator.get_state()

    def set_extra_state(self, state: Any) -> None:  # noqa: ANN401 (torch's own signature)
        """Restores the generator."""
        self.generator.set_state(state.cpu())


def require(rule: bool, sentence: str) -> None:
    """Raises a ConfigError with the sentence unless the rule holds."""
    if not rule:
        raise ConfigError(sentence)
