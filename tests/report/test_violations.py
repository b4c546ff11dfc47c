"""Who comes before whom, against pairs counted one by one."""

import numpy as np
import pytest

from hsearch.evaluation.scoring import Embedded, ScoreOptions, score
from hsearch.report import violations
from hsearch.report.violations import draw_violations, kind_words, ranking_order
from tests.report.test_retrieval import points


def made() -> Embedded:
    rng = np.random.default_rng(1)
    classes = np.repeat(np.arange(6), 4)
    labels = np.stack([classes // 3, classes], axis=1)
    return Embedded(points(24, rng), labels, ("a", "b"), "cosine")


def test_broken_pairs_are_counted_as_one_by_one():
    embedded = made()
    found = ranking_order(embedded, np.random.default_rng(0))
    cosines = embedded.embeddings @ embedded.embeddings.T
    broken, pairs = np.zeros((3, 3)), np.zeros((3, 3))
    for query in range(24):
        shared = (embedded.labels == embedded.labels[query]).sum(axis=1)
        others = [i for i in range(24) if i != query]
        for i in others:
            for j in others:
                if shared[i] < shared[j]:
                    pairs[shared[i], shared[j]] += 1
                    broken[shared[i], shared[j]] += cosines[query, i] > cosines[query, j]
    upper = np.triu_indices(3, 1)
    assert found.broken[upper] == pytest.approx((broken / np.maximum(pairs, 1))[upper])
    assert np.isnan(found.broken[np.tril_indices(3)]).all()
    # All queries have as many pairs, so their mean is that of all pairs.
    whole = broken[upper].sum() / pairs[upper].sum()
    assert score(embedded, ScoreOptions())["h_violations"] == pytest.approx(whole)


def test_places_of_each_kind_sum_to_one():
    assert ranking_order(made(), np.random.default_rng(0)).ranks.sum(axis=1) == pytest.approx(1.0)


def test_many_queries_are_sampled(monkeypatch):
    monkeypatch.setattr(violations, "MOST_QUERIES", 3)
    first, second = (ranking_order(made(), np.random.default_rng(0)) for _ in range(2))
    assert np.array_equal(first.ranks, second.ranks)


def test_the_picture_says_the_metric_of_both_networks(looked):
    look = looked("hpl")
    figure = draw_violations(look, {"h_violations": 0.25}, {"h_violations": 0.125})
    assert any("12.5%, before training 25.0%" in text.get_text() for text in figure.texts)


def test_kinds_are_named_by_the_finest_level_in_common():
    assert [kind_words(n, ("make", "model")) for n in range(3)] == [
        "nothing",
        "same make",
        "same model",
    ]
