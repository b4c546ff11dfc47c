import json
import shutil

import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.sources import coco
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature, save_images
from tests.shared_data import shared_data

CATEGORIES = [(1, "person", "person"), (3, "car", "vehicle"), (90, "toothbrush", "indoor")]
CATEGORY = {number: name for number, name, _ in CATEGORIES}
OBJECTS = [(1, 3), (3, 3), (90,), (1, 90), (1,), ()]
"""Of the images of each part; the last has none."""
TRAIN = "annotations/instances_train2014.json"
VAL = "annotations/instances_val2014.json"


def names(part):
    return [f"COCO_{part}_{number:012d}.jpg" for number in numbers(part)]


def numbers(part):
    return [9 + 10 * i + part.startswith("val") for i in range(len(OBJECTS))]


def build_part(root, part):
    content = {
        "info": {"description": "COCO"},
        "licenses": [],
        "images": [
            {"license": 1, "file_name": name, "height": 12, "width": 16, "id": number}
            for name, number in zip(names(part), numbers(part), strict=True)
        ],
        "annotations": [
            {"area": 1.5, "iscrowd": int(i == 4), "image_id": number, "category_id": each, "id": i}
            for i, (number, each) in enumerate(
                (number, each)
                for number, own in zip(numbers(part), OBJECTS, strict=True)
                for each in own
            )
        ],
        "categories": [
            {"supercategory": above, "id": number, "name": name}
            for number, name, above in CATEGORIES
        ],
    }
    path = root / "annotations" / f"instances_{part}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    save_images(root / part, *names(part), width=16 + part.startswith("val"))


def build(root):
    build_part(root, "train2014")
    build_part(root, "val2014")


MINIATURES = (
    Miniature(
        name="coco",
        build=build,
        images=10,
        classes=3,
        needed=(TRAIN, VAL, "train2014", "val2014"),
        listed=f"train2014/{names('train2014')[0]}",
        unlisted="val2014/other.jpg",
        faults=(
            Fault(TRAIN, '"category_id": 3', '"category_id": 4', "image 9 and category 4"),
            Fault(VAL, '"image_id": 10', '"image_id": 11', "image 11 and category 1"),
            Fault(
                VAL, '"category_id": 3', '"category_id": "x"', "must hold categories.*ValueError"
            ),
            Fault(VAL, '"image_id": 10', '"image_id": 1e999', "must hold categories.*Overflow"),
            Fault(TRAIN, '"file_name"', '"name"', "must hold categories.*KeyError: 'file_name'"),
            Fault(TRAIN, '"annotations"', '"objects"', "must hold categories.*KeyError: 'annot"),
            Fault(TRAIN, '"images": [', '"images": [7, ', "must hold categories.*TypeError"),
            Fault(TRAIN, '"info": {', '"info": ', "must be JSON"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_tags_are_the_categories_of_all_objects_and_val_is_the_test(tmp_path):
    build(tmp_path)
    report = prepare("coco", tmp_path)
    store = open_data("coco")
    assert list(store.tag_names) == ["car", "person", "toothbrush"]
    assert tags_of(store) == {
        name: {CATEGORY[number] for number in own}
        for part in ("train2014", "val2014")
        for name, own in zip(names(part), OBJECTS, strict=True)
        if own
    }
    assert {store.ids[row]: str(store.split[row]) for row in range(len(store))} == {
        **dict.fromkeys(names("train2014")[:5], "train"),
        **dict.fromkeys(names("val2014")[:5], "test"),
    }
    assert list(report.notes) == [
        "left out 1 images without objects of instances_train2014.json",
        "left out 1 images without objects of instances_val2014.json",
        "prepared 10 images; the published data set has 122,218",
    ]


def tags_of(store):
    return {
        store.ids[row]: {store.tag_names[tag] for tag in store.tags[row].nonzero()[0]}
        for row in range(len(store))
    }


@pytest.mark.usefixtures("data_home")
def test_2017_is_taken_where_2014_is_not_and_said(tmp_path):
    build_part(tmp_path, "train2017")
    build_part(tmp_path, "val2017")
    assert prepare("coco", tmp_path).notes[0].startswith("this is COCO 2017")


@pytest.mark.usefixtures("data_home")
def test_years_are_never_mixed(tmp_path):
    build(tmp_path)
    build_part(tmp_path, "train2017")
    build_part(tmp_path, "val2017")
    shutil.rmtree(tmp_path / "val2014")
    with pytest.raises(DatasetError, match=r"need val2014 \(of annotations_trainval2014.zip"):
        prepare("coco", tmp_path)


@pytest.mark.usefixtures("data_home")
def test_as_many_images_as_published_are_not_worth_a_note(tmp_path, monkeypatch):
    build(tmp_path)
    monkeypatch.setattr(coco, "TOTAL", 10)
    assert not any("published" in note for note in prepare("coco", tmp_path).notes)


@pytest.mark.realdata
@pytest.mark.usefixtures("data_home")
def test_real_files():
    folder = shared_data("coco")
    report = prepare("coco", folder)
    store = open_data("coco")
    assert (report.images, len(report.problems)) == (60, 0)
    assert (store.split == "train").sum() == (store.split == "test").sum() == 30
    found = tags_of(store)
    for part in ("train2017", "val2017"):
        content = json.loads((folder / f"annotations/instances_{part}.json").read_text())
        known = {each["id"]: each["name"] for each in content["categories"]}
        assert len(known) == 80
        for image in content["images"]:
            own = [each for each in content["annotations"] if each["image_id"] == image["id"]]
            assert found[image["file_name"]] == {known[each["category_id"]] for each in own}
