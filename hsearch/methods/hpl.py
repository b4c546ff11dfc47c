"""HPL: a proxy loss at every level of a learned hierarchy.

It is learned by clustering the proxies. No code of the authors is public, and the paper leaves open
how coarse proxies move between clusterings; `coarse_mode` offers the three readings that fit it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from hsearch.geometry import l2_normalise
from hsearch.hierarchy import Hierarchy
from hsearch.methods._base import Method, Setting, require
from hsearch.methods._knobs import knobs_of, require_above, require_at_least
from hsearch.methods._proxies import ProxyView, unit_proxies
from hsearch.methods.proxy_anchor import Loss as ProxyAnchor
from hsearch.methods.proxy_anchor import proxy_anchor_loss
from hsearch.methods.proxy_nca import Loss as ProxyNCA
from hsearch.methods.proxy_nca import proxy_nca_loss

Base = Literal["proxy_anchor", "proxy_nca"]


def hpl_loss(
    embeddings: Tensor,
    classes: Tensor,
    proxies: Sequence[Tensor],
    parents: Sequence[Tensor],
    *,
    base: Base,
    scales: Sequence[float],
    margins: Sequence[float],
    weights: Sequence[float],
) -> Tensor:
    """Returns sum_l weights[l] * base(x, y_l; proxies[l]), finest level first.

    y_0 is the class and y_l = parents[l - 1][y_(l-1)].

    Args:
        embeddings: (B, D).
        classes: (B,) ids below C.
        proxies: One (K_l, D) per level, K_0 = C.
        parents: One (K_l,) per level but the last: the coarser label of each label.
        base: The loss of every level.
        scales: Per level, > 0.
        margins: Per level, >= 0; `proxy_nca` has none and ignores them.
        weights: Per level, >= 0.
    """
    total = embeddings.new_zeros(())
    labels = classes
    for level, level_proxies in enumerate(proxies):
        if level:
            labels = parents[level - 1][labels]
        if base == "proxy_nca":
            loss = proxy_nca_loss(embeddings, labels, level_proxies, scale=scales[level])
        else:
            loss = proxy_anchor_loss(
                embeddings, labels, level_proxies, scale=scales[level], margin=margins[level]
            )
        total = total + weights[level] * loss
    return total


def k_means(points: Tensor, centroids: Tensor, max_iterations: int = 50) -> tuple[Tensor, Tensor]:
    """Lloyd's algorithm from given centroids until no point changes its cluster.

    Ties go to the lowest cluster; an empty cluster keeps its centroid. Only matrix products are
    used, so equal inputs give equal outputs on every rank, on CUDA too.

    Args:
        points: (N, D).
        centroids: (K, D) to start from.
        max_iterations: The most updates of the centroids.

    Returns:
        The centroids (K, D), and the cluster (N,) of every point.
    """
    assignment = _nearest(points, centroids)
    for _ in range(max_iterations):
        centroids = cluster_means(points, assignment, centroids)
        previous, assignment = assignment, _nearest(points, centroids)
        if torch.equal(previous, assignment):
            break
    return centroids, assignment


def cluster_means(points: Tensor, assignment: Tensor, fallback: Tensor) -> Tensor:
    """Returns (K, D): the mean of every cluster's points, `fallback` (K, D) where it has none."""
    members = nn.functional.one_hot(assignment, len(fallback)).T.to(points.dtype)
    counts = members.sum(dim=1, keepdim=True)
    means = members @ points / counts.clamp(min=1)
    return torch.where(counts > 0, means, fallback)


def _nearest(points: Tensor, centroids: Tensor) -> Tensor:
    # |p - c|^2 without |p|^2, which does not change the order. The product rounds equal columns
    # differently, so what lies within rounding of the least counts as equal to it.
    distances = (centroids**2).sum(dim=1) - 2 * points @ centroids.T
    rounding = 16 * torch.finfo(points.dtype).eps * distances.abs().max()
    least = distances <= distances.min(dim=1, keepdim=True).values + rounding
    return least.int().argmax(dim=1)


