"""HIER: a tree of learned ancestors in the Poincare ball.

Leaves i, j that are neighbours and k that is not must have a nearer common ancestor of i and j than
of all three. Ancestors ("LCAs": lowest common ancestors) are free points that nothing labels.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from hsearch.geometry import (
    clip_norm,
    exp_map_zero,
    l2_normalise,
    poincare_distances,
    poincare_order,
)
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._proxies import ProxyView, ball_tree
from hsearch.methods.multi_similarity import multi_similarity_loss
from hsearch.methods.proxy_anchor import Loss as ProxyAnchor
from hsearch.methods.proxy_anchor import proxy_anchor_loss
from hsearch.methods.supcon import supcon_loss

TRIPLETS_PER_ANCHOR = 50
BLOCK_ENTRIES = 2**18  # of the (triplets, LCAs) arrays worked on at once

Noise = Callable[[int], Tensor]


def reciprocal_neighbours(similarities: Tensor, count: int) -> Tensor:
    """Returns (N, N): whether two different rows are among each other's `count` most similar.

    A row itself takes one of the `count` places, as in the published code.
    """
    nearest = similarities.topk(min(count, len(similarities)), dim=1).indices
    chosen = torch.zeros_like(similarities, dtype=torch.bool).scatter_(1, nearest, True)
    return (chosen & chosen.T).fill_diagonal_(False)


def draw_triplets(reciprocal: Tensor, generator: torch.Generator) -> Tensor:
    """Returns (3, T) rows i, j, k, 50 for every i with at least two reciprocal neighbours.

    j is a reciprocal neighbour of i and k is none; k may be i. Both are drawn with replacement.
    """
    near = reciprocal.cpu()
    anchors = (near.sum(dim=1) > 1).nonzero().squeeze(1)
    if not len(anchors):
        return torch.empty(3, 0, dtype=torch.long, device=reciprocal.device)
    near = near[anchors]
    drawn = [
        torch.multinomial(rows.float(), TRIPLETS_PER_ANCHOR, replacement=True, generator=generator)
        for rows in (near, ~near)
    ]
    repeated = anchors[:, None].expand_as(drawn[0])
    return torch.stack([repeated, *drawn]).flatten(1).to(reciprocal.device)


def lca_loss(
    distances: Tensor, triplets: Tensor, noise: Noise, *, tau: float, margin: float
) -> Tensor:
    """Returns the mean over triplets (i, j, k) of the tree's violations; 0 without triplets.

    With D = distances, the ancestor a of i and j is a straight-through Gumbel-softmax choice with
    the logits -max(D_i, D_j) / tau, and b of all three with -max(D_i, D_j, D_k) / tau. Unless
    a = b, the violation is
    [D_ia - D_ib + margin]+ + [D_ja - D_jb + margin]+ + [D_kb - D_ka + margin]+.

    Triplets are worked on in blocks, each with its gradient: nothing of size (T, N) is kept.

    Args:
        distances: (M, N) from leaves to LCAs.
        triplets: (3, T) rows of `distances`.
        noise: Returns (2, n, N) draws E of Exp(1) for the next n triplets, for a and b; -log E is
            the Gumbel noise on the logits.
        tau: > 0.
        margin: >= 0.
    """
    values = distances.detach()
    gradient = torch.zeros_like(values)
    total = values.new_zeros(())
    rows = max(1, BLOCK_ENTRIES // distances.shape[1])
    for start in range(0, triplets.shape[1], rows):
        block = triplets[:, start : start + rows]
        total += _block(values, block, noise(block.shape[1]), gradient, tau, margin)
    count = max(1, triplets.shape[1])
    # The difference is 0 and carries the gradient.
    return total / count + ((distances - values) * (gradient / count)).sum()


def _block(
    distances: Tensor, triplets: Tensor, noise: Tensor, gradient: Tensor, tau: float, margin: float
) -> Tensor:
    """The sum of a block's violations; adds its derivative by `distances` to `gradient`."""
    near, other, third = (distances.index_select(0, rows) for rows in triplets)
    pair = torch.maximum(near, other)
    odds_a = _odds(pair, noise[0], tau)
    odds_b = _odds(torch.maximum(pair, third), noise[1], tau)
    a, b = odds_a.argmax(dim=1), odds_b.argmax(dim=1)
    sign = distances.new_tensor([[1.0], [1.0], [-1.0]])
    hinges = sign * (distances[triplets, a] - distances[triplets, b]) + margin
    hinges = hinges.relu_() * (a != b)
    weights = sign * (hinges > 0)
    gradient.index_put_((triplets, a.expand_as(triplets)), weights, accumulate=True)
    gradient.index_put_((triplets, b.expand_as(triplets)), -weights, accumulate=True)
    # What is left is the way through the softmaxes, and only of triplets that violate anything.
    # The loss is linear in the choices: its derivative by a is `by_choice`, by b its negative.
    some = weights.any(dim=0).nonzero().squeeze(1)
    near, other, third = (part.index_select(0, some) for part in (near, other, third))
    of_near, of_other, of_third = weights[:, some, None]
    by_choice = (of_near * near).addcmul_(of_other, other).addcmul_(of_third, third)
    by_triple = _by_logits(odds_b[some], by_choice).mul_(1.0 / tau)
    by_pair = _by_logits(odds_a[some], by_choice).mul_(-1.0 / tau).add_(by_triple)
    by_third = by_triple.mul_(third > pair[some])
    by_other = by_pair.sub_(by_third) * (other > near)
    parts = by_pair.sub_(by_other), by_other, by_third
    for rows, part in zip(triplets[:, some], parts, strict=True):
        gradient.index_add_(0, rows, part)
    return hinges.sum()


