"""Samplers keep what they promise, and follow from seed and epoch alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.data.samplers import draw_epoch
from hsearch.spec import BatchSpec

CLASSES = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    num_classes=st.integers(1, 12),
    per_class=st.integers(1, 5),
    groups=st.integers(1, 8),
)
def test_m_per_class(seed, num_classes, per_class, groups):
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.repeat(np.arange(num_classes), rng.integers(1, 9, num_classes)))
    batch = BatchSpec(size=per_class * groups, per_class=per_class)
    for chosen in draw_epoch(classes, batch, seed=seed, epoch=1, iterations=3):
        labels, counts = np.unique(classes[chosen], return_counts=True)
        assert len(chosen) == batch.size
        if groups <= num_classes:
            assert set(counts) == {per_class}
        for label in labels:
            own = chosen[classes[chosen] == label]
            if len(own) <= (classes == label).sum() and groups <= num_classes:
                assert len(np.unique(own)) == len(own)


def test_class_balanced_draws_classes_evenly():
    batch = BatchSpec(size=100, sampler="class_balanced")
    order = draw_epoch(CLASSES, batch, seed=0, epoch=1, iterations=100)
    shares = np.bincount(CLASSES[order.ravel()]) / order.size
    np.testing.assert_allclose(shares, 0.1, atol=0.02)


@pytest.mark.parametrize("sampler", ["m_per_class", "class_balanced"])
def test_follows_from_seed_and_epoch(sampler):
    batch = BatchSpec(size=8, sampler=sampler)

    def draw(seed, epoch):
        return draw_epoch(CLASSES, batch, seed=seed, epoch=epoch, iterations=5).tolist()

    assert draw(0, 1) == draw(0, 1)
    assert draw(0, 1) != draw(0, 2)
    assert draw(0, 1) != draw(1, 1)
