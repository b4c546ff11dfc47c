"""Changes of colours: drawn for a whole batch, the same for the same generator."""

import numpy as np
import pytest
import torch

from hsearch.data.colors import draw_colors, recolor
from hsearch.spec import ImageSpec

JITTER = (0.4, 0.4, 0.4, 0.1)


def image(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (3, 8, 8), generator=generator, dtype=torch.uint8)


def changes(seed: int = 0, count: int = 200, **settings):
    colors = draw_colors(np.random.default_rng(seed), count, ImageSpec(**settings))
    assert colors is not None
    return colors


def test_nothing_is_drawn_where_no_change_is_asked_for():
    rng = np.random.default_rng(0)
    assert draw_colors(rng, 10, ImageSpec()) is None
    assert rng.random() == np.random.default_rng(0).random()


def test_factors_keep_within_their_ranges_and_chances_hold():
    colors = changes(count=4000, color_jitter=(0.2, 0.4, 1.5, 0.1), grayscale=0.2)
    assert np.allclose(colors.factors.min(axis=0), [0.8, 0.6, 0.0], atol=0.01)
    assert np.allclose(colors.factors.max(axis=0), [1.2, 1.4, 2.5], atol=0.01)
    assert 0.09 < abs(colors.hue).max() <= 0.1
    assert colors.changed.mean() == pytest.approx(0.8, abs=0.03)
    assert colors.gray.mean() == pytest.approx(0.2, abs=0.03)


def test_the_same_generator_gives_the_same_colors():
    first, again, other = (changes(seed, color_jitter=JITTER) for seed in (0, 0, 1))
    assert torch.equal(recolor(image(), first, 7), recolor(image(), again, 7))
    assert not torch.equal(recolor(image(), first, 7), recolor(image(), other, 7))


def test_an_image_is_changed_only_if_its_turn_has_come():
    colors = changes(color_jitter=JITTER, color_jitter_chance=0.5)
    for index in range(20):
        changed = recolor(image(), colors, index)
        assert changed.shape == (3, 8, 8)
        assert changed.dtype == torch.uint8
        assert torch.equal(changed, image()) != colors.changed[index]


def test_gray_images_have_equal_channels():
    gray = recolor(image(), changes(grayscale=1.0), 0)
    assert torch.equal(gray[0], gray[1])
    assert torch.equal(gray[1], gray[2])
    red, green, blue = image().float()
    expected = 0.299 * red + 0.587 * green + 0.114 * blue
    assert (gray[0].float() - expected).abs().max() <= 1.0


def test_brightness_alone_multiplies():
    colors = changes(color_jitter=(0.5, 0.0, 0.0, 0.0), color_jitter_chance=1.0)
    dark = image() // 2
    expected = (dark.float() * colors.factors[3, 0]).clamp(0, 255)
    assert (recolor(dark, colors, 3).float() - expected).abs().max() <= 1.0
