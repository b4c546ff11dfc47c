"""Where the attention is drawn, and for which labels."""

from typing import Any

import numpy as np

from hsearch.report.attention import GRID, draw_attention, overlay
from hsearch.report.canvas import save
from hsearch.report.tiles import FRAME
from tests.report.conftest import pixels_of
from tests.report.made_label_looks import attended_to, made_look

RIGHT, WRONG, QUERY = (0, 114, 178), (136, 34, 85), (34, 34, 34)
CORNERS = [(0, 0), (0, 4), (4, 0), (4, 4)]


def texts(figure: Any):
    return [text.get_text() for text in figure.axes[0].texts]


def frame(sheet, spot):
    top, left = GRID.place(*spot)
    return tuple(sheet[top + 1, left + 1])


def brightest(sheet, spot):
    """In which half of a tile the light is: (lower, right)."""
    top, left = GRID.place(*spot)
    inner = sheet[top + FRAME : top + GRID.tile - FRAME, left + FRAME : left + GRID.tile - FRAME]
    y, x = np.unravel_index(inner.sum(axis=2).argmax(), inner.shape[:2])
    return y > GRID.inner / 2, x > GRID.inner / 2


def test_maps_are_of_the_images_own_labels_the_surest_first(tmp_path, toy_job):
    scores = np.array([[-1.0, 2.0, 9.0, 1.0]], dtype=np.float32)
    look = made_look(
        tmp_path, toy_job(), [[1, 1, 0, 1]], names=("a", "b", "c", "d"),
        scores=scores, attended=(attended_to(0, CORNERS),),
    )  # fmt: skip
    figure = draw_attention(look)
    sheet = pixels_of(save(figure, tmp_path / "a.png"))
    assert [frame(sheet, (0, c, 1)) for c in range(5)][:4] == [QUERY, RIGHT, RIGHT, WRONG]
    assert frame(sheet, (0, 4, 1)) == (255, 255, 255)
    assert brightest(sheet, (0, 1, 1)) == (False, True)  # b
    assert brightest(sheet, (0, 2, 1)) == (True, True)  # d
    assert brightest(sheet, (0, 3, 1)) == (False, False)  # a
    words = texts(figure)
    assert words[words.index("b") :] == [
        "b", "0.88, predicted", "d", "0.73, predicted", "a", "0.27, missed",
    ]  # fmt: skip
    top, left = GRID.place(0, 0, 1)
    assert tuple(sheet[top + 50, left + 50]) == (128, 128, 128)


def test_the_heads_of_the_surest_pair_come_last(tmp_path, toy_job):
    scores = np.array([[1, 5], [2, -1]], dtype=np.float32)  # the second image lacks label 1
    places = [(2, 2), [(0, 0), (0, 4), (4, 0), (4, 4), (0, 0), (4, 4), (0, 4)]]
    attended = tuple(attended_to(image, places, heads=7) for image in (1, 0))
    look = made_look(tmp_path, toy_job(), [[1, 1], [1, 0]], scores=scores, attended=attended)
    figure = draw_attention(look)
    sheet = pixels_of(save(figure, tmp_path / "a.png"))
    assert "The single heads of tag-001" in texts(figure)
    seen = [brightest(sheet, (2 + h // 5, 1 + h % 5, 2)) for h in range(7)]
    assert [(4 * y, 4 * x) for y, x in seen] == places[1]
    assert frame(sheet, (3, 3, 2)) == (255, 255, 255)


def test_a_pair_that_is_missed_is_no_right_one_and_one_head_is_not_shown_twice(tmp_path, toy_job):
    scores = np.full((1, 1), -200, dtype=np.float32)
    for heads, words in ((1, False), (2, True)):
        attended = (attended_to(0, [(0, 0)], heads=heads),)
        look = made_look(tmp_path, toy_job(), [[1]], scores=scores, attended=attended)
        figure = draw_attention(look)
        assert ("The single heads of tag-000" in texts(figure)) == words
        assert "0.00, missed" in texts(figure)
        if heads > 1:
            assert frame(pixels_of(save(figure, tmp_path / "a.png")), (1, 1, 2)) == WRONG


def test_labels_that_find_no_place_are_counted(tmp_path, toy_job):
    names = tuple(f"$x_{t}$ a name that is very long indeed" for t in range(8))
    attended = (attended_to(1, [(0, 0)] * 8), attended_to(0, [(0, 0)] * 8))
    look = made_look(tmp_path, toy_job(), [[0] * 8, [1] * 8], names=names, attended=attended)
    figure = draw_attention(look)
    words = texts(figure)
    assert "3 more labels" in words
    assert sum("predicted" in w or "missed" in w for w in words) == 2 + 5  # 2 of the legend
    first, second = (save(draw_attention(look), tmp_path / n).read_bytes() for n in ("a", "b"))
    assert first == second


def test_even_attention_is_one_faint_colour():
    grey = np.full((3, 9, 9), 100, dtype=np.uint8)
    peak = np.zeros((3, 3), dtype=np.float32)
    peak[1, 1] = 1.0
    nothing, even = (overlay(grey, np.full((3, 3), w, np.float32), 30) for w in (0, 1 / 9))
    for shown in (nothing, even):
        assert shown.shape == (30, 30, 3)
        assert len(np.unique(shown.reshape(-1, 3), axis=0)) == 1
    brightest = overlay(grey, peak, 30).mean(axis=2).max()
    assert nothing.mean() < even.mean() < (nothing.mean() + brightest) / 2
