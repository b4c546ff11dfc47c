"""Frames of the gallery of labels at their places."""

from typing import Any

import numpy as np
import pytest

from hsearch.report.canvas import save
from hsearch.report.label_gallery import GRID, NEIGHBORS, draw_label_gallery
from hsearch.report.label_search import Pairs, choose_two_labels, find_by_two, find_pairs
from hsearch.report.retrieval import choose_queries
from hsearch.seeds import rng_for
from tests.report.conftest import pixels_of
from tests.report.made_label_looks import made_look, names_of, pair_vectors

WRONG, NEAR, RIGHT, QUERY = (136, 34, 85), (230, 159, 0), (0, 114, 178), (34, 34, 34)
WHITE = (255, 255, 255)


def frames(sheet, row, headings):
    places = [GRID.place(row, column, headings) for column in range(NEIGHBORS + 1)]
    return [tuple(sheet[top + 1, left + 1].tolist()) for top, left in places]


def test_colours_say_how_a_planted_image_was_found(tmp_path, toy_job):
    # Label 0 of image 0 finds: image 1 by it, image 2 by label 1 though it has label 0, image 3
    # by label 1, which is all that it has.
    marks = [[1, 0], [1, 0], [1, 1], [0, 1]]
    angles = np.array([0.0, 0.1, 2.0, 0.2, -0.3])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    look = made_look(tmp_path, toy_job(), marks, names=("sun", "sea"), embeddings=vectors)
    rng = rng_for(look.job.seed, "label gallery")
    found = find_pairs(Pairs.of(look.after), look.after.labels, NEIGHBORS, rng)
    assert found.neighbors[0].tolist() == [1, 3, 4, -1, -1, -1]
    assert found.shared[0].tolist() == [2, 1, 0, 0, 0, 0]
    chosen = choose_queries(found, np.array([0, 0, 0, 1, 1]), 2, rng)
    order = [q for kind in ("best", "worst", "random") for q in chosen[kind].tolist()]
    sheet = pixels_of(save(draw_label_gallery(look), tmp_path / "g.png"))
    for row, query in enumerate(order):
        colours = [(WRONG, NEAR, RIGHT)[s] for s in found.shared[query][:3]]
        expected = [QUERY, *colours] + [WHITE] * 3
        assert frames(sheet, row, row + 1) == expected  # one query of each kind


@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_all_frames_and_captions_are_those_of_the_search(tmp_path, toy_job, noise):
    marks = np.random.default_rng(0).random((40, 12)) < 0.3
    look = made_look(tmp_path, toy_job(), marks, embeddings=pair_vectors(marks, noise=noise))
    figure: Any = draw_label_gallery(look)
    words = [text.get_text() for text in figure.axes[0].texts]
    sheet = pixels_of(save(figure, tmp_path / "g.png"))
    pairs, rng = Pairs.of(look.after), rng_for(look.job.seed, "label gallery")
    found = find_pairs(pairs, marks, NEIGHBORS, rng)
    chosen = choose_queries(found, pairs.labels[found.queries], 2, rng)
    row = 0
    for headings, queries in enumerate(chosen.values(), start=1):
        for query in queries:
            colours = [(WRONG, NEAR, RIGHT)[s] for s in found.shared[query]]
            assert frames(sheet, row, headings) == [QUERY, *colours]
            for pair in (found.queries[query], *found.neighbors[query]):
                caption = [look.names[pairs.labels[pair]], f"{pairs.images[pair]:03d}"]
                assert caption in [words[i : i + 2] for i in range(len(words))]
            row += 1
    assert row == 9
    for image, labels in choose_two_labels(marks, rng):
        two = find_by_two(pairs, image, labels, NEIGHBORS)
        assert frames(sheet, row, 5) == [QUERY] + [(WRONG, NEAR, RIGHT)[s] for s in two.shared]
        caption = [*(look.names[label] for label in labels), f"{image:03d}"]
        assert caption in [words[i : i + 3] for i in range(len(words))]
        row += 1
    assert row == 12


@pytest.mark.parametrize(
    "marks",
    [
        np.ones((5, 1)),
        np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0]]),  # one image with a label, and none
        np.eye(3),
        np.random.default_rng(0).random((30, 100)) < 0.1,
    ],
)
def test_few_and_many_labels_have_a_gallery(tmp_path, toy_job, marks):
    names = (*names_of(marks.shape[1] - 1), "$a^{ a name much longer than a frame is wide")
    marks = marks.astype(bool)
    look = made_look(tmp_path, toy_job(), marks, names=names, embeddings=pair_vectors(marks))
    first, second = (save(draw_label_gallery(look), tmp_path / n).read_bytes() for n in ("a", "b"))
    assert first == second
