import shutil

import pytest

from hsearch.data.layout import open_layout
from hsearch.data.library import open_data, prepare
from hsearch.data.records import Note, Record
from hsearch.data.sources.inshop import records
from tests.data.miniature import Fault, Miniature, save_images, write_lines

TOP = "In-shop Clothes Retrieval Benchmark"
PARTITION = f"{TOP}/Eval/list_eval_partition.txt"
BOXES = f"{TOP}/Anno/list_bbox_inshop.txt"
ITEMS = {
    "id_00000002": ("WOMEN/Dresses", ("train", "train", "train")),
    "id_00000080": ("MEN/Denim", ("train", "train", "train")),
    "id_00000001": ("WOMEN/Blouses_Shirts", ("gallery", "query", "gallery")),
    "id_00007982": ("MEN/Denim", ("query", "gallery", "query")),
}
IMAGES = [
    (f"img/{folder}/{item}/0{number}_1_front.jpg", item, part)
    for item, (folder, parts) in ITEMS.items()
    for number, part in enumerate(parts, start=1)
]


def build(root):
    """With the columns padded to a width, as in the real files."""
    lines = [f"{path:<70} {item} {part:<10}" for path, item, part in IMAGES]
    write_lines(root / PARTITION, "12", "image_name item_id evaluation_status", *lines)
    header = "image_name  clothes_type  pose_type  x_1  y_1  x_2  y_2"
    lines = [f"{path:<70} 3 1 001 003 016 012" for path, _, _ in IMAGES]
    write_lines(root / BOXES, "12", header, *lines)
    save_images(root / TOP / "Img", *(path for path, _, _ in IMAGES))


FAULTS = (
    Fault(
        PARTITION, "12\n", "", "begin with the number of images and the line 'image_name item_id"
    ),
    Fault(PARTITION, "12\n", "13\n", "must list 13 images, .* but lists 12"),
    Fault(PARTITION, "evaluation_", "", "but begins with '12' and 'image_name item_id status'"),
    Fault(PARTITION, "train", "tray", "Line 3 of .* must be like .* id_00000002 tray'"),
    Fault(PARTITION, " id_00000002", " item_2", "Line 3 of .* must be like"),
    Fault(PARTITION, "WOMEN/Dresses/", "", "Line 3 of .* must be like"),
    Fault(PARTITION, " id_00000002", "", "Line 3 of .* must have 3 columns, but has 2"),
)
MINIATURES = (
    Miniature(
        name="inshop",
        build=build,
        images=12,
        classes=4,
        needed=(PARTITION, f"{TOP}/Img/img"),
        texts=(PARTITION,),
        listed=f"{TOP}/Img/{IMAGES[0][0]}",
        unlisted=f"{TOP}/Img/img/MEN/Denim/id_00000080/09_9_flat.jpg",
        faults=FAULTS,
    ),
    Miniature(
        name="inshop-cropped",
        build=build,
        images=12,
        classes=4,
        needed=(PARTITION, BOXES, f"{TOP}/Img/img"),
        texts=(PARTITION, BOXES),
        listed=f"{TOP}/Img/{IMAGES[0][0]}",
        unlisted=f"{TOP}/Img/img/MEN/Denim/id_00000080/09_9_flat.jpg",
        faults=(
            *FAULTS,
            Fault(BOXES, "x_1", "left", "but begins with '12' and 'image_name clothes_type"),
            Fault(BOXES, "001 003", "001 top", "box of line 3 of .* is '001 top 016 012'"),
            Fault(BOXES, " 003 016", " 016", "Line 3 of .* must have 7 columns, but has 6"),
            Fault(BOXES, "img/MEN", "img/TEN", "Every image needs a box, but img/MEN/Denim"),
            Fault(BOXES, "12\n", "13\n", "must list 13 images"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_items_of_query_and_gallery_are_tested(tmp_path):
    build(tmp_path)
    prepare("inshop", tmp_path)
    store = open_data("inshop")
    assert store.hierarchy.level_names == ("category", "item")
    paths = {store.label_path(label) for label in range(4)}
    assert paths == {(folder.replace("/", " "), item) for item, (folder, _) in ITEMS.items()}
    marks = zip(store.split, store.is_query, store.is_gallery, strict=True)
    found = dict(zip(store.ids, marks, strict=True))
    flags = {
        "train": ("train", True, True),
        "query": ("test", True, False),
        "gallery": ("test", False, True),
    }
    assert found == {path: flags[part] for path, _, part in IMAGES}
    assert [store.label_path(label)[1] for label in range(4)] == sorted(ITEMS)


@pytest.mark.usefixtures("data_home")
def test_boxes_count_pixels_from_one_and_hold_their_last(tmp_path):
    build(tmp_path)
    prepare("inshop-cropped", tmp_path)
    store = open_data("inshop-cropped")
    assert set(zip(store.heights, store.widths, strict=True)) == {(10, 16)}


@pytest.mark.usefixtures("data_home")
def test_images_are_found_in_their_own_archive(tmp_path):
    """As downloaded: the list is a file, and the images are in Img/img.zip."""
    build(tmp_path)
    folder = tmp_path / TOP / "Img"
    shutil.make_archive(str(folder / "img"), "zip", folder, "img")
    shutil.rmtree(folder / "img")
    assert prepare("inshop", tmp_path / TOP).images == 12


def test_an_item_in_two_categories_is_one_class(tmp_path):
    build(tmp_path)
    path = tmp_path / PARTITION
    path.write_text(path.read_text().replace("WOMEN/Dresses/id_00000002/03", "MEN/Tees/id_2/03"))
    with open_layout(tmp_path, "inshop", "home", tmp_path / "scratch") as layout:
        found = list(records(layout))
    labels = {each.labels for each in found if isinstance(each, Record)}
    assert labels == {(folder.replace("/", " "), item) for item, (folder, _) in ITEMS.items()}
    assert found[12:] == [
        Note("items in several categories count in the first one listed (1 images)"),
    ]
