"""HIER: recorded numbers, the plain formula, the drawing of triplets, limits."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from hsearch.errors import ConfigError
from hsearch.geometry import clip_norm, exp_map_zero, l2_normalise, poincare_distances
from hsearch.hierarchy import Hierarchy
from hsearch.methods.hier import draw_triplets, lca_loss, reciprocal_neighbours
from hsearch.methods.proxy_anchor import proxy_anchor_loss
from tests.golden_files import load, tolerance
from tests.methods.test_golden import close, rounding
from tests.methods.test_pairs import gradient
from tests.methods.toy import HIERARCHY, batch, build, labels_of


def recorded(noise):
    """The recorded Gumbel noise of all triplets, handed out in turn as draws of Exp(1)."""
    place = 0

    def draw(rows):
        nonlocal place
        place += rows
        return noise[:, place - rows : place].neg().exp()

    return draw


def golden_terms(arrays, meta, dtype):
    knobs = meta["hyperparameters"]

    def ball(u):
        return exp_map_zero(clip_norm(u, knobs["clip_r"]), knobs["hyp_c"])

    x = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    lcas = torch.tensor(arrays["lcas"], dtype=dtype, requires_grad=True)
    terms = []
    for term, leaves in (("sample", x), ("proxy", lcas)):
        trip = torch.tensor(np.stack([arrays[f"trip_{term}_{place}"] for place in "ijk"]))
        gumbel = [arrays[f"gumbel_{term}_{name}"] for name in ("ij", "ijk")]
        distances = poincare_distances(ball(leaves), ball(lcas), knobs["hyp_c"])
        noise = recorded(torch.tensor(np.stack(gumbel), dtype=dtype))
        terms.append(lca_loss(distances, trip, noise, tau=knobs["tau"], margin=knobs["mrg"]))
    return x, lcas, terms


@pytest.mark.parametrize("block", [None, 70])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_golden_regularizer(dtype, block, monkeypatch):
    if block is not None:
        monkeypatch.setattr("hsearch.methods.hier.BLOCK_ENTRIES", block)
    meta, arrays = load("hier_regularizer")
    x, lcas, (samples, proxies) = golden_terms(arrays, meta, dtype)
    loss = samples + proxies
    loss.backward()
    close(samples, arrays["loss_sample_term"], meta, rounding(dtype))
    close(proxies, arrays["loss_proxy_term"], meta, rounding(dtype))
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(x.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    close(lcas.grad, arrays["grad_lcas"], meta, rounding(dtype))


def test_recorded_triplets_are_some_that_could_be_drawn():
    meta, arrays = load("hier_regularizer")
    knobs = meta["hyperparameters"]
    num = len(arrays["labels"])
    everything = torch.tensor(np.concatenate([arrays["ball_embeddings"], arrays["ball_lcas"]]))
    distances = poincare_distances(everything, everything, knobs["hyp_c"])
    np.testing.assert_allclose(distances, arrays["dist_matrix_all"], rtol=1e-9, atol=1e-11)
    classes = torch.tensor(arrays["labels"][:, -1])
    samples = (-distances[:num, :num]).exp() + (classes[:, None] == classes[None])
    np.testing.assert_allclose(samples, arrays["sim_samples"], **tolerance(meta))
    for term, similarities in (("sample", samples), ("proxy", -distances[num:, num:])):
        reciprocal = reciprocal_neighbours(similarities, knobs["topk"])
        i, j, k = (arrays[f"trip_{term}_{place}"] for place in "ijk")
        assert reciprocal[i, j].all()
        assert not reciprocal[i, k].any()
        drawn = draw_triplets(reciprocal, torch.Generator().manual_seed(0))
        assert drawn[0].tolist() == i.tolist()
        assert knobs["t_per_anchor"] == np.bincount(i).max()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_golden_metric_loss_on_angles(dtype):
    meta, arrays = load("hier_pa_angle")
    knobs = meta["hyperparameters"]
    x = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    proxies = torch.tensor(arrays["proxies"], dtype=dtype, requires_grad=True)
    hierarchy = Hierarchy.from_names([(str(c),) for c in range(knobs["num_classes"])])
    method = build(
        "hier",
        hierarchy,
        proxy_scale=float(knobs["alpha"]),
        proxy_margin=knobs["mrg"],
        hier_weight=0.0,
    ).to(dtype)
    del method.proxies
    method.proxies = proxies
    loss = method._metric_loss(x, torch.tensor(arrays["labels"][:, -1]))
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(x.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    close(proxies.grad, arrays["grad_proxies"], meta, rounding(dtype))


def plain_loss(distances, triplets, noise, tau, margin):
    """The formula with torch's own softmax and its derivative, all triplets at once."""
    near, other, third = (distances[rows] for rows in triplets)
    pair = torch.maximum(near, other)
    choices = []
    for farthest, exponential in zip((pair, torch.maximum(pair, third)), noise, strict=True):
        soft = (-farthest / tau - exponential.log()).softmax(dim=1)
        hard = F.one_hot(soft.argmax(dim=1), soft.shape[1])
        choices.append(hard - soft.detach() + soft)
    a, b = choices
    violations = (
        (near * (a - b)).sum(1).add(margin).relu()
        + (other * (a - b)).sum(1).add(margin).relu()
        + (third * (b - a)).sum(1).add(margin).relu()
    )
    return (violations * (a.argmax(dim=1) != b.argmax(dim=1))).mean()