def _odds(distances: Tensor, noise: Tensor, tau: float) -> Tensor:
    """Softmax of -distances / tau - log(noise) by rows, up to a factor for each row."""
    least = distances.amin(dim=1, keepdim=True)
    return (distances - least).mul_(-1.0 / tau).exp_().div_(noise)


def _by_logits(odds: Tensor, by_softmax: Tensor) -> Tensor:
    """The derivative by the logits of a softmax, from that by its result."""
    soft = odds / odds.sum(dim=1, keepdim=True)
    mean = (soft * by_softmax).sum(dim=1, keepdim=True)
    return soft.mul_(by_softmax - mean)


class Loss(Method):
    """A metric loss on angles plus the regulariser, for the batch and for the LCAs themselves.

    Args:
        metric: The metric loss, on the cosines of the points of the ball.
        metric_weight: Weight of the metric loss, >= 0.
        hier_weight: Weight of the regulariser, >= 0.
        num_lcas: Number of LCAs (lowest common ancestors), at least 1.
        neighbors: Reciprocal neighbours are sought among so many, at least 1.
        margin: By which an ancestor of two must be nearer than one of three, >= 0.
        tau: Temperature of the choice of an ancestor, > 0.
        curvature: Of the ball, > 0: its radius is 1 / sqrt(curvature).
        radius: Longer features are cut to this norm before they enter the ball, > 0.
        proxy_scale: Scale of metric proxy_anchor, > 0.
        proxy_margin: Margin of metric proxy_anchor, >= 0.
        alpha: Sharpness of the pull of metric multi_similarity, > 0.
        beta: Sharpness of the push of metric multi_similarity, > 0.
        base: Threshold of the cosine of metric multi_similarity, whose mining margin is 0.1.
        temperature: Temperature of metric supcon, > 0.

    References:
        Kim et al., HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization,
        CVPR 2023, arXiv:2212.14258.
    """

    geometry: ClassVar[Literal["sphere", "poincare"]] = "poincare"
    groups: ClassVar[Mapping[str, float]] = {"proxies": 1e4, "lcas": 50.0}

    def __init__(
        self,
        setting: Setting,
        *,
        metric: Literal["proxy_anchor", "multi_similarity", "supcon"] = "proxy_anchor",
        metric_weight: float = 1.0,
        hier_weight: float = 0.5,
        num_lcas: int = 512,
        neighbors: int = 20,
        margin: float = 0.1,
        tau: float = 0.1,
        curvature: float = 0.1,
        radius: float = 2.3,
        proxy_scale: float = 32.0,
        proxy_margin: float = 0.1,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(setting)
        require_at_least(1, "hier", num_lcas=num_lcas, neighbors=neighbors)
        require_above(0, "hier", tau=tau, curvature=curvature, radius=radius)
        require_above(0, "hier", proxy_scale=proxy_scale, temperature=temperature)
        require_above(0, "hier", alpha=alpha, beta=beta)
        require_at_least(0, "hier", metric_weight=metric_weight, hier_weight=hier_weight)
        require_at_least(0, "hier", margin=margin, proxy_margin=proxy_margin)
        self.metric, self.metric_weight, self.hier_weight = metric, metric_weight, hier_weight
        self.neighbors, self.margin, self.tau = neighbors, margin, tau
        self.curvature, self.radius = curvature, radius
        self.metric_knobs: dict[str, float] = {
            "proxy_anchor": {"scale": proxy_scale, "margin": proxy_margin},
            "multi_similarity": {"alpha": alpha, "beta": beta, "base": base, "epsilon": 0.1},
            "supcon": {"temperature": temperature},
        }[metric]
        if metric == "proxy_anchor":
            self.proxies = ProxyAnchor(setting).proxies
        dim = setting.embedding_dim
        lcas = torch.randn(num_lcas, dim, generator=setting.generator)
        self.lcas = nn.Parameter(lcas / dim**0.5 * radius * 0.9)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Returns the LCAs and, with metric proxy_anchor, the proxies."""
        return {name: [parameter] for name, parameter in self.named_parameters()}

    def embed(self, features: Tensor) -> Tensor:
        """Maps (B, D) features into the ball."""
        return exp_map_zero(clip_norm(features, self.radius), self.curvature)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        classes = labels[:, -1]
        metric = self._metric_loss(embeddings, classes)
        return self.metric_weight * metric + self.hier_weight * self._tree_loss(embeddings, classes)

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the classes and the LCAs above them, see `ball_tree`.

        Proxies of proxy_anchor have a direction alone and are drawn where the longest embeddings
        end; other metrics have none, and their LCAs stand without a tree.
        """
        leaves = self.lcas[:0]
        if self.metric == "proxy_anchor":
            leaves = self.embed(l2_normalise(self.proxies) * self.radius)
        return ball_tree(leaves, self.embed(self.lcas), self.curvature)

    def _metric_loss(self, embeddings: Tensor, classes: Tensor) -> Tensor:
        if self.metric == "proxy_anchor":
            return proxy_anchor_loss(embeddings, classes, self.proxies, **self.metric_knobs)
        if self.metric == "supcon":
            return supcon_loss(l2_normalise(embeddings), classes, **self.metric_knobs)
        return multi_similarity_loss(embeddings, classes, **self.metric_knobs)

    def _tree_loss(self, embeddings: Tensor, classes: Tensor) -> Tensor:
        lcas = self.embed(self.lcas)
        to_lcas = poincare_distances(torch.cat([embeddings, lcas]), lcas, self.curvature)
        of_samples, of_lcas = to_lcas[: len(embeddings)], to_lcas[len(embeddings) :]
        with torch.no_grad():
            same = classes[:, None] == classes[None, :]
            x = embeddings.double()  # ordered as exp(-distance) + same, by one matrix product
            samples = 1.0 / (1.0 + poincare_order(x, x, self.curvature)) + same
        total = to_lcas.new_zeros(())
        for distances, similarities in ((of_samples, samples), (of_lcas, -of_lcas.detach())):
            reciprocal = reciprocal_neighbours(similarities, self.neighbors)
            triplets = draw_triplets(reciprocal, self.generator)
            noise = self._noise(distances)
            total = total + lca_loss(distances, triplets, noise, tau=self.tau, margin=self.margin)
        return total

    def _noise(self, distances: Tensor) -> Noise:
        """Draws of Exp(1) on the device, by a generator that is seeded from the method's own.

        Millions are drawn at every step, so they are not brought over from the CPU; CPU and CUDA
        draw different ones from the same seed.
        """
        seed = torch.randint(2**62, (), generator=self.generator)
        generator = torch.Generator(distances.device).manual_seed(int(seed))

        def draw(rows: int) -> Tensor:
            uniform = distances.new_empty(2, rows, distances.shape[1]).uniform_(generator=generator)
            return uniform.log_().neg_().clamp_(1e-9, 50.0)  # 0 and infinity would give NaN

        return draw
