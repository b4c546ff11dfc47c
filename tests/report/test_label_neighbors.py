"""Which labels are alike, and how often images have both."""

from typing import Any

import numpy as np
import pytest

from hsearch.report import label_neighbors as module
from hsearch.report.canvas import save
from hsearch.report.label_neighbors import draw_label_neighbors, label_neighbors
from tests.report.made_label_looks import made_look, names_of

MARKS = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0]], dtype=bool)


def table_of(axes):
    """The texts of every row, from left to right; below a name comes its share."""
    rows: dict[int, list[tuple[float, float, str]]] = {}
    for text in axes.texts:
        x, y = text.get_position()
        rows.setdefault(round(y), []).append((x, y, text.get_text()))
    return [[words for _, _, words in sorted(rows[row])] for row in sorted(rows)]


def test_neighbours_are_by_distance_not_by_angle():
    vectors = np.array([[1, 0], [9, 0.1], [1, 1], [5, 5]], dtype=np.float32)
    found = label_neighbors(vectors, MARKS)
    by_label = dict(zip(found.labels.tolist(), found.nearest.tolist(), strict=True))
    assert by_label == {0: [2, 3, 1], 1: [3, 0, 2], 2: [0, 3, 1], 3: [2, 1, 0]}


def test_shares_are_of_the_images_with_the_label():
    found = label_neighbors(np.eye(4, dtype=np.float32), MARKS)
    for row, label in enumerate(found.labels.tolist()):
        for column, neighbor in enumerate(found.nearest[row].tolist()):
            images = MARKS[MARKS[:, label]]
            expected = images[:, neighbor].mean() if len(images) else np.nan
            assert found.together[row, column] == pytest.approx(expected, nan_ok=True)
            assert found.usual[row, column] == MARKS[:, neighbor].mean()
    assert np.isnan(found.together[found.labels == 3]).all()


def test_alike_labels_stand_together():
    rng = np.random.default_rng(0)
    groups = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
    vectors = np.eye(3)[groups] * 3 + 0.1 * rng.normal(size=(9, 3))
    found = label_neighbors(vectors.astype(np.float32), np.ones((2, 9), dtype=bool))
    assert (np.diff(groups[found.labels]) != 0).sum() == 2
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = (units @ units.T)[np.ix_(found.labels, found.labels)]
    assert found.cosines == pytest.approx(expected, abs=1e-6)


def test_the_most_frequent_labels_are_shown_with_neighbours_among_all(monkeypatch):
    monkeypatch.setattr(module, "MOST_LABELS", 2)
    vectors = np.array([[0.0], [5.0], [4.9], [0.1]], dtype=np.float32)
    found = label_neighbors(vectors, MARKS)
    assert sorted(found.labels.tolist()) == [0, 1]
    assert found.nearest[found.labels.tolist().index(0), 0] == 3
    assert found.nearest[found.labels.tolist().index(1), 0] == 2
    assert found.cosines.shape == (2, 2)


def test_the_table_says_who_is_near_and_how_often(tmp_path, toy_job):
    vectors = np.array([[1, 0], [9, 0.1], [1, 1]], dtype=np.float32)
    names = ("sun", "sea", "$s")
    look = made_look(tmp_path, toy_job(), MARKS[:, :3], names=names, label_vectors=vectors)
    figure: Any = draw_label_neighbors(look)
    rows = table_of(figure.axes[0])
    assert ["sun (4)", "$s", "25% (25%)", "sea", "50% (50%)"] in rows
    assert ["sea (2)", "sun", "100% (100%)", "$s", "0% (25%)"] in rows
    ticks = [tick.get_text() for tick in figure.axes[1].get_yticklabels()]
    assert [row[0].partition(" (")[0] for row in rows] == ticks


def test_a_label_of_no_image_has_neighbours_but_no_shares(tmp_path, toy_job):
    marks = MARKS[:, [0, 1, 3]]
    look = made_look(tmp_path, toy_job(), marks, label_vectors=np.eye(3, dtype=np.float32))
    figure: Any = draw_label_neighbors(look)
    (row,) = [row for row in table_of(figure.axes[0]) if row[0] == "tag-002 (0)"]
    assert row[1:] == ["tag-000", "no image", "tag-001", "no image"]


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (2, 2), (3, 3), (40, 40), (100, 40)])
def test_few_and_many_labels_are_drawn(tmp_path, toy_job, count, shown):
    rng = np.random.default_rng(0)
    marks = rng.random((30, count)) < 0.5
    marks[0] = True
    names = (*names_of(count - 1), "$a^{ a name much longer than there is room for it")
    vectors = rng.normal(size=(count, 4)).astype(np.float32)
    vectors[0] = 0
    look = made_look(tmp_path, toy_job(), marks, names=names, label_vectors=vectors)
    figure: Any = draw_label_neighbors(look)
    assert len(figure.axes[1].get_yticklabels()) == shown
    notes = [text.get_text() for text in figure.texts]
    assert any("the 40 most frequent of 100 labels" in note for note in notes) == (count > shown)
    first, second = (
        save(draw_label_neighbors(look), tmp_path / name).read_bytes() for name in ("a", "b")
    )
    assert first == second
