"""Multi-label metrics: against slow loops, in degenerate cases, and at the size of COCO."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation.multilabel import label_scores, multilabel_metrics
from tests.evaluation import multilabel_oracle

shapes = st.tuples(st.integers(1, 12), st.integers(1, 6))
coarse = st.integers(-4, 4).map(lambda n: n / 4)  # equal scores are common


@st.composite
def cases(draw):
    shape = draw(shapes)
    scores = draw(arrays.arrays(np.float64, shape, elements=coarse | st.floats(-3, 3)))
    labels = draw(arrays.arrays(bool, shape))
    labels[draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1))] = True
    return scores, labels


@settings(deadline=None)
@given(cases(), st.sampled_from([0.0, 0.5, -1.0]), st.integers(1, 4), st.sampled_from([1, 2**28]))
def test_slow_loops_say_the_same(case, threshold, k, memory_budget):
    scores, labels = case
    found = label_scores(scores, labels, threshold=threshold, k=k, memory_budget=memory_budget)
    expected = multilabel_oracle.metrics(scores.tolist(), labels.tolist(), threshold, k)
    assert found.metrics() == pytest.approx(expected, abs=1e-12)
    for label, value in enumerate(found.average_precision):
        slow = multilabel_oracle.average_precision(scores[:, label], labels[:, label])
        assert value == pytest.approx(slow, abs=1e-12, nan_ok=True)


@settings(deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_neither_the_order_of_images_nor_of_labels_matters(case, random):
    scores, labels = case
    rows, columns = list(range(scores.shape[0])), list(range(scores.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    k = scores.shape[1]  # among equal scores the first label goes before, if only some may
    found = multilabel_metrics(scores, labels, k=k)
    assert all(0 <= value <= 1 for value in found.values())
    turned = np.ix_(rows, columns)
    again = multilabel_metrics(scores[turned], labels[turned], k=k)
    assert again == pytest.approx(found, abs=1e-12)


@settings(deadline=None)
@given(cases())
def test_scores_that_tell_the_labels_are_perfect(case):
    _, labels = case
    found = multilabel_metrics(np.where(labels, 1.0, -1.0), labels, k=labels.shape[1])
    assert found["map"] == found["or"] == found["cr"] == 1
    never = (~labels.any(axis=0)).sum()  # each adds one to the number of predictions
    assert found["op"] == pytest.approx(labels.sum() / (labels.sum() + never))
    assert found["cp"] == pytest.approx(1 - never / labels.shape[1])


@settings(deadline=None)
@given(cases())
def test_average_precision_depends_on_the_order_alone(case):
    scores, labels = np.round(case[0], 6), case[1]
    found = label_scores(scores, labels).average_precision
    turned = label_scores(np.exp(scores * 3 + 1), labels).average_precision
    np.testing.assert_allclose(turned, found)


def test_a_case_by_hand():
    scores = np.array([[2.0, -1.0, 0.5], [1.0, 3.0, -2.0], [-1.0, 2.0, 1.0]])
    labels = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1]])
    found = label_scores(scores, labels, k=1)
    assert found.average_precision.tolist() == pytest.approx([(1 + 2 / 3) / 2, 1, 1])
    assert found.everything.correct.tolist() == [1, 2, 1]
    assert found.everything.predicted.tolist() == [2, 2, 2]
    metrics = found.metrics()
    assert metrics["cp"] == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    assert metrics["cr"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert (metrics["op"], metrics["or"]) == pytest.approx((4 / 6, 4 / 5))
    # The highest of each image are labels 0, 1 and 1: the last label is never predicted.
    assert found.top.predicted.tolist() == [1, 2, 0]
    assert metrics["op_top_1"] == pytest.approx(3 / 4)
    assert metrics["cp_top_1"] == pytest.approx(2 / 3)
    assert metrics["of1_top_1"] == pytest.approx(2 * 0.75 * 0.6 / 1.35)


def test_a_label_that_no_image_has_is_in_no_mean_but_those_of_predictions():
    scores = np.array([[1.0, 1.0], [-1.0, -1.0]])
    labels = np.array([[1, 0], [0, 0]])
    found = label_scores(scores, labels)
    assert np.isnan(found.average_precision[1])
    assert np.isnan(found.everything.recall()[1])
    metrics = found.metrics()
    assert (metrics["map"], metrics["cr"], metrics["or"]) == (1, 1, 1)
    assert (metrics["cp"], metrics["op"]) == (0.5, 0.5)


def test_a_label_of_all_images_has_an_average_precision_of_one():
    scores = np.random.default_rng(0).normal(size=(20, 2))
    labels = np.stack([np.ones(20), np.arange(20) % 2], axis=1)
    assert label_scores(scores, labels).average_precision[0] == 1


def test_nothing_predicted_scores_zero():
    labels = np.eye(3)
    found = multilabel_metrics(np.full((3, 3), -1.0), labels)
    rest = {name: value for name, value in found.items() if name != "map"}
    assert set(rest.values()) == {0.0}
    assert found["map"] == pytest.approx(1 / 3)  # all scores equal: a list of chance


def test_equal_scores_of_an_image_go_to_the_first_labels():
    found = label_scores(np.ones((4, 5)), np.ones((4, 5)))
    assert found.top.predicted.tolist() == [4, 4, 4, 0, 0]


def test_tensors_and_halves_are_welcome():
    scores = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = (torch.arange(120).reshape(30, 4) % 3 == 0).numpy()
    expected = multilabel_metrics(scores.detach().half().float().numpy(), labels)
    assert multilabel_metrics(scores.half(), labels) == expected
    assert multilabel_metrics(scores.bfloat16(), labels).keys() == expected.keys()


@pytest.mark.parametrize(
    ("scores", "labels", "error", "sentence"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), DatasetError, r"got shapes \(2, 3\) and \(3, 2\)"),
        (np.ones((0, 3)), np.ones((0, 3)), DatasetError, "one row per image"),
        (np.ones((2, 2)), np.full((2, 2), -1), DatasetError, "Labels must be 0 or 1"),
        (np.ones((2, 2)), np.zeros((2, 2)), DatasetError, "but none has any"),
        (np.full((2, 2), np.nan), np.ones((2, 2)), DivergedError, "must be finite"),
    ],
)
def test_what_cannot_be_scored_ends_in_a_sentence(scores, labels, error, sentence):
    with pytest.raises(error, match=sentence):
        multilabel_metrics(scores, labels)


def test_none_of_the_top_is_refused():
    with pytest.raises(ConfigError, match="`k` must be at least 1"):
        multilabel_metrics(np.ones((2, 2)), np.ones((2, 2)), k=0)


def test_memory_keeps_within_its_budget():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(5000, 200)).astype(np.float32)
    labels = rng.random((5000, 200)) < 0.03
    budget = 2**22
    tracemalloc.start()
    found = label_scores(scores, labels, memory_budget=budget)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < budget + 2 * labels.nbytes
    whole = label_scores(scores, labels)
    assert np.array_equal(found.average_precision, whole.average_precision)
    assert found.metrics() == whole.metrics()
