import json
import shutil

import pytest

from hsearch.data.library import open_data, prepare
from tests.data.miniature import Fault, Miniature, save_images, write_lines

TRAIN = {"2360596.jpg": [0, 7, 499], "2385068.jpg": [7], "77.jpg": [0, 21], "78.jpg": [21]}
TEST = {"2325106.jpg": [499], "4754.jpg": [7, 0, 21]}
SECOND = ("2385068.jpg", "4754.jpg")
INDEX = "vg_category_500_labels_index.json"


def build(root):
    write_lines(root / "train_list_500.txt", *TRAIN)
    write_lines(root / "test_list_500.txt", *TEST)
    (root / INDEX).write_text(json.dumps({**TEST, "1.jpg": [3], **TRAIN}))
    folders = {name: "VG_100K_2" if name in SECOND else "VG_100K" for name in (*TRAIN, *TEST)}
    save_images(root, *(f"{folder}/{name}" for name, folder in folders.items()))


MINIATURES = (
    Miniature(
        name="vg500",
        build=build,
        images=6,
        classes=4,
        needed=("train_list_500.txt", "test_list_500.txt", INDEX, "VG_100K"),
        texts=("train_list_500.txt", "test_list_500.txt"),
        listed="VG_100K/77.jpg",
        unlisted="VG_100K_2/1.jpg",
        faults=(
            Fault("train_list_500.txt", "77.jpg", "79.jpg", r"79.jpg \(line 3 of .* has none"),
            Fault(INDEX, "[7]", "[500]", r"0 to 499 .* 2385068.jpg .* has \[500\]"),
            Fault(INDEX, "[7]", "[-1]", r"has \[-1\]"),
            Fault(INDEX, "[7]", '["7"]', r"has \['7'\]"),
            Fault(INDEX, "[7]", "7", "has 7"),
            Fault(INDEX, "{", "[", "must be JSON"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_tags_are_the_numbers_of_the_kinds(tmp_path):
    build(tmp_path)
    prepare("vg500", tmp_path)
    store = open_data("vg500")
    assert list(store.tag_names) == ["000", "007", "021", "499"]
    for split, images in (("train", TRAIN), ("test", TEST)):
        assert {
            store.ids[row]: [int(store.tag_names[tag]) for tag in store.tags[row].nonzero()[0]]
            for row in range(len(store))
            if store.split[row] == split
        } == {name: sorted(numbers) for name, numbers in images.items()}


@pytest.mark.usefixtures("data_home")
def test_all_images_may_lie_in_one_folder(tmp_path):
    build(tmp_path)
    for name in SECOND:
        (tmp_path / "VG_100K_2" / name).rename(tmp_path / "VG_100K" / name)
    (tmp_path / "VG_100K_2").rmdir()
    assert prepare("vg500", tmp_path).images == 6


@pytest.mark.usefixtures("data_home")
def test_the_official_archives(tmp_path):
    build(tmp_path)
    prepare("vg500", tmp_path)
    digest = open_data("vg500").digest
    for archive, folder in (("images", "VG_100K"), ("images2", "VG_100K_2")):
        shutil.make_archive(str(tmp_path / archive), "zip", tmp_path, folder)
        shutil.rmtree(tmp_path / folder)
    prepare("vg500", tmp_path, force=True)
    assert open_data("vg500").digest == digest
