import shutil

import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.splits import store_splits
from tests.data.miniature import Miniature, save_images

FIRST = {"Balinese": 108, "Greek": 394, "Latin": 500}


def drawings(*alphabets, characters=2, drawers=3):
    """The paths below a set's folder."""
    return [
        f"{alphabet}/character{number + 1:02d}/{FIRST[alphabet] + number:04d}_{drawer:02d}.png"
        for alphabet in alphabets
        for number in range(characters)
        for drawer in range(1, drawers + 1)
    ]


def build(root):
    save_images(root / "images_background", *drawings("Greek", "Latin"), width=12)
    save_images(root / "images_evaluation", *drawings("Balinese"), height=13, width=12)


MINIATURES = (
    Miniature(
        name="omniglot",
        build=build,
        images=18,
        classes=6,
        needed=("images_background",),
        listed="images_background/Greek/character01/0394_01.png",
    ),
)


@pytest.mark.usefixtures("data_home")
def test_alphabets_of_the_evaluation_set_are_the_test(tmp_path):
    build(tmp_path)
    prepare("omniglot", tmp_path)
    store = open_data("omniglot")
    assert store.hierarchy.level_names == ("alphabet", "character")
    assert store.label_path(0) == ("Balinese", "character01")
    assert store.split.tolist() == 6 * ["test"] + 12 * ["train"]
    assert store.ids[0] == "Balinese/character01/0108_01.png"


@pytest.mark.usefixtures("data_home")
def test_small_sets_share_alphabets_but_no_image_twice(tmp_path):
    small1, small2 = (tmp_path / f"images_background_small{number}" for number in (1, 2))
    save_images(small1, *drawings("Balinese", "Greek", characters=8))
    save_images(small2, *drawings("Greek", "Latin", characters=8))
    report = prepare("omniglot", tmp_path)
    assert (report.images, report.classes, report.problems) == (72, 24, ())
    store = open_data("omniglot")
    assert set(store.split.tolist()) == {""}
    assert len(store_splits(store).test) == 12


@pytest.mark.usefixtures("data_home")
def test_one_small_set_is_enough_and_the_whole_set_replaces_it(tmp_path):
    save_images(tmp_path / "images_background_small2", *drawings("Greek"))
    assert prepare("omniglot", tmp_path).classes == 2
    save_images(tmp_path / "images_background", *drawings("Greek", "Latin"))
    assert prepare("omniglot", tmp_path, force=True).classes == 4


@pytest.mark.usefixtures("data_home")
def test_the_two_official_archives(tmp_path):
    build(tmp_path / "files")
    prepare("omniglot", tmp_path / "files")
    digest = open_data("omniglot").digest
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "another.zip").write_bytes(b"damaged")
    for part in ("images_background", "images_evaluation"):
        shutil.make_archive(str(tmp_path / "packed" / part), "zip", tmp_path / "files", part)
    prepare("omniglot", tmp_path / "packed", force=True)
    assert open_data("omniglot").digest == digest
