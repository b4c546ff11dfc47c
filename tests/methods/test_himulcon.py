"""HiMulCon, HiConE and HiMulConE: recorded numbers, a loop over anchors, limits."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.methods.himulcon import PENALTIES, Variant, first_rows, himulcon_loss
from hsearch.methods.supcon import supcon_loss
from tests.golden_files import load, names
from tests.methods.oracles import unit
from tests.methods.test_golden import close, rounding
from tests.methods.test_pairs import by_view, gradient
from tests.methods.toy import batch, build

VARIANTS: dict[str, Any] = {"hmc": "himulcon", "hce": "hicone", "hmce": "himulcone"}
PENALTY_NAMES: dict[str, Any] = {
    "exp": "exp_inverse_height",
    "pow_2": "pow2_inverse_height",
    "2^x": "pow2_inverse_height",
    "identity": "inverse_height",
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", [*names("himulcon_*"), *names("hicone_*"), *names("himulcone_*")])
def test_golden(name, dtype):
    meta, arrays = load(name)
    knobs = meta["hyperparameters"]
    views = knobs["n_views"]
    x = torch.tensor(by_view(arrays["raw_embeddings"]), dtype=dtype, requires_grad=True)
    loss = himulcon_loss(
        x,
        torch.tensor(arrays["labels"]).repeat(views, 1),
        views=views,
        variant=VARIANTS[knobs["loss_type"]],
        penalty=PENALTY_NAMES[knobs["layer_penalty"]],
        temperature=knobs["temperature"],
        base_temperature=knobs["base_temperature_effective"],
    )
    loss.backward()
    if np.isnan(arrays["loss"]):  # the official mean over anchors without positives
        assert loss.isfinite()
        assert gradient(x).isfinite().all()
        return
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(x.grad, by_view(arrays["grad_raw_embeddings"]), meta, rounding(dtype))


def anchor_loop(cosines, kept, labels, prefix, views):
    """SupCon's mean over the anchors with positives, one number at a time."""
    images = len(labels)
    rows = [(view * images + image, image) for view in range(views) for image in kept]
    terms = []
    for row, image in rows:
        others = [(r, i) for r, i in rows if r != row]
        positives = [r for r, i in others if (labels[i, :prefix] == labels[image, :prefix]).all()]
        if positives:
            log_sum = np.log(sum(np.exp(cosines[row, r]) for r, _ in others))
            terms.append(log_sum - np.mean([cosines[row, r] for r in positives]))
    return float(np.mean(terms)) if terms else 0.0


def loop(x, labels, views, variant, penalty, temperature):
    cosines = unit(x) @ unit(x).T / temperature
    levels = labels.shape[1]
    kept, total, largest = list(range(len(labels))), 0.0, 0.0
    for height in range(1, levels + 1):
        prefix = levels + 1 - height
        level = anchor_loop(cosines, kept, labels, prefix, views)
        largest = max(largest, level)
        level = level if variant == "himulcon" else largest
        total += level * (1.0 if variant == "hicone" else PENALTIES[penalty](height, prefix))
        first: dict[tuple[int, ...], int] = {}
        for image in kept:
            first.setdefault(tuple(labels[image, :prefix]), image)
        kept = [image for _, image in sorted(first.items())]
    return temperature / 0.07 * total / (levels + 1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 8),
    levels=st.integers(1, 4),
    views=st.integers(1, 3),
    variant=st.sampled_from(sorted(VARIANTS.values())),
    penalty=st.sampled_from(sorted(PENALTIES)),
    temperature=st.floats(0.03, 1.0),
)
def test_loop(seed, size, levels, views, variant, penalty, temperature):
    """One view included, where the official code gives NaN for a lone image or child."""
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(views * size, 3)), rng.integers(2, size=(size, levels))
    rows = torch.tensor(x, requires_grad=True)
    loss = himulcon_loss(
        rows,
        torch.tensor(labels).repeat(views, 1),
        views=views,
        variant=variant,
        penalty=penalty,
        temperature=temperature,
    )
    loss.backward()
    expected = loop(x, labels, views, variant, penalty, temperature)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert gradient(rows).isfinite().all()


