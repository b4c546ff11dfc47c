"""Proxy-NCA and Proxy-Anchor against loops over the formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.methods.proxy_anchor import proxy_anchor_loss
from hsearch.methods.proxy_nca import proxy_nca_loss
from tests.methods import oracles


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_classes=st.integers(2, 6),
    size=st.integers(1, 9),
    scale=st.floats(0.5, 40),
    margin=st.floats(0, 0.5),
)
def test_oracles(seed, num_classes, size, scale, margin):
    """Two classes included, where the official label binarisation goes wrong."""
    rng = np.random.default_rng(seed)
    x, proxies = rng.normal(size=(size, 4)), rng.normal(size=(num_classes, 4))
    classes = rng.integers(num_classes, size=size)
    tensors = torch.tensor(x), torch.tensor(classes), torch.tensor(proxies)
    nca = proxy_nca_loss(*tensors, scale=scale)
    anchor = proxy_anchor_loss(*tensors, scale=scale, margin=margin)
    assert float(nca) == pytest.approx(oracles.proxy_nca(x, classes, proxies, scale), rel=1e-9)
    expected = oracles.proxy_anchor(x, classes, proxies, scale, margin)
    assert float(anchor) == pytest.approx(expected, rel=1e-9)


def test_proxy_anchor_does_not_overflow_in_float32():
    x = torch.eye(2, 4)
    loss = proxy_anchor_loss(x, torch.tensor([1, 0]), x.clone(), scale=500.0, margin=0.1)
    assert loss.isfinite()
