import json
import tarfile

import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.sources import inat
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature, notes_of, save_images, write_lines

TREES = {
    0: ("Plantae", "Tracheophyta", "Magnoliopsida", "Asterales", "Asteraceae", "Bellis"),
    7: ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus"),
    30: ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus"),
    8141: ("Animalia", "Arthropoda", "Insecta", "Odonata", "Aeshnidae", "Anax"),
}
NAMES = {0: "Bellis perennis", 7: "Corvus corax", 30: "Corvus corone", 8141: "Anax imperator"}
SUPER = {0: "Plantae", 7: "Aves", 30: "Aves", 8141: "Insecta"}
CATEGORIES = [
    {"id": number, "name": NAMES[number], "supercategory": SUPER[number]}
    | dict(zip(inat.RANKS, TREES[number], strict=True))
    for number in (8141, 0, 7, 30)
]
SPLITS = "Inat_dataset_splits/Inaturalist_{}_set1.txt"


def paths(number):
    return [f"train_val2018/{SUPER[number]}/{number}/{number:04x}{i}.jpg" for i in range(3)]


def build(root, file, content):
    write_lines(root / SPLITS.format("train"), *paths(30), *paths(0))
    write_lines(root / SPLITS.format("test"), *paths(8141), *paths(7))
    write_lines(root / file, *json.dumps(content, indent=1).splitlines())
    save_images(root, *(name for number in NAMES for name in paths(number)))


def build_obfuscated(root):
    """As in the competition, whose names were hidden, without the later file of real names."""
    categories = [{**each, "name": f"s{each['id']}"} for each in CATEGORIES]
    images = [
        {"id": number, "width": 16, "height": 12, "file_name": name}
        for number, name in enumerate(paths(0))
    ]
    annotations = [{"id": i, "image_id": i, "category_id": 0} for i in range(3)]
    content = {"info": {"year": 2018}, "images": images, "categories": categories}
    build(root, "train2018.json", {**content, "annotations": annotations, "licenses": []})


def build_full(root):
    build(root, "categories.json", CATEGORIES)


LISTS = (SPLITS.format("train"), SPLITS.format("test"))
FAULTS = (
    Fault(LISTS[0], "2018/Aves/30", "2018/30", "NUMBER/IMAGE.jpg, but line 1 of .*set1.txt is"),
    Fault(LISTS[0], "Aves/30/", "Aves/x/", "NUMBER/IMAGE.jpg, but line 1 of"),
    Fault(LISTS[1], "Insecta/8141/", "Insecta/8142/", "but line 1 of .* has number 8142"),
    Fault(LISTS[1], "Aves/7/", "Aves/30/", "be in one list, but line 4 .* 30 of the train list"),
)


def shared(**more):
    return {
        "images": 12,
        "classes": 4,
        "listed": paths(7)[0],
        "unlisted": "train_val2018/Aves/7/other.jpg",
        **more,
    }


MINIATURES = (
    Miniature(
        name="inat-base",
        build=build_obfuscated,
        needed=(*LISTS, "train2018.json", "train_val2018"),
        texts=(*LISTS, "train2018.json"),
        faults=(
            *FAULTS,
            Fault("train2018.json", '"categories"', '"species"', "must hold a list 'categories'"),
            Fault("train2018.json", "[", "", "2018.json must be JSON, but is not from line"),
            Fault("train2018.json", "s30", "s7", "one number .* line 4 .* which is number 30 of"),
        ),
        **shared(),
    ),
    Miniature(
        name="inat-full",
        build=build_full,
        needed=(*LISTS, "categories.json", "train_val2018"),
        texts=(*LISTS, "categories.json"),
        faults=(
            *FAULTS,
            Fault("categories.json", '"genus"', '"tribe"', "needs .* genus, name, but number 1"),
            Fault("categories.json", '"id": 7', '"id": "7"', "the number 'id' .* but number 3"),
            Fault("categories.json", '"Corvus"', "null", "genus, name, but number 3"),
            Fault("categories.json", "]", "", "categories.json must be JSON, but is not from line"),
        ),
        **shared(),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_the_whole_taxonomy(tmp_path):
    build_full(tmp_path)
    assert notes_of(prepare("inat-full", tmp_path)) == []
    store = open_data("inat-full")
    assert store.hierarchy.level_names == (
        "kingdom",
        "phylum",
        "class",
        "order",
        "family",
        "genus",
        "species",
    )
    paths = [store.label_path(label) for label in range(4)]
    assert paths == [(*TREES[number], NAMES[number]) for number in (0, 7, 30, 8141)]
    assert store.hierarchy.sizes == (2, 3, 3, 3, 3, 3, 4)
    assert store.split.tolist() == ["train"] * 3 + ["test"] * 3 + ["train"] * 3 + ["test"] * 3


@pytest.mark.usefixtures("data_home")
def test_super_categories_are_the_folders(tmp_path):
    build_obfuscated(tmp_path)
    (note,) = notes_of(prepare("inat-base", tmp_path))
    assert "obfuscated" in note
    store = open_data("inat-base")
    assert store.hierarchy.level_names == ("super-category", "species")
    paths = [store.label_path(label) for label in range(4)]
    assert paths == [("Plantae", "s0"), ("Aves", "s7"), ("Aves", "s30"), ("Insecta", "s8141")]


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("packed", [False, True])
def test_real_names_are_preferred(tmp_path, packed):
    build_obfuscated(tmp_path)
    build_full(tmp_path)
    if packed:
        with tarfile.open(tmp_path / "categories.json.tar.gz", "w:gz") as tar:
            tar.add(tmp_path / "categories.json", "categories.json")
        (tmp_path / "categories.json").unlink()
    assert notes_of(prepare("inat-base", tmp_path)) == []
    assert open_data("inat-base").label_path(1) == ("Aves", "Corvus corax")


@pytest.mark.usefixtures("data_home")
def test_the_home_of_the_lists_is_named(tmp_path):
    build_full(tmp_path)
    (tmp_path / LISTS[1]).unlink()
    with pytest.raises(DatasetError, match=r"set1\.txt \(see https://github\.com/Andrew-Brown1/"):
        prepare("inat-base", tmp_path)
