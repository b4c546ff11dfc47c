"""Smooth-AP and H-AP against loops over single numbers, straight from the papers' formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import SmoothAPLoss

from hsearch.geometry import l2_normalise
from hsearch.hierarchy import Hierarchy
from hsearch.methods._ap import LowerStep, UpperStep, pair_levels
from hsearch.methods.happier import hap_loss, level_relevances
from hsearch.methods.smooth_ap import smooth_ap_loss


def upper(t, step):
    if t > step.delta:
        return step.rho * (t - step.delta) + step.offset
    return torch.sigmoid(t / step.tau) + (step.start if t > 0 else 0.0)


def lower(t, step):
    return torch.clamp(step.slope * t + step.start, max=1.0) if t > 0 else step.leak * t


def hap_oracle(x, labels, items, item_labels, step, hrank_step, relevance):
    """H-AP from its formula, one number at a time; `relevance` is (Q, N)."""
    losses = []
    for q in range(len(x)):
        s = [(x[q] * item).sum() for item in items]
        level = [int((labels[q] == label).sum()) for label in item_labels]
        rel = relevance[q].tolist()
        relevant = [k for k in range(len(s)) if level[k] > 0]
        hap = 0.0
        for k in relevant:
            rank, hrank = 1.0, rel[k]
            for j in range(len(s)):
                if j != k:
                    t = s[j] - s[k]
                    unit = float(t >= 0)
                    rank = rank + (upper(t, step) if level[j] < level[k] else unit)
                    use = hrank_step is not None and level[j] > level[k]
                    hrank = hrank + min(rel[j], rel[k]) * (lower(t, hrank_step) if use else unit)
            hap = hap + hrank / rank
        if relevant:
            losses.append(1.0 - hap / sum(rel))
    return sum(losses) / max(1, len(losses)) + 0.0 * x.sum()


@st.composite
def problems(draw):
    """Queries and a list of any sizes, with ties, and labels of one to three levels."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    paths = rng.integers(3, size=(6, draw(st.integers(0, 2))))
    hierarchy = Hierarchy.from_names(
        [(*map(str, path), f"class {c}") for c, path in enumerate(paths)][: draw(st.integers(1, 6))]
    )
    points = l2_normalise(torch.tensor(rng.normal(size=(5, 3))))
    sizes = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    x, items = (points[rng.integers(5, size=size)].clone() for size in sizes)
    classes, others = (rng.integers(hierarchy.num_classes, size=size) for size in sizes)
    square = draw(st.booleans())
    return hierarchy, x, classes, x if square else items, classes if square else others


@settings(max_examples=40, deadline=None)
@given(
    problem=problems(),
    kind=st.sampled_from(["pop", "map"]),
    hrank=st.booleans(),
    tau=st.floats(0.01, 0.3),
    delta=st.floats(0.01, 0.3),
    alpha=st.floats(0.5, 4.0),
)
def test_happier_agrees_with_loops(problem, kind, hrank, tau, delta, alpha):
    """Also: lists as long as the batch, relevances that fall with the level, ties, no relevant."""
    hierarchy, x, classes, items, item_classes = problem
    step = UpperStep(tau=tau, delta=delta, rho=20.0, start=0.4, offset=1.2)
    lists = torch.tensor(hierarchy.paths)[classes], torch.tensor(hierarchy.paths)[item_classes]
    relevance = hierarchy.relevance(classes, item_classes, kind=kind, alpha=alpha)
    got = level_relevances(
        pair_levels(*lists), hierarchy.num_levels, x.dtype, kind=kind, alpha=alpha
    )
    np.testing.assert_allclose(got, relevance, rtol=1e-12)
    x.requires_grad_()
    hrank_step = LowerStep() if hrank else None
    options = {"step": step, "hrank_step": hrank_step, "relevance": kind, "alpha": alpha}
    loss = hap_loss(x, lists[0], **options, references=items, reference_labels=lists[1])
    expected = hap_oracle(x, lists[0], items, lists[1], step, hrank_step, relevance)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-12)
    gradients = [torch.autograd.grad(value, x)[0] for value in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def smooth_ap_oracle(x, classes, tau):
    total = 0.0 * x.sum()
    for q, own in enumerate(classes):
        s = [(x[q] * item).sum() for item in x]
        positives = [k for k, c in enumerate(classes) if c == own]
        for k in positives:
            steps = {j: torch.sigmoid((s[j] - s[k]) / tau) for j in range(len(s)) if j != k}
            inside = 1.0 + sum(step for j, step in steps.items() if j in positives)
            total = total + inside / (1.0 + sum(steps.values())) / len(positives)
    return 1.0 - total / len(x)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.lists(st.integers(0, 2), min_size=1, max_size=7),
    tau=st.floats(0.003, 0.3),
)
def test_smooth_ap_agrees_with_loops(seed, classes, tau):
    x = unit_rows(len(classes), seed).requires_grad_()
    loss = smooth_ap_loss(x, torch.tensor(classes), tau=tau)
    expected = smooth_ap_oracle(x, classes, tau)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-12)
    gradients = [torch.autograd.grad(value, x)[0] for value in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def unit_rows(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return l2_normalise(torch.randn(rows, 8, generator=generator, dtype=torch.float64))


def test_smooth_ap_of_two_classes_is_not_that_of_pytorch_metric_learning():
    """It takes the number of classes for the number of their images: right only if they agree."""
    for num_classes, per_class, agrees in [(2, 5, False), (4, 4, True)]:
        x = unit_rows(num_classes * per_class)
        classes = torch.arange(num_classes).repeat_interleave(per_class)
        ours = smooth_ap_loss(x, classes, tau=0.01)
        expected = smooth_ap_oracle(x, classes.tolist(), 0.01)
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=0)
        theirs = SmoothAPLoss(temperature=0.01)(x.float(), classes)
        assert (float(theirs) == pytest.approx(float(ours), rel=1e-4)) == agrees
