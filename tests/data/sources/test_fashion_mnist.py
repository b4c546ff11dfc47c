import gzip
import io
import struct

import numpy as np
import pytest
from PIL import Image

from hsearch.data.library import open_data, prepare
from hsearch.data.sources.fashion_mnist import ARTICLES, TEST
from hsearch.data.splits import store_splits
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature

ROWS = {"train": 40, "t10k": 10}


def pixels(part):
    rng = np.random.default_rng(len(part))
    return rng.integers(0, 256, (ROWS[part], 28, 28), dtype=np.uint8)


def write(path, head, values):
    path.write_bytes(struct.pack(f">{len(head)}I", *head) + bytes(values))


def build(root):
    for part, rows in ROWS.items():
        write(root / f"{part}-images-idx3-ubyte", (2051, rows, 28, 28), pixels(part).tobytes())
        write(root / f"{part}-labels-idx1-ubyte", (2049, rows), [row % 10 for row in range(rows)])


def pack(root):
    for path in list(root.glob("*-ubyte")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
MINIATURES = (
    Miniature(
        name="fashion-mnist",
        build=build,
        images=50,
        classes=10,
        needed=("train-images-idx3-ubyte", "train-labels-idx1-ubyte", IMAGES, LABELS),
        faults=(
            Fault(IMAGES, b"\0\0\x08\x03", b"\0\0\x08\x01", "begins with .2049, 10, 28, 28.;"),
            Fault(IMAGES, b"\0\0\0\x0a", b"\0\0\0\x0b", "must have 8640 bytes for 11 entries, but"),
            Fault(IMAGES, b"\0\0\0\x1c", b"\0\0\0\x1d", "begins with .2051, 10, 29, 28.;"),
            Fault(LABELS, b"\0\0\x08\x01", b"\x01\x08\0\0", "begins with .17301504, 10.;"),
            Fault(LABELS, b"\0\0\0\x0a\0", b"\0\0\0\x09", "10 images and .* 9 labels"),
            Fault(LABELS, b"\x07\x08\x09", b"\x07\x0a\x09", "number 8 of .* is 10"),
            Fault(LABELS, b"\x07\x08\x09", b"", "must have 18 bytes for 10 entries, but has 15"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_groups_splits_and_pixels(tmp_path):
    build(tmp_path)
    prepare("fashion-mnist", tmp_path)
    store = open_data("fashion-mnist")
    assert store.hierarchy.level_names == ("kind", "group", "article")
    assert [len(names) for names in store.hierarchy.names] == [2, 6, 10]
    assert [store.label_path(number) for number in range(10)] == list(ARTICLES)
    splits = store_splits(store)
    assert [ARTICLES[number][-1] for number in splits.test] == list(TEST)
    assert [len(fold.validation) for fold in splits.folds] == [2, 2, 2, 2]
    assert store.ids[-5:] == ["t10k/00009", *(f"train/000{row}9" for row in range(4))]
    image = Image.open(io.BytesIO(store.encoded(len(store) - 5)))
    assert (np.asarray(image) == pixels("t10k")[9]).all()


@pytest.mark.usefixtures("data_home")
def test_packed_files_are_the_same(tmp_path):
    build(tmp_path)
    prepare("fashion-mnist", tmp_path)
    digest = open_data("fashion-mnist").digest
    pack(tmp_path)
    prepare("fashion-mnist", tmp_path, force=True)
    assert open_data("fashion-mnist").digest == digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda data: data[:-9], "ubyte.gz is damaged or cut off"),
        (lambda data: data[:30] + b"xx" + data[32:], "ubyte.gz is damaged or cut off"),
        (lambda data: b"no gzip", "ubyte.gz is damaged or cut off"),
        (lambda data: gzip.compress(b""), r"begins with \[\];"),
        (lambda data: gzip.compress(b"\0\0\x08"), r"begins with \[\];"),
        (lambda data: gzip.compress(b"\0\0\x08\x03\0\0\0\x01"), r"begins with \[2051, 1\];"),
    ],
)
def test_damaged_files_are_refused(tmp_path, data_home, content, message):
    build(tmp_path)
    pack(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content(path.read_bytes()))
    with pytest.raises(DatasetError, match=message) as caught:
        prepare("fashion-mnist", tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(data_home.iterdir())
