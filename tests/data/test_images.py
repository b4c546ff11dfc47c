import io
import os

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms import Resize

from hsearch.data.images import BadImageError, prepare_image, resized_size
from tests.data.toy import encode, photo


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("size", [None, 40, 256])
def test_bytes_are_kept_where_no_pixel_must_change(kind, size):
    data = encode(photo(0), kind)
    prepared = prepare_image(data, size)
    assert (prepared.data, prepared.height, prepared.width) == (data, 40, 60)


@pytest.mark.parametrize("mode", ["1", "L", "P"])
def test_opaque_images_of_few_colours_are_kept(mode):
    data = encode(photo(0).convert(mode), "PNG")
    assert prepare_image(data, None).data == data


@pytest.mark.parametrize(("kind", "stored"), [("JPEG", "JPEG"), ("PNG", "PNG"), ("WEBP", "JPEG")])
def test_large_images_shrink_to_the_short_side(kind, stored):
    prepared = prepare_image(encode(photo(0, 120, 90), kind), 30)
    assert (prepared.height, prepared.width) == (40, 30)
    image = Image.open(io.BytesIO(prepared.data))
    assert (image.format, image.size) == (stored, (30, 40))


def test_shrinking_equals_torchvision_on_pillow_images():
    image = photo(3, 123, 77)
    prepared = prepare_image(encode(image, "PNG"), 50)
    assert np.array_equal(pixels(prepared.data), np.asarray(Resize(50)(image)))


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 375), (256, 256), (17, 3)])
def test_sizes_are_torchvision_sizes(height, width):
    expected = Resize(256)(Image.new("RGB", (width, height))).size
    assert resized_size(height, width, 256) == expected[::-1]


def test_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6
    prepared = prepare_image(encode(photo(0), "PNG", exif=exif), None)
    assert (prepared.height, prepared.width) == (60, 40)
    assert np.array_equal(pixels(prepared.data), np.rot90(np.asarray(photo(0)), k=-1))


def test_transparency_is_laid_on_white():
    image = photo(0).convert("RGBA")
    image.putalpha(0)
    assert (pixels(prepare_image(encode(image, "PNG"), None).data) == 255).all()


def test_sixteen_bits_become_eight():
    wide = (np.arange(40 * 60).reshape(40, 60) * 27).astype(np.uint16)
    prepared = prepare_image(encode(Image.fromarray(wide), "PNG"), None)
    assert np.array_equal(pixels(prepared.data)[..., 0], wide >> 8)


def test_cmyk_becomes_rgb():
    prepared = prepare_image(encode(photo(0).convert("CMYK"), quality=100), None)
    assert Image.open(io.BytesIO(prepared.data)).mode == "RGB"
    assert np.abs(pixels(prepared.data) - np.asarray(photo(0)).astype(int)).mean() < 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a JPEG"),
        (b"plain text", "not a JPEG"),
        (encode(photo(0), "GIF"), "not a JPEG"),
        (encode(photo(0))[:-200], "truncated"),
        (encode(photo(0), "PNG")[:-200], "truncated"),
        (encode(photo(0), "WEBP")[:-60], "truncated"),
    ],
)
def test_bad_images_are_named(data, reason):
    with pytest.raises(BadImageError, match=reason):
        prepare_image(data, None)


@pytest.mark.parametrize("factor", [1, 3])
def test_a_bomb_is_bad_below_and_above_pillows_own_error(monkeypatch, factor):
    data = encode(Image.new("L", (100, 100)), "PNG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9_999 // factor)
    with pytest.raises(BadImageError, match="decompression bomb"):
        prepare_image(data, None)


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (2, 41), (41, 2)])
def test_a_line_is_bad_because_it_would_be_enlarged_beyond_measure(size):
    with pytest.raises(BadImageError, match="aspect ratio beyond 20:1"):
        prepare_image(encode(Image.new("L", size), "PNG"), 256)


@pytest.mark.parametrize("size", [(1, 20), (40, 2)])
def test_a_strip_is_good(size):
    prepared = prepare_image(encode(Image.new("L", size), "PNG"), 256)
    assert (prepared.width, prepared.height) == size


