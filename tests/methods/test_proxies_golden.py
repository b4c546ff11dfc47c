"""Proxy losses and their gradients against numbers recorded from the official implementations."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from hsearch.geometry import l2_normalise
from hsearch.methods.csl import csl_loss
from hsearch.methods.normalized_softmax import normalized_softmax_loss
from hsearch.methods.proxy_nca_pp import proxy_nca_pp_loss
from hsearch.methods.soft_triple import soft_triple_loss
from tests.golden_files import load, names
from tests.methods.test_golden import close, rounding

Arrays = dict[str, Any]
DTYPES = [torch.float64, torch.float32]


def norm_softmax(knobs: Arrays, x: Tensor, labels: Tensor, proxies: Tensor) -> Tensor:
    temperature = knobs["temperature"]
    return normalized_softmax_loss(x, labels[:, -1], proxies, temperature=temperature)


def plus_plus(knobs: Arrays, x: Tensor, labels: Tensor, proxies: Tensor) -> Tensor:
    return proxy_nca_pp_loss(x, labels[:, -1], proxies, radius=knobs["scale"])


def classic(knobs: Arrays, x: Tensor, labels: Tensor, proxies: Tensor) -> Tensor:
    radius = knobs["scale"]
    return proxy_nca_pp_loss(x, labels[:, -1], proxies, radius=radius, denominator="negatives")


def dichotomies(knobs: Arrays, x: Tensor, labels: Tensor, proxies: Tensor) -> Tensor:
    radius = math.sqrt(knobs["scaling_x"] * knobs["scaling_p"])
    smoothing = knobs["smoothing_const"]
    return proxy_nca_pp_loss(x, labels[:, -1], proxies, radius=radius, smoothing=smoothing)


CASES: dict[str, Callable[[Arrays, Tensor, Tensor, Tensor], Tensor]] = {
    "norm_softmax": norm_softmax,
    "proxy_nca_pp": plus_plus,
    "proxy_nca_classic": classic,
    "proxy_nca_dichotomies": dichotomies,
}


def inputs(meta: Arrays, arrays: Arrays, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Leaf for the raw embeddings, what the loss receives, and the labels."""
    raw = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    x = l2_normalise(raw) if meta["embeddings_are_normalised_before_loss"] else raw
    return raw, x, torch.tensor(arrays["labels"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_golden_proxy_losses(name, dtype):
    meta, arrays = load(name)
    raw, x, labels = inputs(meta, arrays, dtype)
    proxies = torch.tensor(arrays["proxies"], dtype=dtype, requires_grad=True)
    loss = CASES[name](meta["hyperparameters"], x, labels, proxies)
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(raw.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    close(proxies.grad, arrays["grad_proxies"], meta, rounding(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_golden_soft_triple(dtype):
    meta, arrays = load("softtriple")
    raw, x, labels = inputs(meta, arrays, dtype)
    knobs = meta["hyperparameters"]

    def stacked(columns: Any) -> Any:
        """The recorded [D, C * K] as (C, K, D)."""
        return columns.T.reshape(-1, knobs["K"], len(columns))

    centres = torch.tensor(stacked(arrays["centers"]), dtype=dtype, requires_grad=True)

    def loss_of(tau: float) -> Tensor:
        scale, gamma, margin = knobs["la"], knobs["gamma"], knobs["margin"]
        return soft_triple_loss(
            x, labels[:, -1], centres, scale=scale, gamma=gamma, tau=tau, margin=margin
        )

    loss = loss_of(knobs["tau"])
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(raw.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    close(centres.grad, stacked(arrays["grad_centers"]), meta, rounding(dtype))
    close(loss_of(0.0), arrays["loss_classification_only"], meta, rounding(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", names("csl_*"))
def test_golden_csl(name, dtype):
    meta, arrays = load(name)
    raw, x, labels = inputs(meta, arrays, dtype)
    proxies = torch.tensor(arrays["proxies"], dtype=dtype, requires_grad=True)
    paths = torch.tensor(arrays["class_table"])
    knobs = meta["hyperparameters"]
    margins = knobs["margins_fine_to_coarse"]
    loss = csl_loss(x, labels, proxies, paths, scale=knobs["scale"], margins=margins)
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(raw.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    close(proxies.grad, arrays["grad_proxies"], meta, rounding(dtype))
