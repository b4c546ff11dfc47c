"""Retrieval by label embeddings, as in table 6 of MulCon."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation.label_retrieval import label_embeddings, label_retrieval_metrics
from tests.evaluation import multilabel_oracle


def points(seed, count, dim=4):
    return np.random.default_rng(seed).normal(size=(count, dim))


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 4), min_size=2, max_size=20),
    st.lists(st.integers(1, 25), min_size=1, max_size=3, unique=True),
)
def test_slow_loops_say_the_same(seed, labels, at):
    labels = [*labels, labels[0]]
    embeddings = points(seed, len(labels))
    found = label_retrieval_metrics(embeddings, labels, at=at)
    expected = multilabel_oracle.label_retrieval(embeddings.tolist(), labels, at)
    assert found == pytest.approx(expected, abs=1e-9)
    assert all(0 <= value <= 1 for value in found.values())


def test_precision_and_recall_are_equal_where_enough_are_relevant():
    labels = np.arange(200) % 5
    found = label_retrieval_metrics(points(0, 200), labels)
    for k in (3, 5, 10, 15, 20):
        assert found[f"label_precision_at_{k}"] == pytest.approx(found[f"label_recall_at_{k}"])


def test_a_case_by_hand():
    """Three of label 0, two of label 1 and one alone, around a circle of directions."""
    degrees = np.array([0, 10, 180, 170, 21, 90])
    labels = [0, 0, 0, 1, 1, 2]
    embeddings = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
    embeddings *= np.array([1, 5, 0.1, 1, 2, 3])[:, None]
    found = label_retrieval_metrics(embeddings, labels, at=(1, 3))
    # Nearest: 0 -> 1 (right), 1 -> 0 (right), 2 -> 3, 3 -> 2, 4 -> 1.
    assert found["label_precision_at_1"] == found["label_recall_at_1"] == pytest.approx(2 / 5)
    # In the top 3: 0 has 1 of 2, 1 has 1 of 2, 2 has none (3, 5, 4), 3 has 4 (2, 5, 4), 4 none.
    assert found["label_precision_at_3"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 3) / 5)
    assert found["label_recall_at_3"] == pytest.approx((1 / 2 + 1 / 2 + 1) / 5)


def test_the_length_of_embeddings_and_the_block_do_not_matter():
    embeddings, labels = points(1, 300, 8), np.arange(300) % 7
    found = label_retrieval_metrics(embeddings, labels)
    scaled = embeddings * np.random.default_rng(2).uniform(0.1, 9, (300, 1))
    assert label_retrieval_metrics(scaled, labels) == pytest.approx(found)
    assert label_retrieval_metrics(embeddings, labels, memory_budget=1) == pytest.approx(found)


def test_only_labels_that_images_have_take_part():
    embeddings = torch.arange(24.0).reshape(3, 4, 2)
    labels = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    vectors, which = label_embeddings(embeddings, labels)
    assert vectors.tolist() == [[0, 1], [6, 7], [18, 19]]
    assert which.tolist() == [0, 3, 1]


@pytest.mark.parametrize(
    ("embeddings", "labels", "at", "error", "sentence"),
    [
        (np.ones((3, 2)), [0, 0], (1,), DatasetError, "one label, but got labels of shape"),
        (np.ones((3, 2)), [0, 1, 2], (1,), DatasetError, "a label that two images have"),
        (np.zeros((3, 2)), [0, 0, 1], (1,), DivergedError, "some are 0"),
        (np.full((3, 2), np.nan), [0, 0, 1], (1,), DivergedError, "must be finite"),
        (np.ones((3, 2)), [0, 0, 1], (0, 3), ConfigError, "numbers from 1"),
        (np.ones((3, 2)), [0, 0, 1], (), ConfigError, "numbers from 1"),
    ],
)
def test_what_cannot_be_retrieved_ends_in_a_sentence(embeddings, labels, at, error, sentence):
    with pytest.raises(error, match=sentence):
        label_retrieval_metrics(embeddings, labels, at=at)
