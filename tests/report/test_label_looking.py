"""Which images are worth showing."""

import numpy as np

from hsearch.report import label_looking
from hsearch.report.label_looking import choose_images, shown_labels
from tests.report.made_label_looks import made_look


def chosen(marks, seed=0, count=6):
    marks = np.asarray(marks, dtype=bool)
    return choose_images(marks, np.zeros(marks.shape), np.random.default_rng(seed), count).tolist()


def test_the_title_says_what_was_trained_and_what_is_shown(tmp_path, toy_job):
    look = made_look(tmp_path, toy_job("supcon"), [[1, 0], [1, 1]])
    assert look.title == "supcon on tagged, validation images"
    assert look.short_id(1) == "001"


def test_an_images_surest_labels_are_shown():
    has = np.array([1, 1, 0, 1, 1, 1, 1], dtype=bool)
    scores = np.array([0.0, 3.0, 9.0, -1.0, 3.0, 5.0, 1.0])
    assert shown_labels(has, scores).tolist() == [5, 1, 4, 6, 0]
    assert shown_labels(np.zeros(7, dtype=bool), scores).tolist() == []


def test_images_that_add_the_most_labels_come_first():
    marks = [[1, 1, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0]]
    for seed in range(5):
        assert chosen(marks, seed) == [0, 2, 3, 1]
        assert chosen(marks, seed, count=2) == [0, 2]


def test_of_images_that_add_as_many_that_with_more_labels_wins():
    marks = [[1, 1, 1, 0], [0, 0, 0, 1], [0, 1, 1, 1]]
    for seed in range(5):
        assert set(chosen(marks, seed, count=2)) == {0, 2}


def test_a_label_that_would_not_be_drawn_does_not_count(monkeypatch):
    monkeypatch.setattr(label_looking, "SHOWN_LABELS", 1)
    marks, scores = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 1]], dtype=bool), np.zeros((3, 3))
    scores[:2, 0] = 1  # both show label 0, so that label 2 is the last one's
    images = choose_images(marks, scores, np.random.default_rng(0), 2)
    assert 2 in images


def test_images_without_labels_are_left_out_and_draws_repeat(monkeypatch):
    assert chosen([[0, 0], [1, 0], [0, 0]]) == [1]
    assert chosen(np.zeros((4, 3))) == []
    rng = np.random.default_rng(0)
    marks = rng.random((80, 30)) < 0.1
    assert chosen(marks, 1) == chosen(marks, 1)
    assert len(set(chosen(marks, 1))) == 6
    assert any(chosen(marks, 1) != chosen(marks, seed) for seed in range(2, 6))
    monkeypatch.setattr(label_looking, "MOST_LOOKED_AT", 4)
    assert len(chosen(marks)) <= 4
