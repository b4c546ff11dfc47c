"""Embeddings on a plane: t-SNE by openTSNE where it is installed, else the first two components."""

import importlib.util
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.evaluation.tangent import tangent_vectors
from hsearch.geometry import Geometry, poincare_distances

Floats = NDArray[np.float64]

_PERPLEXITY = 30.0
_FEWEST_POINTS = 12
_START_SPREAD = 1e-4  # of the first places, as is usual for t-SNE


@dataclass(frozen=True, eq=False)
class Layout:
    """Places of points on a plane.

    Attributes:
        places: (N, 2).
        how: In words, how they were found.
    """

    places: Floats
    how: str


def lay_out(points: NDArray[np.float32], geometry: Geometry, curvature: float) -> Layout:
    """Returns where to draw points so that what is near each other stays so; always the same.

    t-SNE knows their distances alone: euclidean ones of unit vectors, or those of the Poincare
    ball. The principal components are those of the vectors, in the ball of the tangent vectors at
    its origin.

    Args:
        points: (N, D) in the geometry, a few thousand at most.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball.

    References:
        van der Maaten, Hinton, Visualizing Data using t-SNE, JMLR 2008.
        Policar, Strazar, Zupan, openTSNE: A Modular Python Library for t-SNE Dimensionality
        Reduction and Embedding, JSS 2024.
    """
    vectors = tangent_vectors(points, geometry=geometry, curvature=curvature)
    components = _principal(vectors)
    space = "tangent space of the Poincare ball" if geometry == "poincare" else "unit vectors"
    if len(points) < _FEWEST_POINTS:
        return Layout(components, f"principal components ({space})")
    if importlib.util.find_spec("openTSNE") is None:
        hint = "`pip install 'hsearch[maps]'` gives a t-SNE map"
        return Layout(components, f"principal components ({space}); {hint}")
    if geometry == "poincare":
        exact = torch.from_numpy(np.asarray(points, dtype=np.float64))
        distances = poincare_distances(exact, exact, curvature)
    else:
        distances = torch.cdist(vectors, vectors)
    space = "distances of the Poincare ball" if geometry == "poincare" else "euclidean distances"
    return Layout(_neighbourly(distances.numpy(), components), f"t-SNE ({space})")


def _principal(vectors: torch.Tensor) -> Floats:
    """The first two principal components, with signs that do not depend on the machine."""
    centred = vectors - vectors.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    kept = directions[:2]
    largest = kept.gather(1, kept.abs().argmax(dim=1, keepdim=True))
    places = np.zeros((len(vectors), 2))
    places[:, : len(kept)] = (centred @ (kept * largest.sign()).T).numpy()
    return places


def _neighbourly(distances: Floats, start: Floats) -> Floats:
    from openTSNE import TSNE

    np.fill_diagonal(distances, 0.0)
    symmetric = (distances + distances.T) / 2
    spread = start.std(axis=0).max()
    fit = TSNE(
        perplexity=min(_PERPLEXITY, (len(distances) - 1) / 3),
        metric="precomputed",
        initialization=start / max(spread, 1e-12) * _START_SPREAD,
        random_state=0,
        n_jobs=torch.get_num_threads(),
    )
    return np.asarray(fit.fit(symmetric), dtype=np.float64)
