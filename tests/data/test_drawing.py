import io

import numpy as np
from PIL import Image

from hsearch.data.drawing import Ink, bases, bend, blur, coverage, paper, pixels, png


def ink(start, end, radius) -> Ink:
    return Ink(
        np.array([[start]], dtype=np.float32),
        np.array([[end]], dtype=np.float32),
        np.array([[radius]], dtype=np.float32),
    )


def test_a_disc_covers_its_area():
    covered = coverage(ink((0, 0), (0, 0), 0.5), 64)[0]
    assert abs(covered.mean() * 4 - np.pi * 0.25) < 0.01
    assert np.allclose(covered, covered.T, atol=1e-5)


def test_a_line_lies_where_it_was_drawn():
    covered = coverage(ink((-0.5, 0.5), (0.5, 0.5), 0.1), 32)[0]
    rows, columns = np.nonzero(covered)
    assert (rows.min(), rows.max()) == (22, 25)
    assert columns.min() >= 6
    assert columns.max() <= 25


def test_a_bent_stroke_keeps_its_ends_and_bows_in_the_middle():
    start, end = np.zeros((1, 2), np.float32), np.array([[2.0, 0.0]], np.float32)
    points = bend(start, end, np.array([0.25], np.float32), 4)[0]
    assert np.allclose(points[[0, -1]], [[0, 0], [2, 0]])
    assert np.allclose(points[2], [1, 0.5])


def test_blur_keeps_flat_images_and_the_mean():
    images = np.random.default_rng(0).random((2, 32, 32, 3)).astype(np.float32)
    soft = blur(images, np.array([0.0, 1.0], np.float32))
    assert np.array_equal(soft[0], images[0])
    assert soft[1].std() < images[1].std()
    assert abs(soft[1].mean() - images[1].mean()) < 0.01


def test_paper_is_uneven_around_zero():
    sheets = paper(np.random.default_rng(0), 200, 32, 0.02)
    assert sheets.shape == (200, 32, 32)
    assert abs(sheets.mean()) < 0.02
    assert 0.05 < sheets.std() < 0.2


def test_bases_slant_then_turn_then_scale():
    point = np.array([[1.0, 2.0]])
    turned = point @ bases([np.pi / 2], [(1, 1)], [0])[0, 0]
    assert np.allclose(turned, [[-2, 1]], atol=1e-6)
    assert np.allclose(point @ bases([0], [(3, 0.5)], [0])[0, 0], [[3, 1]])
    assert np.allclose(point @ bases([0], [(1, 1)], [0.25])[0, 0], [[1.5, 2]])


def test_a_png_holds_the_pixels():
    image = pixels(np.linspace(-0.1, 1.1, 48, dtype=np.float32).reshape(4, 4, 3))
    assert image.min() == 0
    assert image.max() == 255
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(image)))), image)
