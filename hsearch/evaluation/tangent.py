"""Points of either geometry as plain vectors, for what only knows straight lines."""

import numpy as np
import torch
from torch import Tensor

from hsearch.evaluation.scores import Points, check_points
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
    check_points(points, geometry, curvature)
    if isinstance(points, Tensor):
        vectors = points.detach().double()
    else:
        vectors = torch.from_numpy(np.array(points, dtype=np.float64))
    if geometry == "sphere":
        return vectors
    return log_map_zero(vectors, curvature)
