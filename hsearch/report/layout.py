"""Embeddings on a plane: t-SNE by openTSNE where it is installed, else the first two components."""

import importlib.util
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.evaluation.tangent import tangent_vectors
from hsearch.geometry import Geometry, poincare_distances

Floats = NDArray[np.float64]
Points = NDArray[np.float32]

HINT = "for a t-SNE map: pip install 'hsearch[maps]'"

_PERPLEXITY = 30.0
_FEWEST_IMAGES = 12
_NEAREST = 10  # images amid which a proxy is drawn
_START_SPREAD = 1e-4  # of the first places, as is usual for t-SNE


@dataclass(frozen=True, eq=False)
class Layout:
    """Places on a plane.

    Attributes:
        images: (N, 2).
        proxies: (P, 2).
        how: In words, how they were found.
    """

    images: Floats
    proxies: Floats
    how: str


def lay_out(
    images: Points, proxies: Points, *, geometry: Geometry = "sphere", curvature: float = 0.0
) -> Layout:
    """Returns where to draw images so that near ones stay near, and proxies among them.

    t-SNE knows the images' distances alone, euclidean ones of unit vectors or those of the Poincare
    ball; a proxy then stands in the middle (the median) of its nearest images. Laid out with them,
    proxies would be an island of their own: they are nearer to each other than to any image. The
    principal components are those of the images' vectors, in the ball of their tangent vectors at
    its origin, and proxies are projected on them. The same points give the same places.

    Args:
        images: (N, D) in the geometry, N a few thousand at most.
        proxies: (P, D) in the geometry; P may be 0.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball.

    References:
        van der Maaten, Hinton, Visualizing Data using t-SNE, JMLR 2008.
        Policar, Strazar, Zupan, openTSNE: A Modular Python Library for t-SNE Dimensionality
        Reduction and Embedding, JSS 2024.
    """
    count, points = len(images), np.concatenate([images, proxies])
    tangent = tangent_vectors(points, geometry=geometry, curvature=curvature)
    components = _principal(tangent, count)
    if count < _FEWEST_IMAGES or importlib.util.find_spec("openTSNE") is None:
        space = "tangent vectors of the Poincare ball" if geometry == "poincare" else "unit vectors"
        hint = "" if count < _FEWEST_IMAGES else f"; {HINT}"
        how = f"principal components of {space}{hint}"
        return Layout(components[:count], components[count:], how)
    if geometry == "poincare":
        exact = torch.from_numpy(points.astype(np.float64))
        distances = poincare_distances(exact, exact[:count], curvature)
    else:
        distances = torch.cdist(tangent, tangent[:count])
    places = _neighbourly(distances[:count].numpy(), components[:count])
    nearest = distances[count:].topk(_NEAREST, largest=False).indices.numpy()
    space = "Poincare" if geometry == "poincare" else "euclidean"
    return Layout(places, np.median(places[nearest], axis=1), f"t-SNE of {space} distances")


def _principal(vectors: torch.Tensor, count: int) -> Floats:
    """All vectors on the first two principal components of the first `count` of them.

    The signs of the components do not depend on the machine.
    """
    centred = vectors - vectors[:count].mean(dim=0)
    _, _, directions = torch.linalg.svd(centred[:count], full_matrices=False)
    kept = directions[:2]
    kept = kept * kept.gather(1, kept.abs().argmax(dim=1, keepdim=True)).sign()
    places: Floats = (centred @ kept.T).numpy()
    return places


def _neighbourly(distances: Floats, start: Floats) -> Floats:
    from openTSNE import TSNE

    symmetric = (distances + distances.T) / 2
    np.fill_diagonal(symmetric, 0.0)
    fit = TSNE(
        perplexity=min(_PERPLEXITY, (len(distances) - 1) / 3),
        metric="precomputed",
        initialization=start / start.std() * _START_SPREAD,
        random_state=0,
        n_jobs=torch.get_num_threads(),
    )
    return np.array(fit.fit(symmetric), dtype=np.float64)
