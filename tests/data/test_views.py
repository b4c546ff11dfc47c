"""Fixed views are the same every time; batches draw among them."""

import numpy as np
import torch

from hsearch.data.pixels import open_pixels
from hsearch.data.transforms import eval_image
from hsearch.data.views import EVALUATED, FixedViews, draw_views
from hsearch.spec import ImageSpec

IMAGE = ImageSpec(resize=16, crop=12, color_jitter=(0.4, 0.4, 0.4, 0.1), cached_views=3)


def test_views_of_an_image_are_fixed_and_differ_from_each_other(toy_store):
    rows = np.arange(0, len(toy_store), 2)
    pixels = open_pixels(toy_store, rows, 16, memory_share=0)
    one, again = FixedViews(pixels, IMAGE), FixedViews(pixels, IMAGE)
    again.image(8, 2)  # in another order
    views = [one.image(4, view) for view in range(4)]
    assert all(torch.equal(again.image(4, view), views[view]) for view in range(4))
    assert torch.equal(views[EVALUATED], eval_image(pixels[4], 12))
    assert all(not torch.equal(views[a], views[b]) for a in range(4) for b in range(a))


def test_the_copies_of_an_image_in_a_batch_are_different_views():
    drawn = draw_views(np.random.default_rng(0), 500, 2, 3).reshape(2, 500)
    assert (drawn[0] != drawn[1]).all()
    assert set(drawn.ravel()) == {1, 2, 3}
    shares = np.bincount(drawn[0])[1:] / 500
    assert (abs(shares - 1 / 3) < 0.1).all()


def test_without_random_views_images_are_seen_as_they_are_evaluated():
    assert (draw_views(np.random.default_rng(0), 5, 1, 0) == EVALUATED).all()
