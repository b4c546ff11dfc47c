"""Smooth-AP, ROADMAP and HAPPIER: limits, defects of the official code, memory, knobs."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.methods import _ap, knobs_of, load_method
from hsearch.methods._ap import LowerStep, UpperStep, heaviside, pair_levels
from hsearch.methods.happier import hap_loss, level_relevances
from hsearch.methods.roadmap import calibration_loss, sup_ap_loss
from hsearch.methods.smooth_ap import smooth_ap_loss
from tests.methods.test_ap_oracles import unit_rows
from tests.methods.toy import HIERARCHY, batch, build, labels_of


def test_one_level_is_supap():
    """The official relevance divides by L - 1 = 0."""
    x, classes = unit_rows(12), torch.arange(12) % 4
    one_level = hap_loss(x, classes[:, None], step=UpperStep(), relevance="map")
    assert one_level == pytest.approx(float(sup_ap_loss(x, classes, step=UpperStep())))
    assert 0 < one_level < 1


def test_a_list_as_long_as_the_batch_is_still_a_list():
    """The official code then takes item i for query i, which depends on the order of the list."""
    x, classes = unit_rows(9), torch.arange(9) // 3
    items, own = unit_rows(9, seed=1), torch.arange(9) % 3
    for loss, knobs in (sup_ap_loss, {"step": UpperStep()}), (smooth_ap_loss, {"tau": 0.01}):
        there, back = (
            loss(x, classes, **knobs, references=items[order], reference_classes=own[order])
            for order in (torch.arange(9), torch.arange(9).flip(0))
        )
        torch.testing.assert_close(there, back, rtol=1e-12, atol=0)


def test_queries_without_a_relevant_item_are_skipped():
    """The official code gives 0 / 0 for them."""
    x, items = unit_rows(3).requires_grad_(), unit_rows(6, seed=1)
    labels = torch.tensor([[0, 0], [1, 1], [2, 2]])
    present = torch.tensor([[0, 0], [0, 3], [1, 1], [1, 1], [1, 4], [0, 0]])
    step = UpperStep()
    whole = hap_loss(x, labels, step=step, references=items, reference_labels=present)
    known = hap_loss(x[:2], labels[:2], step=step, references=items, reference_labels=present)
    torch.testing.assert_close(whole, known)
    nothing = hap_loss(x, labels + 9, step=step, references=items, reference_labels=present)
    assert nothing == 0
    (gradient,) = torch.autograd.grad(nothing, x)
    assert torch.equal(gradient, torch.zeros_like(x))


def test_ties_count_whatever_the_rounding():
    """Copies of an image have similarities that differ by rounding; their order must not matter."""
    for seed, dtype in enumerate([torch.float32, torch.float64] * 10):
        generator = torch.Generator().manual_seed(seed)
        one = torch.randn(1, 64 + seed, generator=generator, dtype=dtype)
        x = l2_normalise(one.expand(11 + seed, -1).clone())
        labels = labels_of(HIERARCHY, torch.arange(len(x)) % 5)
        levels = pair_levels(labels, labels)
        # All similarities are equal: every rank counts all items of higher or equal level, and
        # half of the others.
        rel = level_relevances(levels, 3, dtype, kind="pop")
        below = levels[:, None, :] < levels[:, :, None]
        rank = (1.0 - 0.5 * below.to(dtype)).sum(dim=2)
        hrank = torch.minimum(rel[:, None, :], rel[:, :, None]).sum(dim=2)
        expected = 1.0 - ((hrank / rank).sum(dim=1) / rel.sum(dim=1)).mean()
        torch.testing.assert_close(
            hap_loss(x, labels, step=UpperStep()), expected, rtol=1e-5, atol=0
        )


def test_the_steps():
    t = torch.tensor([-0.5, -0.01, 0.0, 0.01, 0.05, 0.3], dtype=torch.float64)
    assert heaviside(t).tolist() == [0, 0, 1, 1, 1, 1]
    expected = [0.0, 0.2689414, 0.5, 1.2310586, 1.4933071, 100 * 0.25 + 1.44]
    assert UpperStep()(t).tolist() == pytest.approx(expected, abs=1e-7)
    # The paper prints max(., 1) for H+, which would not lie below the unit step.
    assert LowerStep()(t).tolist() == pytest.approx([-5.0, -0.1, 0.0, 0.75, 1.0, 1.0])


def test_a_joined_step_has_no_jump_at_delta():
    around = torch.tensor([0.03 - 1e-12, 0.03 + 1e-12], dtype=torch.float64)
    jumps = [
        float(UpperStep(tau=0.02, delta=0.03, offset=offset)(around).diff().abs())
        for offset in (None, 1.44)
    ]
    assert jumps[0] < 1e-9 < 0.1 < jumps[1]


def test_calibration_counts_pairs_beyond_their_margin_only():
    x = l2_normalise(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [1.0, 1.0]]))
    loss = calibration_loss(x, torch.tensor([0, 0, 1, 1]), positive_margin=0.9, negative_margin=0.6)
    s = x @ x.T
    assert float(loss) == pytest.approx(float(0.9 - s[2, 3] + (s[0, 3] + s[1, 3]) / 2 - 0.6))
    single = calibration_loss(x[:1], torch.tensor([0]), positive_margin=0.9, negative_margin=0.6)
    assert single == 0


def test_a_steep_relevance_stays_finite():
    """(1 / 3)^85 is no normal float32 number, (1 / 3)^300 is zero."""
    x = unit_rows(5).float().requires_grad_()
    labels = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 2, 2], [0, 2, 3], [1, 4, 4]])
    for alpha in (85.0, 300.0):
        lists = {"references": x[:1].detach(), "reference_labels": labels[:1]}
        loss = hap_loss(x[1:], labels[1:], step=UpperStep(), alpha=alpha, **lists)
        (gradient,) = torch.autograd.grad(loss, x)
        assert loss.isfinite()
        assert gradient.isfinite().all()


class LargestArray(TorchDispatchMode):
    """Notes the most elements of any array an operation returns."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("name", ["smooth_ap", "roadmap", "happier"])
