"""Losses as their papers and textbooks write them, for comparison only.

A peer takes the method's parameters and buffers by name, the values of its knobs, embeddings and
labels (coarsest level first), and returns the loss at the published knobs. No blocks, no shortcuts:
full arrays over all pairs or triplets, Python loops where the published code has them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from dense import classes, hyperbolic, pairs, ranking

Peer = Callable[[Mapping[str, Tensor], Mapping[str, Any], Tensor, Tensor], Tensor]

PEERS: dict[str, Peer] = {
    "cross_entropy": classes.cross_entropy,
    "csl": classes.csl,
    "happier": ranking.happier,
    "hier": hyperbolic.hier,
    "himulcon": pairs.himulcon,
    "hpl": classes.hpl,
    "multi_similarity": pairs.multi_similarity,
    "normalized_softmax": classes.normalized_softmax,
    "proxy_anchor": classes.proxy_anchor,
    "proxy_nca": classes.proxy_nca,
    "proxy_nca_pp": classes.proxy_nca_pp,
    "roadmap": ranking.roadmap,
    "simclr": pairs.simclr,
    "smooth_ap": ranking.smooth_ap,
    "soft_triple": classes.soft_triple,
    "supcon": pairs.supcon,
    "triplet": pairs.triplet,
}
