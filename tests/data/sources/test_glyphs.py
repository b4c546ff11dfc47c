import io

import numpy as np
import pytest
from PIL import Image

from hsearch.data.sources import glyphs
from hsearch.folds import class_splits


@pytest.fixture(scope="module")
def rendered():
    return sorted(glyphs.records(), key=lambda record: (record.class_key, record.id))


@pytest.fixture(scope="module")
def pixels(rendered):
    return np.stack([np.asarray(Image.open(io.BytesIO(record.image))) for record in rendered])


def test_three_levels_of_small_colour_images(rendered, pixels):
    assert pixels.shape == (160 * 24, 32, 32, 3)
    assert len({record.id for record in rendered}) == len(rendered)
    for level, count in enumerate((8, 40, 160)):
        assert len({record.labels[: level + 1] for record in rendered}) == count
    assert rendered[0].labels[-1] == "glyph-000"


def test_a_seed_gives_the_same_images(rendered):
    again = next(iter(glyphs.records()))
    assert again in rendered


def test_every_part_of_the_splits_mixes_scripts_and_families(rendered):
    paths = [record.labels for record in rendered[:: glyphs.IMAGES]]
    splits = class_splits(len(paths))
    for part in (splits.trainval, splits.test):
        assert len({paths[label][0] for label in part}) == glyphs.SCRIPTS
    for fold in splits.folds:
        assert len({paths[label][0] for label in fold.validation}) >= 5
        assert len({paths[label][1] for label in fold.validation}) >= 10


def test_the_hierarchy_is_visible_in_the_pixels(rendered, pixels):
    """Mean images are closer inside a family than inside a script, and there than elsewhere."""
    grey = pixels.reshape(160, glyphs.IMAGES, 32 * 32, 3).mean(axis=(1, 3))
    grey -= grey.mean(axis=1, keepdims=True)
    grey /= np.linalg.norm(grey, axis=1, keepdims=True)
    similar = grey @ grey.T
    paths = [record.labels for record in rendered[:: glyphs.IMAGES]]
    script = np.array([[a[0] == b[0] for a in paths] for b in paths])
    family = np.array([[a[1] == b[1] for a in paths] for b in paths])
    other = ~np.eye(160, dtype=bool)
    within_family = similar[family & other].mean()
    within_script = similar[script & ~family].mean()
    assert within_family > within_script + 0.1
    assert within_script > similar[~script].mean() + 0.1


def test_raw_pixels_are_no_answer(rendered, pixels):
    """The nearest image in pixels is often of another glyph: there is something to learn."""
    flat = pixels[: 40 * glyphs.IMAGES].reshape(40 * glyphs.IMAGES, -1).astype(np.float32)
    flat -= flat.mean(axis=1, keepdims=True)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    similar = flat @ flat.T
    np.fill_diagonal(similar, -1)
    labels = np.arange(len(flat)) // glyphs.IMAGES
    precision = (labels[similar.argmax(axis=1)] == labels).mean()
    assert 0.2 < precision < 0.8
