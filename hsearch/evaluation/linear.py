"""Multinomial logistic regression on features that stay as they are."""

import logging
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.errors import ConfigError
from hsearch.evaluation.neighbors import MEMORY_BUDGET

IntArray = NDArray[np.int64]

MAX_ITERATIONS = 1000
GRADIENT_TOLERANCE = 1e-8  # largest entry of the gradient of the mean loss at which a fit ends

logger = logging.getLogger(__name__)


def fit_linear(
    features: Tensor, classes: IntArray, *, l2: float, memory_budget: int = MEMORY_BUDGET
) -> tuple[Tensor, Tensor]:
    """Returns the weights (D, C) and bias (C,) that fit the classes best.

    They minimise the sum over images of the cross-entropy plus l2 / 2 times the squared weights
    (not the bias), which is scikit-learn's LogisticRegression with C = 1 / l2. The problem is
    convex: full-batch L-BFGS from zero needs no learning rate and no seed.

    Args:
        features: (N, D) float64.
        classes: (N,) numbers 0..C-1.
        l2: > 0; 1 is scikit-learn's default.
        memory_budget: Bytes that the scores of a block of images may take.

    Raises:
        ConfigError: `l2` is not above 0.
    """
    if not 0 < l2 < float("inf"):
        raise ConfigError(f"`l2` must be a number above 0, but got {l2}.")
    num_images, num_classes = len(features), int(classes.max()) + 1
    targets = torch.from_numpy(classes).to(features.device)
    weights, bias = (
        features.new_zeros(features.shape[1], num_classes),
        features.new_zeros(num_classes),
    )

    def mean_loss() -> Tensor:
        total = l2 / 2 * (weights * weights).sum()
        weights.grad, bias.grad = l2 * weights, torch.zeros_like(bias)
        for rows in _blocks(num_images, num_classes, memory_budget):
            scores = torch.log_softmax(features[rows] @ weights + bias, dim=1)
            own = targets[rows, None]
            total -= scores.gather(1, own).sum()
            # The gradient of the cross-entropy by the scores is softmax minus one-hot.
            errors = scores.exp_().scatter_add_(1, own, -torch.ones_like(own, dtype=scores.dtype))
            weights.grad += features[rows].T @ errors
            bias.grad += errors.sum(dim=0)
        weights.grad /= num_images
        bias.grad /= num_images
        return total / num_images

    _minimise(mean_loss, [weights, bias])
    return weights, bias


def predict_linear(
    features: Tensor, weights: Tensor, bias: Tensor, *, memory_budget: int = MEMORY_BUDGET
) -> IntArray:
    """Returns (N,): the class of the highest score of every row of features (N, D)."""
    blocks = _blocks(len(features), len(bias), memory_budget)
    best = [(features[rows] @ weights + bias).argmax(dim=1) for rows in blocks]
    predicted: IntArray = torch.cat(best).cpu().numpy()
    return predicted


def _minimise(loss: Callable[[], Tensor], parameters: list[Tensor]) -> None:
    """Moves the parameters to the minimum of a loss that sets their gradients itself."""
    optimiser = torch.optim.LBFGS(
        parameters,
        max_iter=MAX_ITERATIONS,
        max_eval=2 * MAX_ITERATIONS,
        tolerance_grad=GRADIENT_TOLERANCE,
        tolerance_change=0.0,
        history_size=10,
        line_search_fn="strong_wolfe",
    )
    optimiser.step(loss)  # type: ignore[no-untyped-call]
    loss()  # the gradients are those of the line search's last trial, not of the point it took
    largest = max(float(p.grad.abs().max()) for p in parameters if p.grad is not None)
    if largest > 100 * GRADIENT_TOLERANCE:
        logger.warning(
            "The linear classifier has not converged (gradient %.1e after at most %d iterations); "
            "scale the embeddings to norms about 1 or raise `l2`.",
            largest,
            MAX_ITERATIONS,
        )


def _blocks(num_images: int, num_classes: int, memory_budget: int) -> Iterator[slice]:
    """Yields slices of images whose scores and their gradients fit into the budget."""
    size = max(1, memory_budget // (4 * 8 * num_classes))
    for start in range(0, num_images, size):
        yield slice(start, start + size)
