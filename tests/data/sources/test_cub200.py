import csv

import pytest

from hsearch.data.layout import open_layout
from hsearch.data.library import open_data, prepare
from hsearch.data.records import Record
from hsearch.data.sources import cub200
from tests.data.miniature import Fault, Miniature, notes_of, save_images, write_lines
from tests.shared_data import shared_data

TOP = "CUB_200_2011"
CLASSES = (
    "001.Black_footed_Albatross",
    "100.Brown_Pelican",
    "101.White_Pelican",
    "200.Common_Yellowthroat",
)
IMAGES = [f"{name}/{name[4:]}_{i:04d}_{i}.jpg" for name in CLASSES for i in range(3)]
LISTS = (f"{TOP}/images.txt", f"{TOP}/image_class_labels.txt", f"{TOP}/classes.txt")
BOXES = f"{TOP}/bounding_boxes.txt"


def build(root):
    top = root / TOP
    write_lines(top / "classes.txt", *(f"{int(name[:3])} {name}" for name in CLASSES))
    write_lines(top / "images.txt", *(f"{i} {name}" for i, name in enumerate(IMAGES, start=1)))
    numbers = (f"{i} {int(name[:3])}" for i, name in enumerate(IMAGES, start=1))
    write_lines(top / "image_class_labels.txt", *numbers)
    write_lines(root / BOXES, *(f"{i} 2.0 3.0 15.0 10.0" for i in range(1, len(IMAGES) + 1)))
    save_images(top / "images", *IMAGES)


FAULTS = (
    Fault(LISTS[1], "4 100\n", "4 77\n", "image 4 .* has 77"),
    Fault(LISTS[1], "4 100\n", "", "image 4 .* has none"),
    Fault(LISTS[0], "3 ", "", "Line 3 of .* must have 2 columns"),
    Fault(LISTS[2], "100 ", "x ", "Line 2 of .* must begin with the number of a class"),
)


def miniature(name, texts=LISTS, faults=()):
    return Miniature(
        name=name,
        build=build,
        images=12,
        classes=4,
        needed=(*texts, f"{TOP}/images"),
        texts=texts,
        listed=f"{TOP}/images/{IMAGES[0]}",
        unlisted=f"{TOP}/images/{CLASSES[0]}/other.jpg",
        faults=(*FAULTS, *faults),
    )


MINIATURES = (
    miniature("cub200"),
    miniature(
        "cub200-family",
        faults=[
            Fault(LISTS[2], "Brown_P", "P", "line 2 of .* has '100.Pelican'; prepare 'cub200'")
        ],
    ),
    miniature(
        "cub200-cropped",
        texts=(*LISTS, BOXES),
        faults=[
            Fault(BOXES, "5 2.0", "50 2.0", "Every image needs a box .* image 5 .* has none"),
            Fault(BOXES, "2.0", "two", "box of line 1 of .* is 'two 3.0 15.0 10.0'"),
            Fault(BOXES, "2.0", "nan", "box of line 1 of .* must be four numbers"),
            Fault(BOXES, "2.0", "inf", "box of line 1 of .* must be four numbers"),
            Fault(BOXES, " 10.0", "", "Line 1 of .* must have 5 columns, but has 4"),
        ],
    ),
)


@pytest.mark.usefixtures("data_home")
def test_the_first_hundred_classes_are_trained_on(tmp_path):
    build(tmp_path)
    prepare("cub200", tmp_path)
    store = open_data("cub200")
    assert store.hierarchy.level_names == ("species",)
    assert store.hierarchy.names[0] == (
        "Black footed Albatross",
        "Brown Pelican",
        "White Pelican",
        "Common Yellowthroat",
    )
    assert store.split.tolist() == ["train"] * 6 + ["test"] * 6


@pytest.mark.usefixtures("data_home")
def test_orders_and_families(tmp_path):
    build(tmp_path)
    prepare("cub200-family", tmp_path)
    store = open_data("cub200-family")
    assert store.hierarchy.level_names == ("order", "family", "species")
    assert [store.label_path(label) for label in range(4)] == [
        ("Procellariiformes", "Diomedeidae", "Black footed Albatross"),
        ("Pelecaniformes", "Pelecanidae", "Brown Pelican"),
        ("Pelecaniformes", "Pelecanidae", "White Pelican"),
        ("Passeriformes", "Parulidae", "Common Yellowthroat"),
    ]


