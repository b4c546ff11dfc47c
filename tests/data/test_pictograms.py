import numpy as np
import pytest

from hsearch.data.drawing import coverage
from hsearch.data.pictograms import NAMES, PICTOGRAMS, write

SIZE = 48


def drawn(name, count=8, seed=0, place=(0.0, 0.0), size=0.4):
    places = np.tile(np.float32(place), (count, 1))
    sizes = np.full(count, size, dtype=np.float32)
    return coverage(write(np.random.default_rng(seed), name, places, sizes), SIZE)


@pytest.mark.parametrize("name", NAMES)
def test_a_thing_stays_near_its_place_and_differs_from_image_to_image(name):
    there = drawn(name, place=(0.3, -0.2))
    assert there.shape == (8, SIZE, SIZE)
    assert (there.sum(axis=(1, 2)) > 20).all()
    axis = (np.arange(SIZE) + 0.5) * (2 / SIZE) - 1
    mass = there.sum(axis=(1, 2))
    assert abs((there.sum(axis=1) @ axis) / mass - 0.3).max() < 0.25
    assert abs((there.sum(axis=2) @ axis) / mass + 0.2).max() < 0.35
    assert len({image.tobytes() for image in there}) == 8


def test_the_same_generator_draws_the_same():
    assert np.array_equal(drawn("boat"), drawn("boat"))
    assert not np.array_equal(drawn("boat"), drawn("boat", seed=1))


def test_things_look_different():
    means = np.stack([drawn(name, count=40).mean(axis=0).ravel() for name in NAMES])
    means -= means.mean(axis=1, keepdims=True)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    similar = means @ means.T - np.eye(len(NAMES))
    assert similar.max() < 0.9


def test_strokes_lie_in_their_box():
    for strokes in PICTOGRAMS.values():
        for x0, y0, x1, y1, bow, radius in strokes:
            assert max(map(abs, (x0, x1))) <= 1.4
            assert max(map(abs, (y0, y1))) <= 1
            assert abs(bow) <= 0.6
            assert 0 < radius <= 0.6