class Loss(Method):
    """Proxies for the classes and for one or more coarser levels above them.

    Coarser levels are clusters of the next finer level's normalised proxies. Every `update_period`
    iterations they are clustered again, starting from the current coarse proxies so that clusters
    keep their identity, and the coarse proxies are overwritten with the centroids.

    Args:
        base: The loss of every level.
        hierarchy_source: `learned` by clustering, or `given` by the data set's own labels.
        num_coarse: Proxies of the first coarse level, at least 1; never more than classes.
        coarse_levels: Coarse levels, at least 1. Of n levels, level l has num_coarse^((n+1-l)/n)
            proxies: with 100 and 2 levels 100, then 10. Unused with a given hierarchy.
        update_period: Iterations between two clusterings, at least 1.
        coarse_mode: Between clusterings coarse proxies are trained (`param`), stand still
            (`frozen`), or are the mean of their children, with gradient (`mean`).
        fine_scale: Scale of the base loss on the classes, > 0; 32 for proxy_anchor, 9 for
            proxy_nca, as these have alone.
        coarse_scale: Scale of the base loss on coarse levels, > 0; likewise.
        fine_margin: Margin on the classes, >= 0; for base proxy_anchor.
        coarse_margin: Margin on coarse levels, >= 0; for base proxy_anchor.
        coarse_weight: Weight of each coarse level, >= 0; the classes have weight 1.

    Published (in the supplement, which is what we have):
        Embeddings and proxies of length 1; one proxy per class and coarse ones above; a hierarchy
        learned by clustering, every T iterations; Proxy-Anchor (scale 32, margin 0.1) or Proxy-NCA
        at every level; 10 coarse proxies on Cars, 12 to 500 on SOP, 48 and 500 on iNaturalist, 500
        on In-Shop; T of 10 to 80. Second protocol: that of the Reality Check with a batch of 128;
        searched are the proxies' learning rate, the number of coarse proxies, T, and scale and
        margin of every level.

    Our reading (no code of the authors is public):
        k-means from the current coarse proxies on; between clusterings these are trained
        (`coarse_mode`); all levels weigh the same (`coarse_weight`); Proxy-NCA's scale is 9, the
        usual radius of 3, and the positive proxy is in its denominator; the 10 coarse proxies and
        the T of 20 of Cars serve everywhere as published values. Second protocol: the ranges, but
        for that of the learning rate, which is the Reality Check's; how many images of a class a
        batch has (two where a fold has fewer than 128 classes, else one); that the base loss and
        `coarse_weight` are searched too.

    References:
        Yang et al., Hierarchical Proxy-based Loss for Deep Metric Learning, WACV 2022,
        arXiv:2103.13538.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 100.0}

    def __init__(
        self,
        setting: Setting,
        *,
        base: Base = "proxy_anchor",
        hierarchy_source: Literal["learned", "given"] = "learned",
        num_coarse: int = 10,
        coarse_levels: int = 1,
        update_period: int = 20,
        coarse_mode: Literal["param", "frozen", "mean"] = "param",
        fine_scale: float | None = None,
        coarse_scale: float | None = None,
        fine_margin: float = 0.1,
        coarse_margin: float = 0.1,
        coarse_weight: float = 1.0,
    ) -> None:
        super().__init__(setting)
        own_scale = _scale_of(base)
        fine_scale = own_scale if fine_scale is None else fine_scale
        coarse_scale = own_scale if coarse_scale is None else coarse_scale
        require_at_least(1, "hpl", num_coarse=num_coarse, coarse_levels=coarse_levels)
        require_at_least(1, "hpl", update_period=update_period)
        require_above(0, "hpl", fine_scale=fine_scale, coarse_scale=coarse_scale)
        require_at_least(0, "hpl", fine_margin=fine_margin, coarse_margin=coarse_margin)
        require_at_least(0, "hpl", coarse_weight=coarse_weight)
        self.base: Base = base
        self.learned = hierarchy_source == "learned"
        self.update_period, self.coarse_mode = update_period, coarse_mode
        base_method = ProxyNCA(setting) if base == "proxy_nca" else ProxyAnchor(setting)
        self.proxies = base_method.proxies
        if self.learned:
            sizes = _level_sizes(setting.hierarchy.num_classes, num_coarse, coarse_levels)
            self._cluster_first_time(sizes)
        else:
            self._take_hierarchy(setting.hierarchy)
        coarse = self.num_coarse_levels
        self.scales = (fine_scale,) + coarse * (coarse_scale,)
        self.margins = (fine_margin,) + coarse * (coarse_margin,)
        self.weights = (1.0,) + coarse * (coarse_weight,)

    @classmethod
    def published(cls, knobs: Mapping[str, object]) -> dict[str, bool | int | float | str]:
        """Returns the scales, which are those of the base loss alone."""
        own_scale = _scale_of(knobs.get("base", "proxy_anchor"))
        return {"fine_scale": own_scale, "coarse_scale": own_scale}

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; coarse labels follow from the class by the clusters."""
        return hpl_loss(
            embeddings,
            labels[:, -1],
            self.level_proxies(),
            self.parents,
            base=self.base,
            scales=self.scales,
            margins=self.margins,
            weights=self.weights,
        )

    @torch.no_grad()
    def step(self, iteration: int) -> Iterable[nn.Parameter]:
        """Clusters again every `update_period` iterations, the finest level first."""
        if iteration % self.update_period or (not self.learned and self.coarse_mode == "param"):
            return ()
        points = l2_normalise(self.proxies)
        for level in range(self.num_coarse_levels):
            coarse = self._coarse(level)
            if self.learned:
                start = l2_normalise(self.level_proxies()[level + 1])
                centroids, assignment = k_means(points, start)
                self._parent(level).copy_(assignment)
            else:
                centroids = cluster_means(points, self._parent(level), coarse)
            coarse.copy_(centroids)
            points = l2_normalise(centroids)
        return [p for name, p in self.named_parameters() if name.startswith("coarse_")]

    @property
    def num_coarse_levels(self) -> int:
        """Number of levels above the classes."""
        return sum(name.startswith("parent_") for name, _ in self.named_buffers())

    @property
    def parents(self) -> list[Tensor]:
        """The coarser label of each label, one (K_l,) per level but the coarsest."""
        return [self._parent(level) for level in range(self.num_coarse_levels)]

    def level_proxies(self) -> list[Tensor]:
        """Returns the proxies of all levels, finest first."""
        levels: list[Tensor] = [self.proxies]
        for level in range(self.num_coarse_levels):
            coarse = self._coarse(level)
            if self.coarse_mode == "mean":
                coarse = cluster_means(l2_normalise(levels[-1]), self._parent(level), coarse)
            levels.append(coarse)
        return levels

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of all levels, each below that of its cluster."""
        return unit_proxies(self.level_proxies(), self.parents)

    def _cluster_first_time(self, sizes: Sequence[int]) -> None:
        points = l2_normalise(self.proxies.detach())
        for size in sizes:
            chosen = torch.randperm(len(points), generator=self.generator)[:size]
            centroids, assignment = k_means(points, points[chosen])
            self._add_level(centroids, assignment)
            points = l2_normalise(centroids)

    def _take_hierarchy(self, hierarchy: Hierarchy) -> None:
        require(
            hierarchy.num_levels > 1,
            "`hierarchy_source: given` needs a data set with more "
            "than one level of labels, but this one has only classes; use `learned`.",
        )
        points = l2_normalise(self.proxies.detach())
        for level in reversed(range(hierarchy.num_levels - 1)):
            parent = torch.empty(hierarchy.sizes[level + 1], dtype=torch.long)
            paths = torch.from_numpy(hierarchy.paths.copy())
            parent[paths[:, level + 1]] = paths[:, level]
            none = points.new_zeros(hierarchy.sizes[level], points.shape[1])
            centroids = cluster_means(points, parent, none)
            self._add_level(centroids, parent)
            points = l2_normalise(centroids)

    def _add_level(self, centroids: Tensor, assignment: Tensor) -> None:
        level = self.num_coarse_levels
        if self.coarse_mode == "param":
            self.register_parameter(f"coarse_{level}", nn.Parameter(centroids.clone()))
        else:
            self.register_buffer(f"coarse_{level}", centroids.clone())
        self.register_buffer(f"parent_{level}", assignment.clone())

    def _coarse(self, level: int) -> Tensor:
        return (
            self.get_parameter(f"coarse_{level}")
            if self.coarse_mode == "param"
            else (self.get_buffer(f"coarse_{level}"))
        )

    def _parent(self, level: int) -> Tensor:
        return self.get_buffer(f"parent_{level}")


def _scale_of(base: object) -> float:
    """The published scale of a base loss, so that what HPL adds to it can be told."""
    method = ProxyNCA if base == "proxy_nca" else ProxyAnchor
    return float(knobs_of(method)["scale"].default)


def _level_sizes(num_classes: int, num_coarse: int, levels: int) -> list[int]:
    """Coarse level l of n has num_coarse^((n + 1 - l) / n) proxies, never more than below it."""
    largest = min(num_coarse, num_classes)
    return [max(1, round(largest ** ((levels - level) / levels))) for level in range(levels)]
