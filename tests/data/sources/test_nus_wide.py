import pytest

from hsearch.data.library import open_data, prepare
from tests.data.miniature import Fault, Miniature, save_images, write_lines

CONCEPTS = ("airport", "sky", "zebra")
UNUSED = [f"concept-{number}" for number in range(4, 82)]
"""So that there are 81; no image has one of them."""
TRAIN = {
    "actor/0001_2124494179.jpg": "010",
    "actor/0002_174174086.jpg": "011",
    "airplane/0003_5.jpg": "110",
    "zebra/0004_6.jpg": "001",
    "zebra/0005_7.jpg": "000",
}
TEST = {
    "airplane/0006_8.jpg": "100",
    "airplane/0007_9.jpg": "111",
    "zoo/0008_10.jpg": "011",
    "zoo/0009_11.jpg": "000",
}
LISTS = ("ImageList/TrainImagelist.txt", "ImageList/TestImagelist.txt")
LABELS = "Groundtruth/TrainTestLabels"


def build(root):
    write_lines(root / "ConceptsList" / "Concepts81.txt", *CONCEPTS, *UNUSED)
    for part, marks, listed in zip(("Train", "Test"), (TRAIN, TEST), LISTS, strict=True):
        # The official lists have the separators of Windows; a blank at the end does not matter.
        write_lines(root / listed, *(name.replace("/", "\\") + " " for name in marks))
        for i, concept in enumerate(CONCEPTS):
            lines = (mark[i] for mark in marks.values())
            write_lines(root / LABELS / f"Labels_{concept}_{part}.txt", *lines)
        for concept in UNUSED:
            write_lines(root / LABELS / f"Labels_{concept}_{part}.txt", *("0" for _ in marks))
    save_images(root / "Flickr", *TRAIN, *TEST)


MINIATURES = (
    Miniature(
        name="nus-wide",
        build=build,
        images=7,
        classes=3,
        needed=(
            *LISTS,
            "ConceptsList/Concepts81.txt",
            LABELS,
            f"{LABELS}/Labels_zebra_Test.txt",
            "Flickr",
        ),
        texts=(*LISTS, "ConceptsList/Concepts81.txt", f"{LABELS}/Labels_sky_Train.txt"),
        listed="Flickr/actor/0001_2124494179.jpg",
        unlisted="Flickr/actor/0010_12.jpg",
        faults=(
            Fault(f"{LABELS}/Labels_sky_Train.txt", "0\n", "2\n", "0 or 1, but line 4 is '2'"),
            Fault(f"{LABELS}/Labels_sky_Test.txt", "0\n", "0 1\n", "0 or 1, but line 1 is '0 1'"),
            Fault(f"{LABELS}/Labels_sky_Train.txt", "1\n", "", "each of the 5 images.* has 4"),
            Fault(LISTS[1], "zoo\\0008_10.jpg", "", "each of the 3 images.* has 4"),
            Fault("ConceptsList/Concepts81.txt", "sky", "sea", "need .*Labels_sea_Train.txt"),
            Fault("ConceptsList/Concepts81.txt", "sky\n", "", "81 different .* 80 in 80 lines"),
            Fault("ConceptsList/Concepts81.txt", "sky", "zebra", "81 different .* 80 in 81 lines"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_tags_are_the_concepts_and_images_without_are_left_out(tmp_path):
    build(tmp_path)
    report = prepare("nus-wide", tmp_path)
    store = open_data("nus-wide")
    assert list(store.tag_names) == list(CONCEPTS)
    for split, marks in (("train", TRAIN), ("test", TEST)):
        assert {
            store.ids[row]: "".join(str(int(tag)) for tag in store.tags[row])
            for row in range(len(store))
            if store.split[row] == split
        } == {name: mark for name, mark in marks.items() if "1" in mark}
    assert list(report.notes) == [
        "left out 1 images without concepts of TrainImagelist.txt",
        "left out 1 images without concepts of TestImagelist.txt",
        "prepared 7 images; the published data set has 209,347",
    ]


@pytest.mark.usefixtures("data_home")
def test_files_may_lie_flat(tmp_path):
    build(tmp_path)
    (tmp_path / "ConceptsList" / "Concepts81.txt").rename(tmp_path / "Concepts81.txt")
    (tmp_path / LABELS).rename(tmp_path / "TrainTestLabels")
    assert prepare("nus-wide", tmp_path).images == 7
