import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation import protocols
from hsearch.evaluation.protocols import DymlSet, Spread, concatenated, dyml_metrics, separated
from hsearch.geometry import exp_map_zero
from tests.evaluation import oracles

values = st.floats(0, 1)


def points(seed, n=20, dim=5):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def labelled(seed, n=30, num_classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, n)
    labels[:2] = 0
    return DymlSet((points(seed, num_classes)[labels] + points(seed + 1, n)), labels)


def dyml_of_a_loop(test):
    found = oracles.retrieval(
        test.embeddings, test.labels, queries=test.queries, gallery=test.gallery
    )
    return {name: found[name] for name in ("ap", "asi", "recall_at_1")}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(values, values), min_size=2, max_size=6), st.randoms())
def test_separated_is_mean_and_spread_of_a_loop_in_any_order(pairs, random):
    found = separated([{"map_at_r": a, "level_0/map_at_r": b} for a, b in pairs])
    assert list(found) == ["map_at_r", "level_0/map_at_r"]
    for name, column in zip(found, zip(*pairs, strict=True), strict=True):
        mean = sum(column) / len(column)
        variance = sum((value - mean) ** 2 for value in column) / (len(column) - 1)
        assert found[name].mean == pytest.approx(mean, abs=1e-12)
        assert found[name].std == pytest.approx(math.sqrt(variance), abs=1e-9)
        assert min(column) - 1e-12 <= found[name].mean <= max(column) + 1e-12
    random.shuffle(pairs)
    assert separated([{"map_at_r": a, "level_0/map_at_r": b} for a, b in pairs]) == found


def test_one_model_has_no_spread():
    assert separated([{"ap": 0.25}]) == {"ap": Spread(0.25, None)}


def test_models_scored_differently_are_refused():
    with pytest.raises(DatasetError, match="model 1 differs from model 0 in asi, h_ap;"):
        separated([{"ap": 0.1, "asi": 0.2}, {"ap": 0.3, "h_ap": 0.2}])
    with pytest.raises(DatasetError, match="got none"):
        separated([])


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 5))
def test_joined_cosines_are_the_mean_of_the_parts(seed, n):
    parts = [points(seed + i, dim=3 + i) * (i + 1) for i in range(n)]
    joined = concatenated(parts)
    assert joined.shape == (20, sum(part.shape[1] for part in parts))
    assert joined.dtype == torch.float32
    np.testing.assert_allclose(np.linalg.norm(joined, axis=1), 1.0, atol=1e-6)
    units = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    mean = sum(unit @ unit.T for unit in units) / n
    np.testing.assert_allclose(joined @ joined.T, mean, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 4))
def test_joined_balls_are_compared_in_their_tangent_spaces(seed, n):
    tangents = [torch.from_numpy(points(seed + i)).double() * 0.3 for i in range(n)]
    curvatures = [0.1 * (i + 1) for i in range(n)]
    balls = [exp_map_zero(u, c) for u, c in zip(tangents, curvatures, strict=True)]
    joined = concatenated(balls, geometry="poincare", curvatures=curvatures).double()
    mean = sum(torch.cdist(u, u) ** 2 for u in tangents) / n
    torch.testing.assert_close(torch.cdist(joined, joined) ** 2, mean, atol=1e-4, rtol=1e-4)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_joining_keeps_the_order_of_images(seed):
    parts = [points(seed), points(seed + 1)]
    order = np.random.default_rng(seed).permutation(20)
    shuffled = concatenated([part[order] for part in parts])
    assert torch.equal(shuffled, concatenated(parts)[order])


def test_arrays_and_tensors_join_alike_and_stay_unchanged():
    one, two = points(0), points(1)
    copy = one.copy()
    one.setflags(write=False)
    assert torch.equal(concatenated([one, two]), concatenated(list(map(torch.tensor, (one, two)))))
    assert np.array_equal(one, copy)


def test_what_cannot_be_joined_is_refused():
    x = points(0)
    with pytest.raises(DatasetError, match="got 20, 19 embeddings; embed one list"):
        concatenated([x, x[1:]])
    with pytest.raises(DatasetError, match="got no embeddings"):
        concatenated([])
    with pytest.raises(ConfigError, match="must hold 2 numbers for 2 models"):
        concatenated([x, x], geometry="poincare", curvatures=[0.1])
    with pytest.raises(ConfigError, match="must hold 0 numbers"):
        concatenated([x, x], curvatures=[0.1, 0.1])
    with pytest.raises(ConfigError, match="norms below 1"):
        concatenated([x * 100], geometry="poincare", curvatures=[1.0])
    with pytest.raises(ConfigError, match="curvature above 0"):
        concatenated([x * 0.1], geometry="poincare", curvatures=[0.0])
    with pytest.raises(DivergedError, match="20 of 20"):
        concatenated([x, x * np.nan])


def split_set(seed):
    whole = labelled(seed, n=40)
    queries = np.arange(40) % 3 == 0
    return DymlSet(whole.embeddings, whole.labels, queries, ~queries)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_dyml_is_the_mean_of_three_loops(seed):
    sets = {"coarse": labelled(seed), "middle": split_set(seed), "fine": labelled(seed + 5, n=17)}
    found = dyml_metrics(sets)
    of_sets = {name: dyml_of_a_loop(test) for name, test in sets.items()}
    expected = {f"{name}/{key}": v for name, one in of_sets.items() for key, v in one.items()}
    for metric in ("ap", "asi", "recall_at_1"):
        expected[metric] = sum(one[metric] for one in of_sets.values()) / 3
    assert found == pytest.approx(expected, abs=1e-9)
    assert list(found)[:3] == ["ap", "asi", "recall_at_1"]
    assert all(0 <= value <= 1 for value in found.values())


def test_dyml_means_weigh_sets_alike_and_pass_every_setting_on(monkeypatch):
    """Independent of the engine: what it is asked for, and what becomes of its answers."""
    asked = []

    def engine(embeddings, labels, **settings):
        asked.append(settings)
        score = len(asked) / 10
        return {"ap": score, "asi": score / 2, "recall_at_1": 1.0, "map_at_r": 0.0}

    monkeypatch.setattr(protocols, "retrieval_metrics", engine)
    middle = split_set(0)
    sets = {"coarse": labelled(0, n=300), "middle": middle}
    found = dyml_metrics(sets, geometry="poincare", curvature=0.1, memory_budget=99)
    assert found == pytest.approx(
        {
            "ap": 0.15,
            "asi": 0.075,
            "recall_at_1": 1.0,
            "coarse/ap": 0.1,
            "coarse/asi": 0.05,
            "coarse/recall_at_1": 1.0,
            "middle/ap": 0.2,
            "middle/asi": 0.1,
            "middle/recall_at_1": 1.0,
        }
    )
    assert asked[1] == {
        "geometry": "poincare",
        "curvature": 0.1,
        "queries": middle.queries,
        "gallery": middle.gallery,
        "recall_at": (1,),
        "whole_list": True,
        "memory_budget": 99,
    }


def test_dyml_needs_a_set():
    with pytest.raises(DatasetError, match="got none"):
        dyml_metrics({})
