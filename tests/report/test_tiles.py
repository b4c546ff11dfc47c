"""Sheets of frames."""

import numpy as np
import pytest

from hsearch.report.canvas import save
from hsearch.report.tiles import FRAME, MARGIN, Grid, Sheet
from tests.report.conftest import pixels_of

GRID = Grid(tile=60, lines=1)


@pytest.mark.parametrize("words", ["short", "a title of many words that goes on " * 3, "M" * 70])
def test_a_title_is_never_cut(tmp_path, words):
    sheet = Sheet(GRID, 1, 8, 0)
    sheet.title(words)
    pixels = pixels_of(save(sheet.figure(), tmp_path / "x.png"))
    assert pixels[:52].min() < 100
    assert pixels[:, -4:].min() == 255


def test_a_frame_holds_what_was_put_into_it(tmp_path):
    sheet = Sheet(GRID, 2, 2, 1)
    inside = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    sheet.put((1, 1, 1), inside, "#ff0000", ["$x^{"])
    pixels = pixels_of(save(sheet.figure(), tmp_path / "x.png"))
    top, left = GRID.place(1, 1, 1)
    framed = pixels[top : top + 60, left : left + 60]
    assert np.array_equal(framed[FRAME:-FRAME, FRAME:-FRAME], inside)
    framed[FRAME:-FRAME, FRAME:-FRAME] = (255, 0, 0)
    assert np.array_equal(framed, np.broadcast_to((255, 0, 0), (60, 60, 3)))
    assert pixels.shape[1] == left + 60 + MARGIN