def test_no_array_over_all_triples(name):
    """Even if all images of the batch are relevant to each other."""
    method, size = build(name), 160
    x = torch.randn(size, 12, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = labels_of(HIERARCHY, torch.zeros(size, dtype=torch.int64))
    with LargestArray() as largest:
        method(method.embed(x), labels).backward()
    assert largest.elements <= _ap.BLOCK_ELEMENTS < size**3 / 4


@pytest.mark.parametrize("name", ["smooth_ap", "roadmap", "happier"])
def test_blocks_do_not_change_loss_or_gradients(name, monkeypatch):
    results = []
    for elements in (10**9, 3000, 1):
        monkeypatch.setattr(_ap, "BLOCK_ELEMENTS", elements)
        method = build(name).double()
        features, labels = batch(method)
        x = features.double().requires_grad_()
        loss = 3.0 * method(method.embed(x), labels)
        results.append((loss.detach(), *torch.autograd.grad(loss, x)))
        with torch.no_grad():
            torch.testing.assert_close(3.0 * method(method.embed(x), labels), loss.detach())
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("smooth_ap", {"tau": 0.0}),
        ("roadmap", {"tau": -1.0}),
        ("roadmap", {"delta": -0.1}),
        ("roadmap", {"calibration_weight": -1.0}),
        ("happier", {"alpha": 0.0}),
        ("happier", {"temperature": 0.0}),
        ("happier", {"clustering_weight": 1.1}),
        ("happier", {"hrank_start": 2.0}),
    ],
)
def test_impossible_knobs_are_refused(name, knobs):
    with pytest.raises(ConfigError, match=next(iter(knobs))):
        build(name, **knobs)


@pytest.mark.parametrize("name", ["smooth_ap", "roadmap", "happier"])
def test_every_knob_changes_the_loss(name):
    features, labels = batch(build(name))

    def loss(knobs):
        method = build(name, **knobs)
        return method(method.embed(features), labels)

    for knob in knobs_of(load_method(name)).values():
        given: dict[str, object] = {"hrank": True} if knob.name.startswith("hrank_") else {}
        default = knob.default
        other = "map" if isinstance(default, str) else True if default is False else 0.9 * default
        assert loss(given) != loss({**given, knob.name: other}), knob.name