@pytest.mark.usefixtures("data_home")
def test_boxes_that_reach_out_of_the_image_are_clipped_and_counted(tmp_path):
    build(tmp_path)
    lines = (tmp_path / BOXES).read_text().replace("3 2.0 3.0 15.0", "3 2.0 3.0 16.0", 1)
    (tmp_path / BOXES).write_text(lines)
    (note,) = notes_of(prepare("cub200-cropped", tmp_path))
    assert note == "boxes that reached out of their image and were clipped: 1"


def shipped():
    with cub200._FAMILIES.open(encoding="utf-8", newline="") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


def test_the_table_has_every_class_and_is_a_tree():
    rows = shipped()
    assert [int(name[:3]) for name, _, _ in rows] == list(range(1, 201))
    assert len({order for _, order, _ in rows}) == 13
    assert len({family for _, _, family in rows}) == 37
    assert len({(order, family) for _, order, family in rows}) == 37
    for names, family in {
        ("Gull", "Tern", "Kittiwake"): "Laridae",
        ("Vireo",): "Vireonidae",
        ("Wren",): "Troglodytidae",
        ("Woodpecker", "Flicker"): "Picidae",
        ("Kingfisher",): "Alcedinidae",
    }.items():
        assert {row[2] for row in rows if row[0].endswith(names)} == {family}


@pytest.mark.realdata
def test_the_table_groups_as_the_widespread_one_but_for_the_kittiwake():
    path = shared_data("cub200/classes_order_family.csv")
    with path.open(encoding="utf-8", newline="") as file:
        theirs = {
            row["class_name"]: (row["order_id"], row["family_id"]) for row in csv.DictReader(file)
        }
    ours = {name: group for name, *group in shipped()}
    kittiwake = "084.Red_legged_Kittiwake"
    assert theirs.keys() == ours.keys()
    pairs = {(*theirs[name], *ours[name]) for name in ours if name != kittiwake}
    assert len(pairs) == 37 == len({pair[1] for pair in pairs}) == len({pair[3] for pair in pairs})
    assert [name for name in theirs if theirs[name] == theirs[kittiwake]] == [kittiwake]


@pytest.mark.usefixtures("data_home")
def test_boxes_are_cropped(tmp_path):
    build(tmp_path)
    prepare("cub200-cropped", tmp_path)
    store = open_data("cub200-cropped")
    assert set(zip(store.heights, store.widths, strict=True)) == {(10, 15)}


@pytest.mark.realdata
@pytest.mark.usefixtures("data_home")
def test_the_real_files_of_forty_classes():
    report = prepare("cub200-family", shared_data("cub200"))
    store = open_data("cub200-family")
    assert (report.images, report.classes) == (2280, 40)
    assert not report.problems
    assert report.notes == ("prepared 2,280 images; the published data set has 11,788",)
    numbers = [*range(1, 21), *range(101, 121)]
    names = [name for name, *_ in shipped()]
    assert [store.label_path(label)[2] for label in range(40)] == [
        names[number - 1][4:].replace("_", " ") for number in numbers
    ]
    assert [len(names) for names in store.hierarchy.names] == [6, 17, 40]
    assert set(store.split[store.classes < 20]) == {"train"}
    assert set(store.split[store.classes >= 20]) == {"test"}


@pytest.mark.realdata
def test_the_real_boxes_count_from_one(tmp_path):
    """The longest side is 500; counted from 0, three of the boxes would end at 501."""
    with open_layout(shared_data("cub200"), "cub200", "home", tmp_path / "s") as layout:
        found = list(cub200.records(layout, cropped=True))
    boxes = [record.box for record in found if isinstance(record, Record) and record.box]
    assert len(boxes) == 2280
    assert all(0 <= box[0] < box[2] <= 500 and 0 <= box[1] < box[3] <= 500 for box in boxes)