def test_anchors_without_positives_are_left_out_of_the_mean():
    x = l2_normalise(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).double())
    labels = torch.tensor([[0, 0], [0, 0], [1, 1]])
    # The classes: two of three anchors have a positive. Above, two lone representatives.
    fine = supcon_loss(x, labels[:, 1], temperature=0.1) * 3 / 2
    variants: list[tuple[Variant, Tensor]] = [("himulcon", fine / 3), ("hicone", 2 * fine / 3)]
    for variant, expected in variants:
        loss = himulcon_loss(
            x, labels, views=1, variant=variant, penalty="constant", temperature=0.1
        )
        torch.testing.assert_close(loss, expected)


def test_one_level_is_half_of_supcon():
    method = build("himulcon", variant="hicone")
    features, labels = batch(method)
    x = method.embed(features)
    expected = supcon_loss(x, labels[:, -1], temperature=0.1) / 2
    torch.testing.assert_close(method(x, labels[:, -1:]), expected)


def test_the_published_code_represents_a_label_by_its_lowest_numbered_child():
    """The method itself numbers labels by their first image, so that numbers do not count."""
    x = l2_normalise(torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double())
    labels = torch.tensor([[0, 0, 5], [0, 0, 4], [0, 1, 3], [1, 2, 2]])
    knobs: dict[str, Any] = {
        "views": 1,
        "variant": "himulcon",
        "penalty": "constant",
        "temperature": 0.1,
    }
    top = [
        supcon_loss(x[[image, 2, 3]], labels[[image, 2, 3], 0], temperature=0.1) * 3 / 2
        for image in (1, 0)
    ]
    middle = supcon_loss(x, labels[:, 1], temperature=0.1) * 4 / 2
    for ids, expected in [(labels, top[0]), (first_rows(labels), top[1])]:
        torch.testing.assert_close(himulcon_loss(x, ids, **knobs), (middle + expected) / 4)


def test_numbers_of_labels_do_not_count_and_only_first_images_have_a_place():
    method = build("himulcon").double()
    features, labels = batch(method)
    x = method.embed(features.double())
    loss = method(x, labels)
    renamed = 100 - 7 * labels
    torch.testing.assert_close(method(x, renamed), loss)
    images = len(x) // 2
    order = torch.arange(images).view(-1, 3)[:, [0, 2, 1]].flatten()  # classes stand in threes
    both = torch.cat([order, order + images])
    torch.testing.assert_close(method(x[both], labels[both]), loss)


def test_same_child_number_under_two_parents_is_not_the_same_label():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    knobs: dict[str, Any] = {
        "views": 1,
        "variant": "himulcon",
        "penalty": "constant",
        "temperature": 0.1,
    }
    reused = himulcon_loss(x, torch.tensor([[0, 0], [0, 0], [1, 0], [1, 0]]), **knobs)
    unique = himulcon_loss(x, torch.tensor([[0, 0], [0, 0], [1, 1], [1, 1]]), **knobs)
    torch.testing.assert_close(reused, unique)


def test_penalties_of_three_levels():
    fine_to_coarse = {name: [f(h, 4 - h) for h in (1, 2, 3)] for name, f in PENALTIES.items()}
    assert fine_to_coarse["exp_inverse_height"] == pytest.approx(np.exp([1, 1 / 2, 1 / 3]))
    assert fine_to_coarse["pow2_inverse_height"] == pytest.approx(2 ** np.array([1, 1 / 2, 1 / 3]))
    assert fine_to_coarse["inverse_height"] == pytest.approx([1, 1 / 2, 1 / 3])
    assert fine_to_coarse["exp_depth"] == pytest.approx(np.exp([3, 2, 1]))
    assert fine_to_coarse["pow2_depth"] == [8, 4, 2]
    assert fine_to_coarse["constant"] == [1, 1, 1]
    assert fine_to_coarse["exp_inverse_depth"] == pytest.approx(np.exp([1 / 3, 1 / 2, 1]))
    assert fine_to_coarse["pow2_inverse_depth"] == pytest.approx(2 ** np.array([1 / 3, 1 / 2, 1]))
    assert fine_to_coarse["inverse_depth"] == pytest.approx([1 / 3, 1 / 2, 1])


def test_float32_does_not_overflow_at_the_lowest_temperature():
    method = build("himulcon", temperature=1e-3, penalty="exp_depth")
    features, labels = batch(method)
    features.requires_grad_()
    loss = method(method.embed(features), labels)
    loss.backward()
    assert loss.isfinite()
    assert gradient(features).isfinite().all()


def test_impossible_temperature_is_refused():
    with pytest.raises(ConfigError, match="must be"):
        build("himulcon", temperature=0.0)
