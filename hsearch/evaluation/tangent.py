"""Points of either geometry as plain vectors, for what only knows straight lines."""

import numpy as np
import torch
from torch import Tensor

from hsearch.errors import ConfigError, DivergedError
from hsearch.evaluation.neighbors import Points
from hsearch.geometry import Geometry, log_map_zero


def tangent_vectors(
    points: Points, *, geometry: Geometry = "sphere", curvature: float = 0.0
) -> Tensor:
    """Returns (N, D) float64: the vectors as given, or the ball's tangent vectors at its origin.

    The logarithm at the origin keeps a point's direction and its distance from the origin;
    distances between other points are only approximated by those of their tangent vectors.

    Args:
        points: (N, D) floats, NumPy or torch.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.

    Raises:
        DivergedError: A point is not finite.
        ConfigError: The ball has no curvature, or a point lies outside of it.
    """
    if isinstance(points, Tensor):
        vectors = points.detach().double()
    else:
        vectors = torch.from_numpy(np.array(points, dtype=np.float64))
    num_bad = int((~vectors.isfinite().all(dim=1)).sum())
    if num_bad:
        raise DivergedError(
            f"Embeddings must be finite numbers, but {num_bad} of {len(vectors)} are not; the "
            "training diverged, try a lower learning rate."
        )
    if geometry == "sphere":
        return vectors
    if not curvature > 0:
        raise ConfigError(f"The Poincare ball needs a curvature above 0, but got {curvature}.")
    if bool((curvature * (vectors * vectors).sum(dim=1) >= 1).any()):
        raise ConfigError(
            f"Embeddings in the ball of curvature {curvature} must have norms below "
            f"{curvature**-0.5:.4g}, but some have not; map them with `exp_map_zero`."
        )
    return log_map_zero(vectors, curvature)