@pytest.mark.parametrize("seed", range(8))
def test_plain_formula(seed):
    generator = torch.Generator().manual_seed(seed)
    rows, columns, count = (int(torch.randint(1, 12, (), generator=generator)) for _ in range(3))
    distances = torch.rand(rows, columns, generator=generator, dtype=torch.float64) * 3
    triplets = torch.randint(rows, (3, count), generator=generator)
    noise = torch.empty(2, count, columns, dtype=torch.float64).exponential_(generator=generator)
    ours, plain = (distances.clone().requires_grad_() for _ in range(2))
    loss = lca_loss(ours, triplets, lambda n: noise, tau=0.2, margin=0.3)
    expected = plain_loss(plain, triplets, noise, 0.2, 0.3)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.grad, plain.grad, rtol=1e-9, atol=1e-12)


def test_same_ancestor_for_two_and_three_costs_nothing():
    distances = torch.rand(5, 1, requires_grad=True)
    triplets = torch.tensor([[0], [1], [2]])
    loss = lca_loss(distances, triplets, lambda n: torch.ones(2, n, 1), tau=0.1, margin=0.5)
    loss.backward()
    assert loss == 0
    assert not gradient(distances).any()


def test_reciprocal_neighbours_by_hand():
    # On a line at 0, 1, 2.5, 9: with two places besides itself, 3 seeks 2 and 1 in vain.
    place = torch.tensor([0.0, 1.0, 2.5, 9.0])
    similarities = -(place[:, None] - place[None, :]).abs()
    expected = [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert reciprocal_neighbours(similarities, 3).int().tolist() == expected
    assert reciprocal_neighbours(similarities, 2).sum() == 2  # 0 and 1
    assert reciprocal_neighbours(similarities, 99).sum() == 12


def test_triplets_are_uniform_and_their_third_may_be_the_anchor():
    reciprocal = torch.zeros(6, 6, dtype=torch.bool)
    reciprocal[0, [1, 2, 3]] = reciprocal[[1, 2, 3], 0] = True
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([draw_triplets(reciprocal, generator) for _ in range(60)], dim=1)
    assert drawn[0].unique().tolist() == [0]  # the others have one neighbour
    for row, candidates in ((1, [1, 2, 3]), (2, [0, 4, 5])):
        counts = torch.bincount(drawn[row], minlength=6)
        assert counts.nonzero().flatten().tolist() == candidates
        assert (counts[candidates] - 1000).abs().max() < 130  # 5 standard deviations


def test_no_reciprocal_neighbour_at_all_gives_zero():
    none = torch.zeros(4, 4, dtype=torch.bool)
    triplets = draw_triplets(none, torch.Generator())
    assert triplets.shape == (3, 0)
    distances = torch.rand(4, 7, requires_grad=True)
    loss = lca_loss(distances, triplets, lambda n: torch.ones(2, n, 7), tau=0.1, margin=0.1)
    loss.backward()
    assert loss == 0
    assert not gradient(distances).any()


@pytest.mark.parametrize("metric", ["proxy_anchor", "multi_similarity", "supcon"])
def test_every_metric_trains_and_owns_what_it_needs(metric):
    method = build("hier", metric=metric, num_lcas=17)
    groups = method.parameter_groups()
    assert set(groups) == ({"proxies", "lcas"} if metric == "proxy_anchor" else {"lcas"})
    features, labels = batch(method)
    features.requires_grad_()
    method(method.embed(features), labels).backward()
    assert gradient(features).abs().sum(dim=1).gt(0).all()
    assert gradient(method.lcas).abs().sum() > 0


def test_embeddings_lie_in_the_ball_and_the_metric_loss_sees_angles_only():
    method = build("hier", hier_weight=0.0, curvature=0.5, num_lcas=5)
    features, labels = batch(method)
    x = method.embed(10 * features)
    assert (x.norm(dim=1) < 0.5**-0.5).all()
    expected = proxy_anchor_loss(
        l2_normalise(features), labels[:, -1], method.proxies, scale=32.0, margin=0.1
    )
    torch.testing.assert_close(method(x, labels), expected, rtol=1e-5, atol=1e-5)


def test_extreme_knobs_stay_finite_in_float32():
    method = build("hier", tau=1e-3, curvature=1.0, radius=9.0, num_lcas=9, neighbors=500)
    features, labels = batch(method)
    features.requires_grad_()
    loss = method(method.embed(20 * features), labels)
    loss.backward()
    assert loss.isfinite()
    assert gradient(features).isfinite().all()
    assert gradient(method.lcas).isfinite().all()


def test_draws_come_from_the_methods_generator():
    method = build("hier", num_lcas=30)
    x, labels = batch(method)
    state = method.generator.get_state()
    first, second = method(method.embed(x), labels), method(method.embed(x), labels)
    method.generator.set_state(state)
    assert method(method.embed(x), labels) == first
    assert first != second


def test_two_images_of_one_class_are_neighbours_however_far():
    method = build("hier", num_lcas=4)
    labels = labels_of(HIERARCHY, torch.tensor([0, 0, 0, 5, 6]))
    x = method.embed(torch.randn(5, 12, generator=torch.Generator().manual_seed(0)))
    same = labels[:, None, -1] == labels[None, :, -1]
    similarities = (-poincare_distances(x, x, 0.1)).exp() + same
    assert reciprocal_neighbours(similarities, 3)[:3, :3].sum() == 6


@pytest.mark.parametrize(
    "knobs",
    [{"num_lcas": 0}, {"neighbors": 0}, {"tau": 0.0}, {"hier_weight": -1.0}, {"curvature": 0.0}],
)
def test_impossible_knobs_are_refused(knobs):
    with pytest.raises(ConfigError, match="must"):
        build("hier", **knobs)
