import numpy as np
import pytest
from scipy.io import savemat

from hsearch.data.layout import open_layout
from hsearch.data.library import open_data, prepare
from hsearch.data.sources.cars196 import TRAIN_CLASSES, records
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature, save_images
from tests.shared_data import shared_data

NAMES = [f"Audi Model{number:03d} Sedan 2012" for number in range(1, 197)]
NAMES[0] = "AM General Hummer SUV 2000"
NAMES[97:99] = "Eagle Talon Hatchback 1998", "FIAT 500 Abarth 2012"
NAMES[195] = "Land Rover LR2 SUV 2012"
CLASSES = [number for number in (1, 98, 99, 196) for _ in range(3)]
BOX = {"bbox_x1": 1, "bbox_y1": 3, "bbox_x2": 16, "bbox_y2": 12}
MAKES = ["AM General", "Eagle", "FIAT", "Land Rover"]


def cells(names):
    found = np.empty((1, len(names)), dtype=object)
    found[0] = names
    return found


def structs(entries):
    found = np.empty((1, len(entries)), dtype=[(name, object) for name in entries[0]])
    found[0] = [tuple(entry.values()) for entry in entries]
    return found


def build_annos(root, classes=CLASSES, **changes):
    """cars_annos.mat and car_ims; a change sets a field of the last image."""
    paths = [f"car_ims/{number:06d}.jpg" for number in range(1, len(classes) + 1)]
    entries = [
        {"relative_im_path": path, **BOX, "class": label, "test": number % 2}
        for number, (path, label) in enumerate(zip(paths, classes, strict=True))
    ]
    entries[-1].update(changes)
    content = {"annotations": structs(entries), "class_names": cells(NAMES)}
    savemat(root / "cars_annos.mat", content)
    save_images(root, *paths)


def build_devkit(root):
    """Like the real archives: the devkit in a folder, and test labels in a file of their own."""
    (root / "devkit").mkdir()
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": cells(NAMES)}, do_compression=True)
    parts = {"cars_train": CLASSES[::2], "cars_test": CLASSES[1::2]}
    places = "devkit/cars_train_annos.mat", "cars_test_annos_withlabels.mat"
    for place, (folder, classes) in zip(places, parts.items(), strict=True):
        entries = [
            {**BOX, "class": label, "fname": f"{number:05d}.jpg"}
            for number, label in enumerate(classes, start=1)
        ]
        savemat(root / place, {"annotations": structs(entries)}, do_compression=True)
        height = 12 if folder == "cars_train" else 13  # different pictures
        save_images(root / folder, *(str(entry["fname"]) for entry in entries), height=height)


FAULTS = (
    Fault(
        "cars_annos.mat", "annotations", "annotatoins", "MATLAB file with the list `annotations`"
    ),
    Fault(
        "cars_annos.mat", "class_names", "class_nemas", "MATLAB file with the list `class_names`"
    ),
    Fault("cars_annos.mat", "class\0", "klass\0", "The field class is needed, but image 1 of"),
    Fault("cars_annos.mat", "relative_", "absolute_", "relative_im_path or fname is needed"),
)
BOX_FAULT = Fault("cars_annos.mat", "bbox_x2", "bbox_x3", "The field bbox_x2 is needed")
MINIATURES = (
    Miniature(
        name="cars196",
        build=build_annos,
        images=12,
        classes=4,
        needed=("cars_annos.mat", "car_ims"),
        listed="car_ims/000001.jpg",
        unlisted="car_ims/016186.jpg",
        faults=FAULTS,
    ),
    Miniature(
        name="cars196-make",
        build=build_devkit,
        images=12,
        classes=4,
        needed=(
            "devkit/cars_meta.mat",
            "devkit/cars_train_annos.mat",
            "cars_test_annos_withlabels.mat",
            "cars_train",
            "cars_test",
        ),
        listed="cars_test/00001.jpg",
        unlisted="cars_train/08145.jpg",
    ),
    Miniature(
        name="cars196-cropped",
        build=build_annos,
        images=12,
        classes=4,
        needed=("cars_annos.mat", "car_ims"),
        listed="car_ims/000002.jpg",
        unlisted="car_ims/016186.jpg",
        faults=(*FAULTS, BOX_FAULT),
    ),
)


def read(path, **options):
    with open_layout(path, "cars196", "home", path / "scratch") as layout:
        return list(records(layout, **options))


