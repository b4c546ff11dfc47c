"""The sphere and the Poincare ball as pure torch functions: rows are points, batches come first.

The ball of curvature -c (c > 0) has the radius 1 / sqrt(c). All functions take c at every call and
hold no state, keep the dtype (float32 or float64) and device of their input, and use the small
constants of the published code, so that numbers agree with it.

References:
    Ganea, Becigneul, Hofmann, Hyperbolic Neural Networks, NeurIPS 2018, arXiv:1805.09112.
    Kim, Jeong, Kwak, HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization,
    CVPR 2023, arXiv:2212.14258.
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor

Geometry = Literal["sphere", "poincare"]

SMALLEST_NORM = 1e-5  # of a vector that is divided by its norm; also added to denominators
BORDER = 1e-3  # no point is nearer to the border of the ball than this share of the radius
LARGEST_TANH_ARGUMENT = 15.0
LARGEST_ARTANH_ARGUMENT = 1.0 - 1e-5


def l2_normalise(x: Tensor, eps: float = 1e-12) -> Tensor:
    """Returns (..., D) with every row scaled to norm 1; a row of zeros stays zero."""
    return x / _norms(x).clamp_min(eps)


def cosine_similarities(x: Tensor, y: Tensor) -> Tensor:
    """Returns (N, M): the cosine of the angle between every row of x (N, D) and of y (M, D)."""
    return l2_normalise(x) @ l2_normalise(y).T


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Returns (N, M): |x - y|^2 of all rows by one matrix product, never below 0.

    Its rounding error is about the machine epsilon times |x|^2 + |y|^2: good for ordering in
    float64, too coarse for gradients between near points.
    """
    squares = (x * x).sum(dim=1)[:, None] + (y * y).sum(dim=1)[None, :]
    return squares.addmm_(x, y.T, alpha=-2.0).clamp_min_(0.0)


def clip_norm(x: Tensor, radius: float) -> Tensor:
    """Returns (..., D) with rows longer than `radius` (> 0) shortened to it."""
    norm = _norms(x) + SMALLEST_NORM
    return x * (radius / norm).clamp_max(1.0)


def exp_map_zero(u: Tensor, curvature: float) -> Tensor:
    """Maps tangent vectors at the origin into the ball: tanh(sqrt(c) |u|) u / (sqrt(c) |u|).

    Points too near to the border are moved inwards along their radius. Backward multiplies the
    gradient that arrives at a point y by (1 - c |y|^2)^2 / 4, the inverse of the ball's metric,
    before it goes on through the map ("Riemannian" gradient).

    Args:
        u: (..., D) tangent vectors.
        curvature: c > 0; 0.01 to 1 are sensible.

    Returns:
        (..., D) points with norm at most 0.999 / sqrt(c).
    """
    root = _root(curvature)
    scaled = root * _norms(u).clamp_min(SMALLEST_NORM)
    y = scaled.clamp_max(LARGEST_TANH_ARGUMENT).tanh() * u / scaled
    norm = _norms(y).clamp_min(SMALLEST_NORM)
    largest = (1.0 - BORDER) / root
    y = torch.where(norm > largest, y / norm * largest, y)
    return _apply(_RiemannianGradient, y, curvature)


def log_map_zero(y: Tensor, curvature: float) -> Tensor:
    """Maps points (..., D) of the ball to tangent vectors at the origin, against exp_map_zero."""
    root = _root(curvature)
    norm = _norms(y).clamp_min(SMALLEST_NORM)
    return y / norm / root * _apply(_ClampedArtanh, root * norm)


def poincare_distances(x: Tensor, y: Tensor, curvature: float) -> Tensor:
    """Returns (N, M): the geodesic distances between points x (N, D) and y (M, D) of the ball.

    d = 2 / sqrt(c) artanh(sqrt(c) |(-x) + y|) with the Moebius sum. Its numerator has the norm
    |x - y| sqrt(s) and its denominator is s = 1 - 2 c <x, y> + c^2 |x|^2 |y|^2, which needs no
    (N, M, D) array. Differentiable, with gradient 0 where x = y.
    """
    root = _root(curvature)
    squares = (x * x).sum(dim=1)[:, None] * (y * y).sum(dim=1)[None, :]
    s = 1.0 - 2.0 * curvature * (x @ y.T) + curvature**2 * squares
    gap = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    moebius = gap * s.sqrt() / (s + SMALLEST_NORM)
    return 2.0 / root * _apply(_ClampedArtanh, root * moebius)


def poincare_order(x: Tensor, y: Tensor, curvature: float) -> Tensor:
    """Returns (N, M): numbers that order pairs of points of the ball as their distances do.

    d = arcosh(1 + t) / sqrt(c) with t = 2 c |x - y|^2 / ((1 - c |x|^2) (1 - c |y|^2)); t is
    returned. One matrix product, for ranking without gradients; use float64.
    """
    _root(curvature)
    x_room = 1.0 - curvature * (x * x).sum(dim=1)
    y_room = 1.0 - curvature * (y * y).sum(dim=1)
    t = squared_distances(x, y).mul_(2.0 * curvature)
    return t.div_(x_room[:, None]).div_(y_room[None, :])


class _RiemannianGradient(torch.autograd.Function):
    """Identity whose gradient is scaled by (1 - c |y|^2)^2 / 4."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, curvature: float) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(y)
        ctx.curvature = curvature
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        (y,) = ctx.saved_tensors
        scale = (1.0 - ctx.curvature * (y * y).sum(dim=-1, keepdim=True)) ** 2 / 4.0
        return gradient * scale, None


class _ClampedArtanh(torch.autograd.Function):
    """Artanh of the argument clamped below 1, whose gradient goes on through the clamp."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        clamped = x.clamp(-LARGEST_ARTANH_ARGUMENT, LARGEST_ARTANH_ARGUMENT)
        ctx.save_for_backward(clamped)
        return torch.atanh(clamped)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        (clamped,) = ctx.saved_tensors
        scaled: Tensor = gradient / (1.0 - clamped**2)
        return scaled


def _norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norms


def _apply(function: type[torch.autograd.Function], *arguments: Tensor | float) -> Tensor:
    result: Tensor = function.apply(*arguments)
    return result


def _root(curvature: float) -> float:
    if not 0.0 < curvature < math.inf:
        raise ValueError(f"`curvature` must be a number above 0, but got {curvature}.")
    return math.sqrt(curvature)
