"""What labels find, against searches by hand."""

import numpy as np
import pytest

from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.report import label_search
from hsearch.report.label_search import (
    Pairs,
    choose_two_labels,
    find_by_two,
    find_pairs,
)


def pairs_of(marks, embeddings):
    marks = np.asarray(marks, dtype=bool)
    names = tuple(map(str, range(marks.shape[1])))
    vectors = np.asarray(embeddings, dtype=np.float32)
    return Pairs.of(LabelEmbedded(marks.astype(np.float32), marks, names, vectors)), marks


def random_pairs(seed=0, images=30, labels=6):
    rng = np.random.default_rng(seed)
    marks = rng.random((images, labels)) < 0.4
    return pairs_of(
        marks, rng.normal(size=(marks.sum(), 8)) * rng.uniform(0.1, 9, (marks.sum(), 1))
    )


def test_an_image_is_found_once_by_its_nearest_label():
    pairs, marks = random_pairs()
    found = find_pairs(pairs, marks, 4, np.random.default_rng(0))
    cosines = pairs.directions @ pairs.directions.T
    assert np.array_equal(found.queries, np.arange(len(pairs.images)))
    for query, neighbors, shared in zip(found.queries, found.neighbors, found.shared, strict=True):
        expected: list[int] = []
        images = {int(pairs.images[query])}
        for pair in np.argsort(-cosines[query], kind="stable").tolist():
            if pairs.images[pair] not in images and len(expected) < 4:
                images.add(int(pairs.images[pair]))
                expected.append(pair)
        assert neighbors.tolist() == expected
        label = pairs.labels[query]
        for pair, kind in zip(expected, shared, strict=True):
            near = 1 if marks[pairs.images[pair], label] else 0
            assert kind == (2 if pairs.labels[pair] == label else near)
        assert found.relevant[pairs.labels[found.queries] == label].tolist() == (
            [marks[:, label].sum() - 1] * marks[:, label].sum()
        )


def test_where_there_are_few_images_lists_end_early():
    pairs, marks = pairs_of([[1, 1], [1, 0]], [[1, 0], [0, 1], [1, 0.1]])
    found = find_pairs(pairs, marks, 3, np.random.default_rng(0))
    assert found.neighbors.tolist() == [[2, -1, -1], [2, -1, -1], [0, -1, -1]]
    assert found.shared.tolist() == [[2, 0, 0], [0, 0, 0], [2, 0, 0]]
    assert found.relevant.tolist() == [1, 0, 1]


def test_of_very_many_pairs_some_query(monkeypatch):
    monkeypatch.setattr(label_search, "MOST_QUERIES", 5)
    pairs, marks = random_pairs()
    found = find_pairs(pairs, marks, 3, np.random.default_rng(3))
    again = find_pairs(pairs, marks, 3, np.random.default_rng(3))
    assert len(set(found.queries.tolist())) == 5
    assert np.array_equal(found.queries, again.queries)
    assert np.array_equal(found.neighbors, again.neighbors)


def test_an_embedding_of_length_0_is_like_nobody():
    pairs, marks = pairs_of([[1]] * 4, [[1, 0], [0, 0], [0.5, 0.87], [-0.2, 0.98]])
    found = find_pairs(pairs, marks, 3, np.random.default_rng(0))
    assert found.neighbors[0].tolist() == [2, 1, 3]  # cosines of 0.5, 0 and -0.2


@pytest.mark.parametrize("seed", range(3))
def test_two_labels_find_by_the_mean_of_their_cosines(seed):
    pairs, marks = random_pairs(seed)
    units = np.zeros((*marks.shape, 8), dtype=np.float64)
    units[pairs.images, pairs.labels] = pairs.directions
    (image, labels), *_ = choose_two_labels(marks, np.random.default_rng(seed))
    cosines = sum(units[:, label] @ units[image, label] for label in labels) / 2
    candidates = np.flatnonzero(marks[:, labels].any(axis=1))
    expected = [i for i in candidates[np.argsort(-cosines[candidates])] if i != image]
    found = find_by_two(pairs, image, labels, 1000)
    assert list(found.neighbors) == expected
    assert list(found.shared) == marks[expected][:, labels].sum(axis=1).tolist()
    assert list(find_by_two(pairs, image, labels, 2).neighbors) == expected[:2]


def test_two_labels_are_those_of_other_images_too_and_never_twice():
    marks = np.array(
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool
    )
    for seed in range(4):
        chosen = choose_two_labels(marks, np.random.default_rng(seed))
        assert [labels for _, labels in chosen] == [(0, 1)]
        assert chosen[0][0] in (0, 1, 2)
        assert choose_two_labels(np.eye(3, dtype=bool), np.random.default_rng(seed)) == []
    everything = choose_two_labels(np.ones((9, 5), dtype=bool), np.random.default_rng(0))
    assert len({labels for _, labels in everything}) == len({i for i, _ in everything}) == 3
