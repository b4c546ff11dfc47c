"""Squares painted over: drawn for a whole batch, the same for the same generator."""

import numpy as np
import pytest
import torch

from hsearch.data.cutout import Holes, cut_out, draw_holes
from hsearch.spec import ImageSpec

SIZE = 32


def grey() -> torch.Tensor:
    return torch.full((3, SIZE, SIZE), 77, dtype=torch.uint8)


def holes(seed: int = 0, count: int = 400, side: float = 0.5) -> Holes:
    drawn = draw_holes(np.random.default_rng(seed), count, ImageSpec(cutout=side))
    assert drawn is not None
    return drawn


def hole_at(middle: tuple[float, float], side: float) -> Holes:
    return Holes(np.array([middle]), side, np.array([[1, 2, 3]], dtype=np.uint8))


def test_nothing_is_drawn_where_none_is_asked_for():
    rng = np.random.default_rng(0)
    assert draw_holes(rng, 10, ImageSpec()) is None
    assert rng.random() == np.random.default_rng(0).random()


@pytest.mark.parametrize(
    ("middle", "rows", "columns"),
    [
        ((0.5, 0.5), (8, 24), (8, 24)),
        ((0.0, 0.5), (0, 8), (8, 24)),
        ((1.0, 0.0), (24, 32), (0, 8)),
        ((0.25, 0.75), (0, 16), (16, 32)),
    ],
)
def test_a_square_is_painted_and_cut_off_at_the_edge(middle, rows, columns):
    image = grey()
    found = cut_out(image, hole_at(middle, 0.5), 0)
    expected = grey()
    color = torch.tensor([1, 2, 3], dtype=torch.uint8)
    expected[:, slice(*rows), slice(*columns)] = color[:, None, None]
    assert torch.equal(found, expected)
    assert found.dtype == torch.uint8
    assert torch.equal(image, grey())  # it may be a view of the cache of all images


def test_a_whole_square_paints_over_everything():
    found = cut_out(grey(), hole_at((0.5, 0.5), 1.0), 0)
    assert torch.equal(found.amin(dim=(1, 2)), torch.tensor([1, 2, 3], dtype=torch.uint8))
    assert torch.equal(found.amax(dim=(1, 2)), torch.tensor([1, 2, 3], dtype=torch.uint8))


def test_squares_lie_anywhere_in_any_color():
    drawn = holes(count=2000)
    shares = np.zeros((SIZE, SIZE))
    for index in range(2000):
        shares += (cut_out(grey(), drawn, index) != 77).any(dim=0).numpy() / 2000
    assert shares.min() > 0.03  # at the corners, a sixteenth
    assert shares.max() < 0.35  # in the middle, a quarter
    assert drawn.color.min() == 0
    assert drawn.color.max() == 255
    assert drawn.color.dtype == np.uint8


def test_the_same_generator_gives_the_same_squares():
    first, again, other = (holes(seed) for seed in (0, 0, 1))
    assert torch.equal(cut_out(grey(), first, 7), cut_out(grey(), again, 7))
    assert not torch.equal(cut_out(grey(), first, 7), cut_out(grey(), other, 7))


def test_images_need_not_be_square():
    wide = torch.zeros(3, 10, 40, dtype=torch.uint8)
    found = (cut_out(wide, hole_at((0.5, 0.5), 0.5), 0)[0] == 1).nonzero()
    assert found.amin(dim=0).tolist() == [2, 10]
    assert found.amax(dim=0).tolist() == [7 - 1, 30 - 1]
