import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation import linear
from hsearch.evaluation.classification import halves, knn_accuracy, linear_accuracy
from hsearch.evaluation.linear import fit_linear, predict_linear
from hsearch.geometry import exp_map_zero
from tests.evaluation import oracles


def random_case(seed, n=60, num_classes=5, dim=6, noise=0.8):
    """Embeddings on the sphere, labels and which of them train; every class has train images."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(num_classes), rng.integers(0, num_classes, n - num_classes)])
    x = rng.normal(size=(num_classes, dim))[labels] + noise * rng.normal(size=(n, dim))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    return x, labels, np.arange(n) < max(num_classes, 2 * n // 3)


def votes_of_a_loop(case, k, distance):
    train, train_labels, test, test_labels = case
    right = 0
    for x, label in zip(test, test_labels, strict=True):
        nearest = sorted((distance(x, y), row) for row, y in enumerate(train))[:k]
        votes: dict[int, float] = {}
        for gap, row in nearest:
            votes[train_labels[row]] = votes.get(train_labels[row], 0) + np.exp(-(gap**2) / 0.14)
        best = max(votes.values())
        # A dict keeps the order of insertion: the first best class has the nearest neighbour.
        right += next(name for name, vote in votes.items() if vote == best) == label
    return right / len(test)


def split(x, labels, train):
    return x[train], labels[train], x[~train], labels[~train]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 40))
def test_knn_is_that_of_a_loop(seed, k):
    case = split(*random_case(seed))
    found = knn_accuracy(*case, k=k)
    assert 0 <= found <= 1
    assert found == votes_of_a_loop(case, k, oracles.euclidean)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 40), curvature=st.floats(0.05, 2.0))
def test_knn_in_the_ball_is_that_of_a_loop(seed, k, curvature):
    x, labels, train = random_case(seed)
    radius = np.random.default_rng(seed).uniform(0.2, 0.9, (len(x), 1)) / curvature**0.5
    case = split((x * radius).astype(np.float32), labels, train)
    found = knn_accuracy(*case, k=k, geometry="poincare", curvature=curvature)
    assert found == votes_of_a_loop(case, k, lambda a, b: oracles.poincare(a, b, curvature))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_votes_on_the_unit_sphere_are_the_exponential_of_the_cosine(seed):
    train, train_labels, test, test_labels = split(*random_case(seed))
    cosines = test.astype(np.float64) @ train.T.astype(np.float64)
    order = np.argsort(-cosines, axis=1)[:, :20]
    votes = np.zeros((len(test), 5))
    for row, nearest in enumerate(order):
        for column in nearest:
            votes[row, train_labels[column]] += np.exp(cosines[row, column] / 0.07)
    expected = (votes.argmax(axis=1) == test_labels).mean()
    assert knn_accuracy(train, train_labels, test, test_labels) == expected


def test_equal_votes_go_to_the_nearer_neighbour():
    """References 0 and 1 are equally near, so the first counts as the nearer; 2 and 3 are far."""
    train = np.array([[1.0], [-1.0], [1.5], [1.5]], np.float32)
    at_zero = np.zeros((1, 1), np.float32)
    assert knn_accuracy(train, ["b", "a", "c", "c"], at_zero, ["b"], k=2) == 1.0
    assert knn_accuracy(train, ["a", "b", "c", "c"], at_zero, ["a"], k=4) == 1.0
    # One far vote more decides between two that are equal, two far votes alone do not.
    assert knn_accuracy(train, ["b", "a", "a", "c"], at_zero, ["a"], k=4) == 1.0
    assert knn_accuracy(train, ["b", "b", "c", "c"], at_zero, ["b"], k=4) == 1.0


def test_far_neighbours_still_vote():
    """exp(-d^2 / 0.14) of d = 100 is 0 in float64; only differences of distances count."""
    train = np.array([[100.0], [100.01], [100.02]], np.float32)
    zero = np.zeros((1, 1), np.float32)
    assert knn_accuracy(train, [0, 1, 1], zero, [0], k=3) == 1.0


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_rows_and_the_names_of_classes_do_not_matter(seed):
    x, labels, train = random_case(seed)
    case = split(x, labels, train)
    rng = np.random.default_rng(seed)
    one, two = rng.permutation(train.sum()), rng.permutation((~train).sum())
    names = np.array(["e", "a", "d", "b", "c"])
    shuffled = case[0][one], names[case[1][one]], case[2][two], names[case[3][two]]
    assert knn_accuracy(*shuffled) == pytest.approx(knn_accuracy(*case), abs=1e-12)
    assert linear_accuracy(*shuffled) == pytest.approx(linear_accuracy(*case), abs=1e-12)


def test_separate_classes_score_one():
    labels = np.repeat(np.arange(6), 8)
    noise = 0.05 * np.random.default_rng(0).normal(size=(48, 6))
    case = split((np.eye(6)[labels] + noise).astype(np.float32), labels, halves(labels, seed=0))
    assert knn_accuracy(*case) == 1.0
    assert linear_accuracy(*case) == 1.0


@pytest.mark.parametrize("l2", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_linear_fit_is_that_of_sklearn(l2, seed):
    """The peer's Newton steps are exact; ours ends at a gradient, and error = gradient / curvature.

    The mean loss curves by l2 / N at least, so a gradient of the tolerance in each of the D C
    weights leaves an error of sqrt(D C) N / l2 times the tolerance at most.
    """
    x, labels, train = random_case(seed, n=300, num_classes=7, noise=0.5)
    x = x.astype(np.float64)
    peer = LogisticRegression(C=1 / l2, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    peer.fit(x[train], labels[train])
    weights, bias = fit_linear(torch.from_numpy(x[train]), labels[train], l2=l2)
    bound = weights.numel() ** 0.5 * train.sum() / l2 * linear.GRADIENT_TOLERANCE
    np.testing.assert_allclose(weights.T, peer.coef_, rtol=0, atol=bound)
    shift = peer.intercept_.mean() - float(bias.mean())
    np.testing.assert_allclose(bias + shift, peer.intercept_, rtol=0, atol=bound)
    scaled = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    peer.fit(scaled[train], labels[train])
    expected = peer.score(scaled[~train], labels[~train])
    assert linear_accuracy(*split(x, labels, train), l2=l2) == expected
    assert linear_accuracy(*split(1e-3 * x + 5.0, labels, train), l2=l2) == expected


def test_the_linear_fit_ends_where_the_gradient_of_a_loop_is_zero():
    x, labels, _ = random_case(3)
    weights, bias = (p.numpy() for p in fit_linear(torch.from_numpy(x).double(), labels, l2=0.5))
    gradient, of_bias = 0.5 * weights, np.zeros(5)
    for row, label in zip(x.astype(np.float64), labels, strict=True):
        scores = np.exp(row @ weights + bias)
        error = scores / scores.sum() - np.eye(5)[label]
        gradient, of_bias = gradient + np.outer(row, error), of_bias + error
    assert np.abs(gradient).max() / len(x) < 1e-6
    assert np.abs(of_bias).max() / len(x) < 1e-6


@pytest.mark.parametrize("budget", [1, 1000, 2**30])
def test_blocks_do_not_change_the_fit(budget):
    x, labels, _ = random_case(4)
    features = torch.from_numpy(x).double()
    weights, bias = fit_linear(features, labels, l2=1.0, memory_budget=budget)
    whole = fit_linear(features, labels, l2=1.0)
    torch.testing.assert_close((weights, bias), whole, atol=1e-5, rtol=0)
    assert np.array_equal(
        predict_linear(features, weights, bias, memory_budget=budget),
        (features @ weights + bias).argmax(dim=1),
    )


def test_the_fit_is_deterministic_and_works_on_tensors_made_for_inference():
    x, labels, train = random_case(5)
    with torch.inference_mode():
        tensor = torch.from_numpy(x).double() * 1.0
        inside = linear_accuracy(*split(tensor, labels, train))
    torch.manual_seed(1)
    outside = linear_accuracy(*split(tensor, labels, train))
    assert inside == outside == linear_accuracy(*split(x, labels, train))


def test_points_of_the_ball_are_classified_in_its_tangent_space():
    x, labels, train = random_case(6)
    ball = exp_map_zero(torch.from_numpy(x).double() * 0.9, 0.7)
    case = split(ball, labels, train)
    found = linear_accuracy(*case, geometry="poincare", curvature=0.7)
    assert found == linear_accuracy(*split(x * 0.9, labels, train))


def test_a_fit_that_does_not_converge_is_said(monkeypatch, caplog):
    monkeypatch.setattr(linear, "MAX_ITERATIONS", 1)
    x, labels, train = random_case(7)
    with caplog.at_level(logging.WARNING):
        linear_accuracy(*split(x, labels, train))
    assert "has not converged" in caplog.text


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(0, 1000))
def test_halves_split_every_class(labels, seed):
    train = halves(labels, seed=seed)
    assert train.dtype == bool
    for label in set(labels):
        inside = [bool(t) for t, one in zip(train, labels, strict=True) if one == label]
        assert sum(inside) == (len(inside) + 1) // 2
    assert np.array_equal(halves(labels, seed=seed), train)


def test_halves_depend_on_the_seed_and_on_nothing_else():
    labels = ["cat", "dog"] * 20
    first = halves(labels, seed=0)
    np.random.seed(3)  # noqa: NPY002
    assert np.array_equal(halves(labels, seed=0), first)
    assert not np.array_equal(halves(labels, seed=1), first)


@pytest.mark.parametrize("accuracy", [knn_accuracy, linear_accuracy])
def test_what_cannot_be_classified_is_refused(accuracy):
    train, train_labels, test, test_labels = split(*random_case(0))
    strange = np.where(test_labels == 1, 9, test_labels)
    with pytest.raises(DatasetError, match=r"1 classes have none \(the first is '9'\).*`halves`"):
        accuracy(train, train_labels, test, strange)
    with pytest.raises(DatasetError, match="Every train embedding"):
        accuracy(train, train_labels[1:], test, test_labels)
    with pytest.raises(DatasetError, match="Every test embedding"):
        accuracy(train, train_labels, test[:0], test_labels[:0])
    with pytest.raises(ConfigError, match="curvature above 0"):
        accuracy(train, train_labels, test, test_labels, geometry="poincare")
    with pytest.raises(ConfigError, match="norms below"):
        accuracy(train, train_labels, test, test_labels, geometry="poincare", curvature=2.0)
    train[0, 0] = np.nan
    with pytest.raises(DivergedError, match="finite"):
        accuracy(train, train_labels, test, test_labels)


def test_settings_out_of_range_are_refused():
    case = split(*random_case(0))
    for k in (0, 41):
        with pytest.raises(ConfigError, match=r"1\.\.40"):
            knn_accuracy(*case, k=k)
    for l2 in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="`l2`"):
            linear_accuracy(*case, l2=l2)
