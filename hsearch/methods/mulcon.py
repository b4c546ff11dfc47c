"""MulCon: an embedding for each label of an image, contrasted.

A network of attention (LLEN, "label-level embedding network") looks for every label in the places
of an image. Of the rows of the paper's ablation study this is LLEN + BCE with `gamma` 0, LLEN + BCE
+ LLCL without stages, and MulCon as published: first without the contrast, then with it. The rows
without the network are bce.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting, require
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._layers import AttentionBlock, Linear, projector
from hsearch.methods.bce import bce_loss
from hsearch.methods.supcon import contrastive_terms


def chosen_entries(labels: Tensor, logits: Tensor | None = None, hard_negatives: int = 0) -> Tensor:
    """Returns (M,) which entries are contrasted, n * T + t for label t of image n.

    First come all active ones, then of the others those with the highest logits.

    Args:
        labels: (N, T) multi-hot.
        logits: (N, T); needed for hard negatives alone.
        hard_negatives: How many inactive entries are taken; all, if there are fewer.
    """
    active = labels.flatten().bool()
    chosen = active.nonzero().squeeze(1)
    if logits is None or not hard_negatives:
        return chosen
    inactive = (~active).nonzero().squeeze(1)
    hardest = logits.detach().flatten()[inactive].topk(min(hard_negatives, len(inactive))).indices
    return torch.cat([chosen, inactive[hardest]])


def contrast_entries(
    rows: Tensor, chosen: Tensor, labels: Tensor, *, temperature: float, base_temperature: float
) -> Tensor:
    """Returns LLCL of embeddings (M, D) of `chosen_entries` (M,); see `llcl_loss`."""
    active = labels.flatten().bool()[chosen]
    # Inactive entries have no positives, and so no loss of their own.
    of_label = torch.where(active, chosen % labels.shape[1], -1)
    positives = (of_label[:, None] == of_label[None, :]) & active
    terms, _ = contrastive_terms(rows @ rows.T, positives, temperature=temperature)
    return temperature / base_temperature * terms.sum() / active.sum().clamp_min(1)


def llcl_loss(
    embeddings: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    base_temperature: float,
    logits: Tensor | None = None,
    hard_negatives: int = 0,
) -> Tensor:
    """Returns the label-level contrastive loss: SupCon where labels of images take images' places.

    Anchors are all active entries (image, label); positives are those of the same label in other
    images, and all other chosen entries are in the denominator. It is the mean over anchors, times
    temperature / base_temperature; anchors without a positive count with a loss of 0. Only chosen
    entries are compared.

    Args:
        embeddings: (N, T, D), unit rows: all views of all images.
        labels: (N, T) multi-hot.
        temperature: > 0.
        base_temperature: > 0; only scales the loss.
        logits: (N, T), by which hard negatives are found; they get no gradient.
        hard_negatives: How many inactive entries join the denominators, those of highest logits.
    """
    chosen = chosen_entries(labels, logits, hard_negatives)
    return contrast_entries(
        embeddings.flatten(0, 1)[chosen],
        chosen,
        labels,
        temperature=temperature,
        base_temperature=base_temperature,
    )


class LabelNetwork(nn.Module):
    """The LLEN: two blocks of places among themselves, labels that look at places, one of labels.

    Args:
        channels: Length of a place's features, a multiple of `heads`.
        num_labels: T.
        width: Length D of a label's embedding, a multiple of `heads`.
        heads: Of every attention block, at least 1.
        generator: Draws the weights.
    """

    def __init__(
        self, channels: int, num_labels: int, width: int, heads: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.places = nn.ModuleList(
            AttentionBlock(channels, channels, channels, heads, generator) for _ in range(2)
        )
        self.queries = nn.Parameter(torch.empty(num_labels, width))
        nn.init.xavier_uniform_(self.queries, generator=generator)
        self.look = AttentionBlock(width, channels, width, heads, generator)
        self.among_labels = AttentionBlock(width, width, width, heads, generator)

    def forward(self, features: Tensor) -> Tensor:
        """Maps (B, C, h, w) to (B, T, D)."""
        found = self.look(self.queries, self._places(features))
        embeddings: Tensor = self.among_labels(found, found)
        return embeddings

    def looks(self, features: Tensor) -> Tensor:
        """Returns (B, T, heads, h, w), how labels look at the places of (B, C, h, w)."""
        weights = self.look.weights(self.queries, self._places(features)).transpose(1, 2)
        return weights.reshape(*weights.shape[:-1], *features.shape[-2:])

    def _places(self, features: Tensor) -> Tensor:
        x = features.flatten(2).transpose(1, 2)
        for block in self.places:
            x = block(x, x)
        return x


class Loss(Method):
    """Finds every label by attention, classifies it, and contrasts those that an image has.

    With `gamma` 0 nothing is contrasted and the projector not trained, but kept: stages of a recipe
    that begin without the contrast hand their state on to those with it.

    Args:
        temperature: Of the contrast's softmax over cosines, > 0.
        base_temperature: Divides the contrast, > 0; the published code never changes it.
        gamma: Weight of the contrast beside BCE's 1, >= 0. 0.1 is the paper's, which sums over
            anchors where this and the official code average; that code's default is 0.5.
        heads: Of every attention block, at least 1; they share out the backbone's channels and
            `model.embedding_dim`, so both must be multiples of it.
        projection_dim: Length of the embeddings that are contrasted, at least 1.
        hard_negatives: Labels that images do not have, >= 0, that join the contrast's denominators:
            those with the highest scores of the batch.

    References:
        Dao et al., Contrastively Enforcing Distinctiveness for Multi-Label Classification,
        submitted to ICLR 2022, arXiv:2107.11626.
    """

    task = "multilabel"
    features = "map"
    views: int = 2
    wishes: ClassVar[Mapping[str, Any]] = {
        "batch.sampler": "shuffle",
        "stages": {"classify": {"share": 0.5, "method": {"gamma": 0.0}, "batch": {"views": 1}}},
    }
    groups: ClassVar[Mapping[str, float]] = {"attention": 10.0, "classifiers": 10.0}

    def __init__(
        self,
        setting: Setting,
        *,
        temperature: float = 0.2,
        base_temperature: float = 0.2,
        gamma: float = 0.1,
        heads: int = 4,
        projection_dim: int = 128,
        hard_negatives: int = 0,
    ) -> None:
        super().__init__(setting)
        require_above(0, "mulcon", temperature=temperature, base_temperature=base_temperature)
        require_at_least(0, "mulcon", gamma=gamma, hard_negatives=hard_negatives)
        require_at_least(1, "mulcon", heads=heads, projection_dim=projection_dim)
        self.temperature, self.base_temperature = temperature, base_temperature
        self.gamma, self.hard_negatives = gamma, hard_negatives
        channels, width = setting.feature_shape[0], setting.embedding_dim
        _require_shares(heads, channels, width)
        num_labels = setting.hierarchy.num_classes
        self.attention_network = LabelNetwork(channels, num_labels, width, heads, self.generator)
        self.classifiers = Linear(width, num_labels, self.generator)
        self.projector = projector(width, projection_dim, self.generator)
        self.projector.requires_grad_(gamma > 0)

    def embed(self, features: Tensor) -> Tensor:
        """Maps (B, C, h, w) features to (B, T, D), of any norm."""
        embeddings: Tensor = self.attention_network(features)
        return embeddings

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; rows of `labels` are multi-hot."""
        logits = self.scores(embeddings)
        loss = bce_loss(logits, labels)
        if self.gamma > 0:
            chosen = chosen_entries(labels, logits, self.hard_negatives)
            contrast = contrast_entries(
                l2_normalise(self.projector(embeddings.flatten(0, 1)[chosen])),
                chosen,
                labels,
                temperature=self.temperature,
                base_temperature=self.base_temperature,
            )
            loss = loss + self.gamma * contrast
        return loss

    def scores(self, embeddings: Tensor) -> Tensor:
        """Returns (B, T) logits, each by the label's own classifier of its own embedding."""
        own = torch.einsum("btd,td->bt", embeddings, self.classifiers.weight)
        return own + self.classifiers.bias

    @torch.no_grad()
    def attention(self, features: Tensor) -> Tensor:
        """Returns (B, T, heads, h, w), how every label looks at the places of (B, C, h, w)."""
        return self.attention_network.looks(features)

    def label_vectors(self) -> Tensor:
        """Returns (T, D), the queries of all labels."""
        return self.attention_network.queries.detach()

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Returns the parameters that are trained; without `gamma` the projector is not."""
        others = [*self.classifiers.parameters(), *self.projector.parameters()]
        return {
            "attention": list(self.attention_network.parameters()),
            "classifiers": [p for p in others if p.requires_grad],
        }


def _require_shares(heads: int, channels: int, width: int) -> None:
    require(
        channels % heads == 0 and width % heads == 0,
        f"`heads` of mulcon must divide the backbone's channels ({channels}) and "
        f"`model.embedding_dim` ({width}), but got {heads}; choose a divisor of "
        f"{math.gcd(channels, width)}.",
    )
