"""Which coarse class is nearest."""

import numpy as np
import pytest

from hsearch.report import confusion
from hsearch.report.confusion import coarse_confusion, draw_confusion


def test_shares_are_those_of_the_nearest_images():
    found = coarse_confusion(np.array([0, 0, 0, 0, 2, 2]), np.array([0, 0, 2, 0, 0, 2]))
    assert found.labels.tolist() == [0, 2]
    assert found.shares == pytest.approx(np.array([[0.75, 0.25], [0.5, 0.5]]))


def test_a_label_that_never_queries_counts_among_others():
    found = coarse_confusion(np.array([0, 0, 1]), np.array([0, 5, 1]))
    assert found.shares == pytest.approx(np.array([[0.5, 0, 0.5], [0, 1, 0]]))


def test_of_many_labels_the_most_confused_are_shown(monkeypatch):
    monkeypatch.setattr(confusion, "MOST_LABELS", 2)
    found = coarse_confusion(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 2, 2, 1]))
    assert found.labels.tolist() == [1, 2]
    assert found.shares == pytest.approx(np.array([[0, 0.5, 0.5], [0.5, 0.5, 0]]))


@pytest.mark.parametrize("method", ["hpl", "hier"])
def test_rows_of_the_picture_sum_to_one(looked, method):
    look = looked(method)
    shown = np.asarray(draw_confusion(look).axes[0].images[0].get_array())
    assert shown.sum(axis=1) == pytest.approx(np.ones(len(shown)))
    if method == "hpl":
        cosines = look.after.embedded.embeddings @ look.after.embedded.embeddings.T
        np.fill_diagonal(cosines, -np.inf)
        coarse = look.after.embedded.labels[:, 0]
        right = coarse[cosines.argmax(axis=1)] == coarse
        sizes = np.unique(coarse, return_counts=True)[1]
        assert (np.diag(shown) * sizes).sum() == pytest.approx(right.sum())