@pytest.mark.usefixtures("data_home")
def test_the_first_98_models_are_trained_on_whatever_the_authors_tested(tmp_path):
    build_annos(tmp_path)
    prepare("cars196", tmp_path)
    store = open_data("cars196")
    assert store.hierarchy.level_names == ("model",)
    assert store.hierarchy.names[0] == tuple(NAMES[number - 1] for number in (1, 98, 99, 196))
    assert store.split.tolist() == ["train"] * 6 + ["test"] * 6


@pytest.mark.usefixtures("data_home")
def test_both_layouts_and_the_makes(tmp_path):
    build_devkit(tmp_path)
    prepare("cars196-make", tmp_path)
    store = open_data("cars196-make")
    assert store.hierarchy.level_names == ("make", "model")
    paths = [store.label_path(label) for label in range(4)]
    assert paths == [(make, NAMES[n - 1]) for make, n in zip(MAKES, CLASSES[::3], strict=True)]
    assert store.split.tolist() == ["train"] * 6 + ["test"] * 6
    assert {name.split("/")[0] for name in store.ids} == {"cars_train", "cars_test"}


@pytest.mark.usefixtures("data_home")
def test_boxes_count_pixels_from_one_and_hold_their_last(tmp_path):
    build_annos(tmp_path)
    assert {record.box for record in read(tmp_path, cropped=True)} == {(0, 2, 16, 12)}
    prepare("cars196-cropped", tmp_path)
    store = open_data("cars196-cropped")
    assert set(store.heights) == {10}
    assert set(store.widths) == {16}


@pytest.mark.parametrize("label", [0, 197, -1, 1.5, "x", []])
def test_a_class_must_be_one_of_the_names(tmp_path, label):
    build_annos(tmp_path, **{"class": label})
    with pytest.raises(DatasetError, match=r"class of image 12 of .* from 1 to 196, but is"):
        read(tmp_path)


def test_a_box_must_be_numbers(tmp_path):
    build_annos(tmp_path, bbox_y1="x")
    with pytest.raises(
        DatasetError, match=r"box of image 12 of .* four numbers, but is '1 x 16 12'"
    ):
        read(tmp_path, cropped=True)


@pytest.mark.parametrize("keep", [0, 100, 200, 0.5, 0.99])
def test_a_cut_off_file_is_one_sentence(tmp_path, keep):
    build_annos(tmp_path)
    path = tmp_path / "cars_annos.mat"
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    with pytest.raises(DatasetError, match=r"must be a MATLAB file .* get it from"):
        read(tmp_path)


def test_test_images_without_classes_are_refused(tmp_path):
    """The devkit's own list of test images has none."""
    build_devkit(tmp_path)
    entries = [{**BOX, "fname": "00001.jpg"}, {**BOX, "fname": "00002.jpg"}]
    path = tmp_path / "cars_test_annos_withlabels.mat"
    savemat(path, {"annotations": structs(entries)})
    with pytest.raises(DatasetError, match=r"class is needed.*take cars_test_annos_withlabels.mat"):
        read(tmp_path)
    path.rename(tmp_path / "devkit" / "cars_test_annos.mat")
    with pytest.raises(
        DatasetError, match=r"need cars_test_annos_withlabels.mat or .*of car_devkit"
    ):
        read(tmp_path)


@pytest.fixture
def real(tmp_path):
    """The devkit as published, and empty folders of images."""
    for path in shared_data("cars196").glob("*.mat"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for folder in ("cars_train", "cars_test"):
        (tmp_path / folder).mkdir()
    return tmp_path


@pytest.mark.realdata
def test_published_totals(real):
    found = read(real, levels=("make", "model"), cropped=True)
    assert len(found) == 8144 + 8041 == 16185
    assert len({record.id for record in found}) == 16185
    assert len({record.labels for record in found}) == 196
    assert len({record.labels[0] for record in found}) == 49
    train = [record for record in found if record.split == "train"]
    assert (len(train), len(found) - len(train)) == (8054, 8131)
    assert {record.order for record in train} == set(range(1, TRAIN_CLASSES + 1))
    assert all(0 <= r.box[0] < r.box[2] and 0 <= r.box[1] < r.box[3] for r in found)


@pytest.mark.realdata
def test_both_layouts_train_on_the_same_models(real):
    """cars_annos.mat sorts the models of a make in another way; no make is on both sides."""
    found = read(real)
    train = {record.labels for record in found if record.split == "train"}
    assert sorted({record.labels for record in found})[:TRAIN_CLASSES] == sorted(train)


@pytest.mark.realdata
def test_the_real_list_without_labels_is_refused(real):
    (real / "cars_test_annos.mat").replace(real / "cars_test_annos_withlabels.mat")
    with pytest.raises(DatasetError, match=r"take cars_test_annos_withlabels.mat"):
        read(real)
