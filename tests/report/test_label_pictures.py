"""All pictures that a method has, as files."""

import numpy as np
import pytest

from hsearch.report.label_pictures import write_label_pictures
from tests.report.conftest import pixels_of
from tests.report.made_label_looks import attended_to, made_look, pair_vectors

MARKS = np.random.default_rng(0).random((20, 5)) < 0.5
PARTS = {
    "embeddings": (pair_vectors(MARKS), "label-gallery.png"),
    "label_vectors": (np.eye(5, dtype=np.float32), "label-neighbors.png"),
    "attended": ((attended_to(1, [(0, 0)] * 5, heads=2),), "attention.png"),
}


@pytest.mark.parametrize(
    "parts", [(), ("embeddings",), ("label_vectors", "attended"), tuple(PARTS)]
)
def test_a_method_has_the_pictures_of_what_it_gives(tmp_path, toy_job, parts):
    look = made_look(tmp_path, toy_job(), MARKS, **{part: PARTS[part][0] for part in parts})
    told: list[tuple[str, int, int]] = []
    written = write_label_pictures(look, tmp_path / "new", lambda *state: told.append(state))
    expected = {"label-scores.png"} | {PARTS[part][1] for part in parts}
    assert {path.name for path in written} == expected
    assert {path.name for path in (tmp_path / "new").iterdir()} == expected
    for path in written:
        pixels = pixels_of(path)
        assert min(pixels.shape[:2]) > 200
        assert 0.005 < (pixels.min(axis=2) < 200).mean() < 0.9
    count = len(expected)
    assert told == [("drawing", done, count) for done in range(count + 1)]
