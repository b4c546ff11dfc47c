import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hsearch.data.library import open_data, prepare
from hsearch.data.records import Record
from hsearch.data.sources import load_source
from hsearch.data.splits import store_splits
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature
from tests.data.test_plain_pickle import python2_pickle

FINE = [f"class_{number:02d}" for number in range(16)]
COARSE = ["aquatic_mammals", "fish"]
ROWS = {"train": 48, "test": 32}


def pixels(part):
    rng = np.random.default_rng(len(part))
    return rng.integers(0, 256, (ROWS[part], 3072), dtype=np.uint8)


def batch(part):
    rows = range(ROWS[part])
    return {
        b"filenames": [b"x_s_%06d.png" % row for row in rows],
        b"batch_label": b"training batch 1 of 1",
        b"fine_labels": [15 - row % 16 for row in rows],
        b"coarse_labels": [row % 2 for row in rows],
        b"data": pixels(part),
    }


META = {
    b"fine_label_names": [name.encode() for name in FINE],
    b"coarse_label_names": [name.encode() for name in COARSE],
}


def write(root, name, value, protocol=3):
    path = root / "cifar-100-python" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(value, protocol))


def build(root: Path) -> None:
    write(root, "meta", META)
    for part in ROWS:
        write(root, part, batch(part))


TRAIN, META_FILE = "cifar-100-python/train", "cifar-100-python/meta"
MINIATURES = (
    Miniature(
        name="cifar100",
        build=build,
        images=80,
        classes=16,
        needed=(TRAIN, "cifar-100-python/test", META_FILE),
        faults=(
            Fault(TRAIN, b"fine_labels", b"kine_labels", "48 `fine_labels`, .* but has none"),
            Fault(TRAIN, b"K\x0fK\x0e", b"K\x10K\x0e", "of 0..15, but has 16 in row 0"),
            Fault(TRAIN, b"K\x0fK\x0e", b"K\x0f", "48 `fine_labels`, .* but has 47"),
            Fault(TRAIN, b"K\x0fK\x0e", b"NK\x0e", "of 0..15, but has None in row 0"),
            Fault(TRAIN, b"M\x00\x0c", b"M\x01\x0c", r"rows of 3072 bytes, but has \(48, 3073\)"),
            Fault(TRAIN, b"u1", b"i1", "rows of 3072 bytes, but has .* of i1"),
            Fault(TRAIN, b"\x04data", b"\x04dxta", "an array under `data`"),
            Fault(TRAIN, b"cnumpy\ndtype", b"cbuiltins\neval", "the name 'builtins.eval'"),
            Fault(META_FILE, b"fine_label_names", b"fine_label_namez", "must list names under"),
            Fault(META_FILE, b"\x80\x03}", b"\x80\x03]", "must hold a dict, but holds a list"),
            Fault(META_FILE, b"\x80\x03", b"\x80\x03K\x07.", "must hold a dict, but holds a int"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_paths_numbers_and_pixels(tmp_path):
    build(tmp_path)
    prepare("cifar100", tmp_path)
    store = open_data("cifar100")
    assert store.hierarchy.level_names == ("superclass", "class")
    assert store.hierarchy.names[-1] == tuple(FINE)
    assert store.label_path(15) == ("aquatic_mammals", "class_15")
    assert store.label_path(14) == ("fish", "class_14")
    assert set(store.split.tolist()) == {""}
    assert store_splits(store).test.tolist() == list(range(8, 16))
    assert store.ids[-5:] == [
        *("test/00000", "test/00016", "train/00000", "train/00016", "train/00032"),
    ]
    assert (store.heights == 32).all()


def test_an_image_is_made_when_it_is_asked_for(tmp_path):
    build(tmp_path)
    with load_source("cifar100").open(tmp_path, tmp_path / "scratch") as found:
        made = {record.id: record.image for record in found if isinstance(record, Record)}
    image = made["train/00007"]
    assert callable(image)
    red = np.asarray(Image.open(io.BytesIO(image())))[..., 0]
    assert (red.ravel() == pixels("train")[7, :1024]).all()


@pytest.mark.usefixtures("data_home")
def test_python_2_and_3_wrote_the_same(tmp_path):
    build(tmp_path)
    prepare("cifar100", tmp_path)
    digest = open_data("cifar100").digest
    for part in ROWS:
        write(tmp_path, part, batch(part), protocol=2)
    prepare("cifar100", tmp_path, force=True)
    assert open_data("cifar100").digest == digest
    for part in ROWS:
        lists = batch(part)
        data = python2_pickle(lists[b"filenames"], lists[b"fine_labels"], lists[b"data"])
        coarse = b"U\x0dcoarse_labels](" + b"".join(b"K%c" % x for x in lists[b"coarse_labels"])
        (tmp_path / "cifar-100-python" / part).write_bytes(data[:-2] + coarse + b"eu.")
    prepare("cifar100", tmp_path, force=True)
    assert open_data("cifar100").digest == digest


def test_a_cut_off_file(tmp_path, data_home):
    build(tmp_path)
    path = tmp_path / TRAIN
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DatasetError, match="train is damaged or cut off"):
        prepare("cifar100", tmp_path)
    assert not list(data_home.iterdir())
