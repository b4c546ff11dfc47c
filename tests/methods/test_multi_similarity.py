"""Multi-Similarity against PyTorch Metric Learning and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pytorch_metric_learning import losses, miners

from hsearch.methods.multi_similarity import multi_similarity_loss


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 12),
    num_classes=st.integers(1, 4),
    alpha=st.floats(0.1, 40),
    beta=st.floats(1, 80),
    base=st.floats(-0.5, 1),
    epsilon=st.floats(0, 1),
)
def test_multi_similarity_agrees_with_pml(seed, size, num_classes, alpha, beta, base, epsilon):
    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.normal(size=(size, 4)), requires_grad=True)
    y = x.detach().clone().requires_grad_()
    classes = torch.tensor(rng.integers(num_classes, size=size))
    knobs = {"alpha": alpha, "beta": beta, "base": base}
    loss = multi_similarity_loss(x, classes, epsilon=epsilon, **knobs)
    mined = miners.MultiSimilarityMiner(epsilon)(y, classes)
    assume(max(len(indices) for indices in mined) != 1)  # PML then gives 0 whatever the pair
    peer = losses.MultiSimilarityLoss(**knobs)(y, classes, mined)
    loss.backward()
    peer.backward()
    torch.testing.assert_close(loss, peer, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-8, atol=1e-11)


def test_multi_similarity_by_hand():
    x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]], dtype=torch.float64)
    loss = multi_similarity_loss(
        x, torch.tensor([0, 0, 1]), alpha=2.0, beta=10.0, base=0.5, epsilon=0.1
    )
    # Anchor 0: positive 0.8, negative 0.6: neither is hard. Anchor 1: positive 0.8, negative 0.96:
    # both are. Anchor 2 has no positive.
    expected = np.log1p(np.exp(-2 * 0.3)) / 2 + np.log1p(np.exp(10 * 0.46)) / 10
    assert float(loss) == pytest.approx(expected / 3)
