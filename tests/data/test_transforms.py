import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms as tv

from hsearch.data.transforms import Crops, draw_crops, eval_image, normalise, train_image
from hsearch.spec import ImageSpec
from tests.data.toy import photo

sizes = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=20)
scales = st.tuples(st.floats(0.05, 1.0), st.floats(0.05, 1.0)).map(sorted).map(tuple)


def tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def crop_of(top: int, left: int, height: int, width: int, flip: bool = False) -> Crops:
    return Crops(*(np.array([value]) for value in (top, left, height, width, flip)))


@settings(max_examples=50, deadline=None)
@given(sizes=sizes, scale=scales, seed=st.integers(0, 2**32))
def test_crops_lie_inside_their_images(sizes, scale, seed):
    heights, widths = np.array(sizes).T
    crops = draw_crops(np.random.default_rng(seed), heights, widths, ImageSpec(scale=scale))
    assert (crops.height > 0).all()
    assert (crops.width > 0).all()
    assert (crops.top >= 0).all()
    assert (crops.left >= 0).all()
    assert (crops.top + crops.height <= heights).all()
    assert (crops.left + crops.width <= widths).all()


def test_squeezed_crops_are_cuts_of_the_image_as_a_square():
    image = ImageSpec(resize=256, crop=224, cropping="squeezed")
    heights, widths = np.full(4000, 256), np.full(4000, 384)
    crops = draw_crops(np.random.default_rng(0), heights, widths, image)
    assert set(crops.height) == {224}
    assert set(crops.width) == {336}
    assert set(crops.top) == set(range(33))
    assert set(crops.left) == set(range(49))


def test_crops_are_distributed_as_torchvision_draws_them():
    image, count = ImageSpec(scale=(0.16, 1.0)), 20_000
    rng = np.random.default_rng(0)
    crops = draw_crops(rng, np.full(count, 256), np.full(count, 341), image)
    torch.manual_seed(0)
    picture = torch.empty(3, 256, 341)
    peer = np.array(
        [
            tv.RandomResizedCrop.get_params(picture, list(image.scale), list(image.ratio))
            for _ in range(5_000)
        ]
    )
    ours = np.stack([crops.top, crops.left, crops.height, crops.width], axis=1)
    for column in range(4):
        quantiles = np.linspace(0.05, 0.95, 19)
        difference = np.quantile(ours[:, column], quantiles) - np.quantile(
            peer[:, column], quantiles
        )
        assert np.abs(difference).max() < 6
    assert crops.flip.mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("size", "expected"),
    [((10, 100), (0, 43, 10, 13)), ((100, 10), (43, 0, 13, 10)), ((50, 60), (0, 0, 50, 60))],
)
def test_where_no_crop_fits_the_centre_is_taken(size, expected):
    image = ImageSpec(scale=(1.0, 1.0))
    if size == (50, 60):
        image = ImageSpec(scale=(1.0, 1.0), ratio=(1.2, 1.2))
    crops = draw_crops(np.random.default_rng(0), size[:1], size[1:], image)
    assert (crops.top[0], crops.left[0], crops.height[0], crops.width[0]) == expected


def test_later_draws_do_not_depend_on_the_sizes():
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    draw_crops(first, [10, 20], [300, 20], ImageSpec())
    draw_crops(second, [200, 200], [200, 200], ImageSpec())
    assert first.random() == second.random()


@pytest.mark.parametrize("flip", [False, True])
def test_a_training_image_is_the_resized_crop(flip):
    image = photo(1, 90, 120)
    ours = train_image(tensor(image), crop_of(10, 20, 60, 70, flip), 0, 32)
    peer = image.crop((20, 10, 90, 70)).resize((32, 32), Image.Resampling.BILINEAR)
    peer = peer.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else peer
    assert ours.dtype == torch.uint8
    assert (ours.int() - tensor(peer).int()).abs().max() <= 1


def test_the_whole_image_of_the_right_size_is_untouched():
    pixels = tensor(photo(1, 32, 32))
    assert torch.equal(train_image(pixels, crop_of(0, 0, 32, 32), 0, 32), pixels)


@pytest.mark.parametrize(("height", "width"), [(256, 341), (257, 256), (227, 227), (228, 230)])
def test_the_centre_is_torchvisions(height, width):
    image = photo(2, height, width)
    ours = eval_image(tensor(image), 227)
    assert torch.equal(ours, tensor(tv.CenterCrop(227)(image)))


def test_normalise_is_to_tensor_and_normalize():
    image, spec = photo(3, 16, 16), ImageSpec()
    peer = tv.Normalize(spec.mean, spec.std)(tv.ToTensor()(image))
    ours = normalise(tensor(image)[None], spec)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours[0], peer, rtol=0, atol=1e-5)


def test_normalise_for_caffe_weights():
    pixels = torch.tensor([255, 100, 7], dtype=torch.uint8).view(1, 3, 1, 1)
    spec = ImageSpec(mean=(104, 117, 128), std=(1, 1, 1), range_max=255, channels="bgr")
    assert normalise(pixels, spec).flatten().tolist() == pytest.approx([-97, -17, 127])
