"""Who is found, and which queries are shown."""

import numpy as np
import pytest

from hsearch.evaluation.scoring import Embedded
from hsearch.report.retrieval import Found, choose_queries, find_neighbors


def points(count, rng):
    vectors = rng.normal(size=(count, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("masked", [False, True])
def test_neighbours_are_those_of_a_full_search(masked):
    rng = np.random.default_rng(0)
    vectors, classes = points(40, rng), rng.integers(0, 6, 40)
    labels = np.stack([classes // 3, classes], axis=1)
    queries = rng.random(40) < 0.5 if masked else None
    embedded = Embedded(vectors, labels, ("a", "b"), "cosine", queries=queries, gallery=None)
    found = find_neighbors(embedded, 5)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    rows = np.flatnonzero(queries) if queries is not None else np.arange(40)
    assert np.array_equal(found.queries, rows)
    assert np.array_equal(found.neighbors, np.argsort(-cosines[rows], axis=1)[:, :5])
    for query, neighbors, shared in zip(rows, found.neighbors, found.shared, strict=True):
        for neighbor, levels in zip(neighbors, shared, strict=True):
            assert levels == (labels[query] == labels[neighbor]).sum()


def test_a_query_is_judged_by_as_many_places_as_it_has_images_to_find():
    shared = np.array([[2, 2, 0], [2, 0, 2], [0, 2, 2], [1, 1, 1]])
    found = Found(np.arange(4), np.zeros((4, 3), int), shared, np.array([2, 9, 1, 3]))
    assert found.quality(2) == pytest.approx([1.0, 2 / 3, 0.0, 0.0])


def test_the_best_and_the_worst_are_chosen_and_no_class_twice():
    shared = np.array([[2, 2], [2, 2], [2, 1], [1, 1], [0, 1], [0, 0], [0, 0], [2, 2]])
    relevant = np.array([5] * 7 + [0])
    found = Found(np.arange(8), np.zeros((8, 2), int), shared, relevant)
    classes = np.array([0, 0, 1, 2, 3, 4, 4, 5])
    chosen = choose_queries(found, classes, 2, np.random.default_rng(0), count=2)
    assert chosen["best"][0] in (0, 1)
    assert chosen["best"][1] == 2
    assert chosen["worst"][0] in (5, 6)
    assert chosen["worst"][1] == 4
    assert chosen["random"].tolist() == [3]
