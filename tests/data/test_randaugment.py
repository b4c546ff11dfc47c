"""RandAugment: drawn for a whole batch, the same for the same generator; torchvision as a peer."""

import numpy as np
import pytest
import torch
from torchvision.transforms import v2 as tv

from hsearch.data.randaugment import CHANGES, Operations, draw_operations, operate
from hsearch.spec import ImageSpec
from tests.data.toy import photo


def image(seed: int = 0, height: int = 40, width: int = 40) -> torch.Tensor:
    return torch.from_numpy(np.array(photo(seed, height, width))).permute(2, 0, 1)


def operations(seed: int = 0, count: int = 200, number: int = 2, magnitude: int = 9) -> Operations:
    spec = ImageSpec(randaugment=(number, magnitude))
    drawn = draw_operations(np.random.default_rng(seed), count, spec)
    assert drawn is not None
    return drawn


def test_nothing_is_drawn_where_none_is_asked_for():
    rng = np.random.default_rng(0)
    assert draw_operations(rng, 10, ImageSpec()) is None
    assert rng.random() == np.random.default_rng(0).random()


def test_all_changes_are_as_likely_and_of_one_strength_in_both_directions():
    drawn = operations(count=7000, number=3, magnitude=12)
    assert drawn.kinds.shape == drawn.strengths.shape == (7000, 3)
    shares = np.bincount(drawn.kinds.ravel(), minlength=14) / drawn.kinds.size
    assert shares == pytest.approx(np.full(14, 1 / 14), abs=0.01)
    assert set(drawn.strengths.ravel()) == {-0.4, 0.4}
    assert drawn.strengths.mean() == pytest.approx(0, abs=0.01)


def test_later_draws_do_not_depend_on_the_magnitude():
    rngs = [np.random.default_rng(0) for _ in range(2)]
    for rng, magnitude in zip(rngs, (0, 30), strict=True):
        draw_operations(rng, 10, ImageSpec(randaugment=(2, magnitude)))
    assert rngs[0].random() == rngs[1].random()


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("strength", [-1.0, 0.0, 0.3, 1.0])
def test_a_change_keeps_shape_type_and_its_input(name, strength):
    pixels = image(1, 24, 40)
    found = CHANGES[name](pixels, strength)
    assert found.shape == pixels.shape
    assert found.dtype == torch.uint8
    assert torch.equal(pixels, image(1, 24, 40))
    if strength == 0 and name not in ("autocontrast", "equalize"):
        assert (found.int() - pixels.int()).abs().max() <= 1


@pytest.mark.parametrize("name", sorted(CHANGES.keys() - {"identity"}))
def test_a_strong_change_can_be_seen(name):
    noise = torch.Generator().manual_seed(0)
    pixels = torch.randint(20, 200, (3, 40, 40), generator=noise, dtype=torch.uint8)
    assert (CHANGES[name](pixels, 1.0).int() - pixels.int()).abs().float().mean() > 2


SAME_AS_TORCHVISION = {
    "autocontrast": ("AutoContrast", 0.0),
    "equalize": ("Equalize", 0.0),
    "brightness": ("Brightness", 0.27),
    "color": ("Color", -0.27),
    "contrast": ("Contrast", 0.27),
    "sharpness": ("Sharpness", -0.27),
    "rotate": ("Rotate", 9.0),
    "posterize": ("Posterize", 7),
    "translate_x": ("TranslateX", 5.0),
    "translate_y": ("TranslateY", -5.0),
}


@pytest.mark.parametrize("name", SAME_AS_TORCHVISION)
def test_changes_are_torchvisions_where_these_are_the_same(name):
    theirs, magnitude = SAME_AS_TORCHVISION[name]
    sign = -1 if magnitude < 0 else 1
    peer = tv.RandAugment()._apply_image_or_video_transform(
        image(), theirs, magnitude, tv.InterpolationMode.NEAREST, {torch.Tensor: [128.0] * 3}
    )
    found = CHANGES[name](image(), sign * 0.3)
    assert torch.equal(found, peer)


def test_solarize_inverts_what_is_bright():
    pixels = torch.tensor([0, 127, 128, 255], dtype=torch.uint8).repeat(3, 1, 1)
    assert CHANGES["solarize"](pixels, -0.5)[0, 0].tolist() == [0, 127, 127, 0]
    assert torch.equal(CHANGES["solarize"](pixels, 1.0), 255 - pixels)


def test_shears_leave_the_middle_where_it_is():
    pixels = torch.zeros(3, 41, 41, dtype=torch.uint8)
    pixels[:, :, 20] = 255
    found = CHANGES["shear_x"](pixels, 1.0)[0].float()
    columns = found[[5, 20, 35]].argmax(dim=1)
    assert columns[1] == 20
    assert abs(int(columns[2] - columns[0])) == pytest.approx(0.3 * 30, abs=1)
    assert abs(int(columns[2] - 20)) == pytest.approx(abs(int(20 - columns[0])), abs=1)


def test_what_comes_in_from_outside_is_grey():
    white = torch.full((3, 20, 20), 255, dtype=torch.uint8)
    found = CHANGES["translate_x"](white, 1.0)
    assert (found[:, :, 0] == 128).all()
    assert (found[:, :, -1] == 255).all()


def test_changes_are_applied_in_their_order():
    drawn = operations(count=50, magnitude=20)
    names = list(CHANGES)
    for index in range(50):
        expected = image()
        for kind, strength in zip(drawn.kinds[index], drawn.strengths[index], strict=True):
            expected = CHANGES[names[kind]](expected, float(strength))
        assert torch.equal(operate(image(), drawn, index), expected)


def test_the_same_generator_gives_the_same_changes():
    first, again, other = (operations(seed) for seed in (0, 0, 1))
    results = [
        torch.stack([operate(image(), drawn, index) for index in range(5)])
        for drawn in (first, again, other)
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
