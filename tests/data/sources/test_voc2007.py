import tarfile

import pytest

from hsearch.data.layout import open_layout
from hsearch.data.library import open_data, prepare
from hsearch.data.records import BadFilesError, Record
from hsearch.data.sources import voc2007
from tests.data.miniature import Fault, Miniature, notes_of, save_images, write_lines
from tests.shared_data import shared_data

TRAINVAL = {
    "000005": (("chair", 0), ("chair", 1)),
    "000007": (("car", 0), ("person", 1)),
    "000009": (("horse", 0), ("person", 0), ("person", 0)),
    "000012": (("person", 1),),
}
TEST = {
    "000001": (("dog", 0), ("person", 0)),
    "000002": (("train", 0),),
    "000003": (("sofa", 1), ("chair", 0)),
}
PARTS = {"trainval": TRAINVAL, "test": TEST}
TOP = "VOCdevkit/VOC2007"
LISTS = (f"{TOP}/ImageSets/Main/trainval.txt", f"{TOP}/ImageSets/Main/test.txt")
OBJECT = """\t<object>
\t\t<name>{}</name>
\t\t<pose>Unspecified</pose>
\t\t<truncated>0</truncated>
\t\t<difficult>{}</difficult>
\t\t<bndbox>
\t\t\t<xmin>1</xmin>
\t\t\t<ymin>2</ymin>
\t\t\t<xmax>9</xmax>
\t\t\t<ymax>8</ymax>
\t\t</bndbox>
\t\t<part>
\t\t\t<name>head</name>
\t\t</part>
\t</object>
"""


def write_annotation(top, name, objects):
    text = "".join(OBJECT.format(*each) for each in objects)
    lines = ("<annotation>", f"\t<filename>{name}.jpg</filename>", f"{text}</annotation>")
    write_lines(top / "Annotations" / f"{name}.xml", *lines)


def build_part(root, part):
    top = root / TOP
    write_lines(top / "ImageSets" / "Main" / f"{part}.txt", *PARTS[part])
    for name, objects in PARTS[part].items():
        write_annotation(top, name, objects)
    images = (f"{name}.jpg" for name in PARTS[part])
    save_images(top / "JPEGImages", *images, width=16 + len(part))


def build(root):
    for part in PARTS:
        build_part(root, part)


XML = f"{TOP}/Annotations/000009.xml"
BOMB = '<!DOCTYPE a [<!ENTITY lol "lol"><!ENTITY b "&lol;&lol;">]><annotation>&b;'
MINIATURES = (
    Miniature(
        name="voc2007",
        build=build,
        images=7,
        classes=6,
        needed=(*LISTS, f"{TOP}/Annotations", f"{TOP}/JPEGImages"),
        texts=LISTS,
        listed=f"{TOP}/JPEGImages/000005.jpg",
        unlisted=f"{TOP}/JPEGImages/000004.jpg",
        faults=(
            Fault(XML, "<name>horse<", "<name>unicorn<", "20 classes.* is 'unicorn'"),
            Fault(XML, "<name>horse</name>", "", "20 classes.* is ''"),
            Fault(XML, "</annotation>", "", "000009.xml must be XML, but is not"),
            Fault(XML, "<annotation>", BOMB, "000009.xml must be XML without a DOCTYPE"),
            Fault(XML, "<annotation>", '<!DOCTYPE a SYSTEM "x"><annotation>', "a DOCTYPE"),
            Fault(LISTS[0], "000005", "000006", "without annotation: 1"),
            Fault(LISTS[0], "000005", "000005 -1", "without annotation: 1"),
        ),
    ),
)


def expected(part):
    return {
        f"{name}.jpg": {label for label, difficult in objects if not difficult}
        for name, objects in PARTS[part].items()
    }


@pytest.mark.usefixtures("data_home")
def test_tags_are_the_classes_without_difficult_objects(tmp_path):
    build(tmp_path)
    prepare("voc2007", tmp_path)
    store = open_data("voc2007")
    found = {
        store.ids[row]: {store.tag_names[tag] for tag in store.tags[row].nonzero()[0]}
        for row in range(len(store))
    }
    assert found == expected("trainval") | expected("test")
    assert found["000012.jpg"] == set()
    train = {store.ids[row] for row in range(len(store)) if store.split[row] == "train"}
    assert train == set(expected("trainval"))
    assert set(store.split) == {"train", "test"}


@pytest.mark.usefixtures("data_home")
def test_the_two_official_archives_and_their_common_folder_are_the_same(tmp_path):
    packed, whole = tmp_path / "packed", tmp_path / "whole"
    packed.mkdir()
    build(whole)
    prepare("voc2007", whole)
    digest = open_data("voc2007").digest
    for part in PARTS:
        build_part(tmp_path / part, part)
        with tarfile.open(packed / f"VOC{part}_06-Nov-2007.tar", "w") as file:
            file.add(tmp_path / part / "VOCdevkit", "VOCdevkit")
    for path in (packed, whole / "VOCdevkit", whole / TOP):
        assert not notes_of(prepare("voc2007", path, force=True))
        assert open_data("voc2007").digest == digest


@pytest.mark.usefixtures("data_home")
def test_names_out_of_the_folder_are_refused(tmp_path):
    root = tmp_path / "files"
    build(root)
    save_images(tmp_path, "out.jpg")
    (tmp_path / "out.xml").write_text("no XML, and never read")
    (root / LISTS[0]).write_text("../../../../out\n")
    with pytest.raises(BadFilesError, match="path out of the data's folder: 1"):
        prepare("voc2007", root)


@pytest.mark.realdata
def test_real_lists(tmp_path):
    """Annotations made from the class lists (1 there, 0 only difficult) give the class lists."""
    real = shared_data("voc2007") / "ImageSets" / "Main"
    top = tmp_path / "VOC2007"
    (top / "ImageSets").mkdir(parents=True)
    (top / "ImageSets" / "Main").symlink_to(real)
    (top / "JPEGImages").mkdir()
    listed = {part: class_lists(real, part) for part in PARTS}
    for images in listed.values():
        for name, marks in images.items():
            objects = [(label, int(mark == "0")) for label, mark in marks if mark != "-1"]
            write_annotation(top, name, objects)
    with open_layout(tmp_path, "voc2007", "", tmp_path / "scratch") as layout:
        found = [each for each in voc2007.records(layout) if isinstance(each, Record)]
    assert {record.id: (record.split, set(record.tags)) for record in found} == {
        f"{name}.jpg": (voc2007.SPLITS[part], {label for label, mark in marks if mark == "1"})
        for part, images in listed.items()
        for name, marks in images.items()
    }
    splits = [record.split for record in found]
    assert (splits.count("train"), splits.count("test")) == (5_011, 4_952)
    assert all(record.tags for record in found)
    persons = [record.split for record in found if "person" in record.tags]
    assert (persons.count("train"), persons.count("test")) == (2_008, 2_007)


def class_lists(folder, part):
    images: dict = {name: [] for name in (folder / f"{part}.txt").read_text().split()}
    for label in sorted(voc2007.CLASSES):
        for line in (folder / f"{label}_{part}.txt").read_text().splitlines():
            name, mark = line.split()
            images[name].append((label, mark))
    return images