def test_a_missing_file_is_bad(tmp_path):
    with pytest.raises(BadImageError, match="missing"):
        prepare_image(tmp_path / "none.jpg", None)


def test_a_box_is_cut_out_before_shrinking():
    image = photo(3, 40, 60)
    prepared = prepare_image(encode(image, "PNG"), None, (10, 5, 30, 40))
    assert (prepared.height, prepared.width) == (35, 20)
    assert np.array_equal(pixels(prepared.data), np.asarray(image)[5:40, 10:30])
    assert prepare_image(encode(image, "PNG"), 10, (10, 5, 30, 40)).width == 10


@pytest.mark.parametrize(
    ("box", "inside"),
    [
        ((0, 0, 61, 40), (0, 0, 60, 40)),
        ((10, 5, 60, 99), (10, 5, 60, 40)),
        ((-1, -2, 5, 5), (0, 0, 5, 5)),
        ((10, 5, 30, 40), (10, 5, 30, 40)),
    ],
)
def test_a_box_is_clipped_to_the_image(box, inside):
    image = photo(0, 40, 60)
    prepared = prepare_image(encode(image, "PNG"), None, box)
    assert np.array_equal(pixels(prepared.data), np.asarray(image.crop(inside)))
    assert prepared.is_clipped == (box != inside)
    assert prepare_image(encode(image), 4, box).is_clipped == (box != inside)


@pytest.mark.parametrize("box", [(60, 0, 61, 40), (0, 40, 60, 41), (-5, 0, 0, 5), (5, 5, 5, 9)])
def test_a_box_must_have_a_pixel_of_the_image(box):
    with pytest.raises(BadImageError, match="box outside the image"):
        prepare_image(encode(photo(0, 40, 60)), None, box)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").mkdir()
    for name in ("a.jpg", "b.jpg"):
        with pytest.raises(BadImageError, match="not a file"):
            prepare_image(tmp_path / name, None)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_much_too_large_jpegs_are_decoded_smaller_without_a_visible_change(orientation):
    """800 x 500 to a short side of 60: read at a quarter, which leaves 125."""
    image = photo(5, 500, 800)
    exif = Image.Exif()
    exif[0x0112] = orientation
    jpeg = prepare_image(encode(image, exif=exif, quality=95), 60)
    exact = prepare_image(encode(image, "PNG", exif=exif), 60)
    assert (jpeg.height, jpeg.width) == (exact.height, exact.width)
    gap = np.abs(pixels(jpeg.data) - pixels(exact.data))
    assert gap.mean() < 2
    assert gap.max() < 20


@pytest.mark.parametrize("half", [30, 31, 45])
def test_jpegs_of_twice_the_size_shrink_too(half):
    prepared = prepare_image(encode(photo(5, 2 * half, 3 * half)), 30)
    assert pixels(prepared.data).shape == (prepared.height, prepared.width, 3) == (30, 45, 3)


@pytest.mark.parametrize(("height", "width"), [(59, 100), (100, 59), (31, 31)])
def test_jpegs_less_than_twice_too_large_are_decoded_in_full(height, width):
    data = encode(photo(5, height, width))
    whole = Image.open(io.BytesIO(data))
    expected = Resize(30)(whole)
    file = encode(expected, quality=90, subsampling="4:2:0")
    assert prepare_image(data, 30).data == file


def test_a_truncated_large_jpeg_is_refused():
    data = encode(photo(5, 500, 800))
    with pytest.raises(BadImageError, match="truncated"):
        prepare_image(data[: len(data) * 3 // 4], 60)


def test_a_box_means_pixels_of_the_whole_file():
    image = photo(5, 500, 800)
    cut = prepare_image(encode(image, quality=95), 50, (100, 100, 500, 300))
    assert (cut.height, cut.width) == (50, 100)
    exact = image.crop((100, 100, 500, 300)).resize((100, 50), Image.Resampling.BILINEAR)
    assert np.abs(pixels(cut.data) - np.asarray(exact).astype(int)).mean() < 2
