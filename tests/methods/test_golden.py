"""Losses and gradients against numbers recorded from the official implementations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hsearch.geometry import l2_normalise
from hsearch.methods.hpl import hpl_loss, k_means
from hsearch.methods.proxy_anchor import proxy_anchor_loss
from hsearch.methods.proxy_nca import proxy_nca_loss
from tests.golden_files import load, tolerance

Arrays = dict[str, Any]


def proxy_nca_case(meta: Arrays, x: Tensor, labels: Tensor, proxies: list[Tensor]) -> Tensor:
    return proxy_nca_loss(x, labels, proxies[0], scale=meta["hyperparameters"]["softmax_scale"])


def proxy_anchor_case(meta: Arrays, x: Tensor, labels: Tensor, proxies: list[Tensor]) -> Tensor:
    knobs = meta["hyperparameters"]
    return proxy_anchor_loss(x, labels, proxies[0], scale=knobs["alpha"], margin=knobs["mrg"])


CASES: dict[str, Callable[[Arrays, Tensor, Tensor, list[Tensor]], Tensor]] = {
    "proxy_nca_pml": proxy_nca_case,
    "proxy_anchor": proxy_anchor_case,
}


@pytest.mark.parametrize(
    ("dtype", "loss_rtol", "grad_rtol"),
    [
        (torch.float64, None, None),
        (torch.float32, 1e-5, 1e-5),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_golden_proxy_losses(name, dtype, loss_rtol, grad_rtol):
    meta, arrays = load(name)
    x = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    proxies = torch.tensor(arrays["proxies"], dtype=dtype, requires_grad=True)
    loss = CASES[name](meta, x, torch.tensor(arrays["labels"][:, -1]), [proxies])
    loss.backward()
    for got, expected in [
        (loss, arrays["loss"]),
        (x.grad, arrays["grad_raw_embeddings"]),
        (proxies.grad, arrays["grad_proxies"]),
    ]:
        close(got, expected, meta, loss_rtol if got is loss else grad_rtol)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["hpl_nca", "hpl_pa"])
def test_golden_hpl(name, dtype):
    meta, arrays = load(name)
    knobs = meta["hyperparameters"]
    coarse = range(1, 1 + len(knobs["num_coarse"]))
    proxies = [torch.tensor(arrays["fine_proxies"], dtype=dtype, requires_grad=True)]
    parents = []
    for level in coarse:
        start = torch.tensor(arrays[f"kmeans_init_level{level}"], dtype=dtype)
        centroids, assignment = k_means(l2_normalise(proxies[-1].detach()), start)
        close(centroids, arrays[f"coarse_proxies_level{level}"], meta, rounding(dtype))
        expected = arrays[f"assign_level{level - 1}_to_level{level}"]
        assert assignment.tolist() == expected.tolist()
        proxies.append(centroids.requires_grad_())
        parents.append(assignment)
    x = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    num_levels = len(proxies)
    loss = hpl_loss(
        x,
        torch.tensor(arrays["labels"][:, -1]),
        proxies,
        parents,
        base="proxy_nca" if "scale" in knobs else "proxy_anchor",
        scales=[knobs.get("scale", knobs.get("alpha"))] * num_levels,
        margins=[knobs.get("mrg", 0.0)] * num_levels,
        weights=knobs["level_weights_fine_to_coarse"],
    )
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(x.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    for level in range(num_levels):
        close(proxies[level].grad, arrays[f"grad_proxies_level{level}"], meta, rounding(dtype))


@pytest.mark.parametrize("name", ["hpl_nca", "hpl_pa"])
def test_golden_hpl_warm_start(name):
    meta, arrays = load(name)
    points = l2_normalise(torch.tensor(arrays["moved_fine_proxies"]))
    for level in range(1, 1 + len(meta["hyperparameters"]["num_coarse"])):
        start = l2_normalise(torch.tensor(arrays[f"coarse_proxies_level{level}"]))
        centroids, assignment = k_means(points, start)
        close(centroids, arrays[f"reclustered_coarse_level{level}"], meta, None)
        expected = arrays[f"reclustered_assign_level{level - 1}_to_level{level}"]
        assert assignment.tolist() == expected.tolist()
        points = l2_normalise(centroids)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_golden_hpl_kmeans(dtype):
    meta, arrays = load("hpl_kmeans")
    points = l2_normalise(torch.tensor(arrays["fine_proxies"], dtype=dtype))
    centroids, assignment = k_means(points, points[torch.tensor(arrays["init_index"])])
    close(centroids, arrays["centroids"], meta, rounding(dtype))
    assert assignment.tolist() == arrays["assignment"].tolist()
    inertia = ((points - centroids[assignment]) ** 2).sum()
    close(inertia, arrays["inertia"], meta, rounding(dtype))


def rounding(dtype: torch.dtype) -> float | None:
    return None if dtype == torch.float64 else 1e-5


def close(got: Tensor | None, expected: Any, meta: Arrays, float32_rtol: float | None) -> None:
    """float64 at the vector's own tolerance; float32 relative to the largest expected entry."""
    assert got is not None
    values = got.detach().numpy()
    if float32_rtol is None:
        np.testing.assert_allclose(values, expected, **tolerance(meta))
    else:
        scale = np.abs(expected).max()
        np.testing.assert_allclose(values, expected, rtol=0, atol=float32_rtol * scale)
