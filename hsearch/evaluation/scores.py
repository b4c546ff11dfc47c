"""How near references are to queries: float32 scores and the integer keys that order them.

A score is smaller the nearer a reference is, for one query. On the sphere it is |y|^2 / 2 - <x, y>,
which orders as the euclidean distance, after the references' mean is taken from all vectors: what
they have in common would drown their differences in float32. In the ball of curvature -c it is
|x - y|^2 / (1 - c |y|^2), which orders as the Poincare distance arcosh(1 + t) / sqrt(c) with
t = 2 c |x - y|^2 / ((1 - c |x|^2) (1 - c |y|^2)); it is the product of (x, |x|^2, 1) and
(-2 y, 1, |y|^2) / (1 - c |y|^2), computed in float64 and then rounded.

A key is unique in its row: the score first, then the index of the reference, so that equal scores
are always ordered by index.
"""

import math
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.geometry import Geometry

Points = NDArray[Any] | Tensor

MEAN_BITS = 8
TILE = 240  # queries of one product: few enough that its result stays in the processor's cache
ROWS = 48
"""Both sides of a product are filled up to a multiple of this: at the edges of a matrix, sums may
be rounded in another order, and a score would depend on the block in which it is computed."""


class Scores:
    """Scores of any block of queries against all references.

    Args:
        queries: (Q, D) floats, NumPy or torch; computed on the device where they are.
        references: (N, D) floats.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.

    Raises:
        DivergedError: A point is not finite.
        ConfigError: A point lies outside of the ball.
    """

    def __init__(
        self, queries: Points, references: Points, geometry: Geometry, curvature: float
    ) -> None:
        for points in (queries, references):
            check_points(points, geometry, curvature)
        self._in_ball = geometry == "poincare"
        if self._in_ball:
            left, right = (_tensor(points).double() for points in (queries, references))
        else:
            left, right = centred(queries, references)
        squares = right.square().sum(dim=1, keepdim=True)
        if self._in_ball:
            own_squares = left.square().sum(dim=1, keepdim=True)
            left = torch.cat([left, own_squares, torch.ones_like(own_squares)], dim=1)
            right = torch.cat([-2.0 * right, torch.ones_like(squares), squares], dim=1)
            right /= 1.0 - curvature * squares
        self._queries, self._count = left, len(right)
        self._references = _filled(right)
        self._half_squares = _filled(squares).T / 2.0

    @property
    def device(self) -> torch.device:
        """Where the scores are computed."""
        return self._references.device

    @property
    def bytes_per_pair(self) -> int:
        """Memory that a score takes while it is computed."""
        return 12 if self._in_ball else 4

    def __call__(self, rows: slice | NDArray[np.int64]) -> Tensor:
        """Returns (q, N) float32 scores of the queries of `rows`; the same in every block."""
        count = len(self._queries[rows])
        queries = _filled(self._queries[rows])
        if self._in_ball:
            scores = (queries @ self._references.T).float()
        else:
            scores = torch.addmm(self._half_squares, queries, self._references.T, alpha=-1.0)
        return scores[:count, : self._count]


def sortable_keys(scores: Tensor, tie_breakers: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns (q, N) int64 keys that ascend with the score, then with the tie breaker.

    Args:
        scores: (q, N) float32, finite; they do not survive this.
        tie_breakers: (N,) int64 in 0 .. 2^32 - 1, distinct; the low 32 bits of the keys.
        out: (q, N) int64 to be filled and returned.
    """
    bits = scores.add_(0.0).view(torch.int32)  # + 0.0 makes -0.0 and 0.0 equal
    # Negative floats descend as integers: all bits but the sign are turned.
    ascending = (bits >> 31).bitwise_and_(0x7FFFFFFF).bitwise_xor_(bits)
    keys = torch.empty_like(ascending, dtype=torch.int64) if out is None else out
    return keys.copy_(ascending).bitwise_left_shift_(32).bitwise_or_(tie_breakers)


def sort_rows(keys: Tensor) -> Tensor:
    """Returns the keys (q, N) with every row in ascending order; on the CPU in place."""
    if keys.device.type == "cpu":
        keys.numpy().sort(axis=1)  # several times faster than torch's
        return keys
    return keys.sort(dim=1).values


def centred(queries: Points, references: Points) -> tuple[Tensor, Tensor]:
    """Returns both, float32, shifted and scaled alike: the order of distances stays the same.

    About the references' mean is taken off, and the largest number is then between 1/2 and 1. The
    mean is rounded to 8 bits and the scale is a power of 2, so that differences and products of
    vectors of few bits, such as small integers, are exact and equal distances stay equal.
    """
    left, right = _tensor(queries), _tensor(references)
    mean = right.mean(dim=0, dtype=torch.float64)
    unit = 2.0 ** (_exponent(mean) - MEAN_BITS)
    mean = (mean / unit).round() * unit
    left, right = left - mean.to(left.dtype), right - mean.to(right.dtype)
    scale = 2.0 ** -max(_exponent(left), _exponent(right))
    return (left * scale).float(), (right * scale).float()


def _exponent(values: Tensor) -> int:
    return math.frexp(float(values.abs().max()))[1]


def check_points(points: Points, geometry: Geometry, curvature: float) -> None:
    """Refuses what is no list of points, not finite, or outside of the ball."""
    if geometry not in get_args(Geometry):
        raise ConfigError(f"`geometry` must be sphere or poincare, but got '{geometry}'.")
    is_tensor = isinstance(points, Tensor)
    vectors = _tensor(points).cpu().numpy() if is_tensor else np.asarray(points)
    if vectors.ndim != 2 or not vectors.size:
        raise DatasetError(
            f"Embeddings must be a table of one row per image, but got shape {vectors.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64, casting="unsafe")
    # A squared distance is at most four times the largest square: it must not overflow either.
    bad = np.flatnonzero(~(squares < np.finfo(np.float32).max / 4))
    if bad.size:
        raise DivergedError(
            f"Embeddings must be finite numbers, but {bad.size} of {len(squares)} are not (the "
            f"first is row {bad[0]}); the training diverged, try a lower learning rate."
        )
    if geometry == "poincare" and not curvature > 0:
        raise ConfigError(f"The Poincare ball needs a curvature above 0, but got {curvature}.")
    if geometry == "poincare" and squares.size and curvature * squares.max() >= 1:
        raise ConfigError(
            f"Embeddings in the ball of curvature {curvature} must have norms below "
            f"{curvature**-0.5:.4g}, but one has {squares.max() ** 0.5:.4g}; map them into the "
            "ball with `exp_map_zero`."
        )


def _tensor(points: Points) -> Tensor:
    """Returns (N, D) float32 or float64 on the points' device, not to be written to."""
    if isinstance(points, Tensor):
        points = points.detach()
        return points if points.dtype in (torch.float32, torch.float64) else points.float()
    array = np.asarray(points)
    dtype = np.float64 if array.dtype.itemsize >= 8 else np.float32
    return torch.from_numpy(np.array(array, dtype=dtype))


def _filled(points: Tensor) -> Tensor:
    missing = -len(points) % ROWS
    return torch.cat([points, points.new_zeros(missing, points.shape[1])]) if missing else points
