import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import SEEN, BadFilesError
from hsearch.data.sources.modelnet40 import TRAINED, UNSEEN
from hsearch.data.splits import store_splits
from hsearch.errors import DatasetError
from tests.data.miniature import Miniature, save_images
from tests.data.toy import save

TOP = "modelnet40v1png"
MVCNN = "{}_{}_{:03d}.png"
SHADED = "{}_{}.obj.shaded_v{:03d}.png"


def views(style=MVCNN):
    """Views of a training and a test object per category, named as in the real archive."""
    return [
        f"{TOP}/{category}/{part}/{style.format(category, number, view)}"
        for category in (*UNSEEN, *TRAINED)
        for part, number, count in (("train", "000000023", 5), ("test", "0065", 3))
        for view in range(1, count + 1)
    ]


def build(root):
    save_images(root, *views(), height=4, width=4)


def miniature(name, images, classes):
    return Miniature(
        name=name,
        build=build,
        images=images,
        classes=classes,
        needed=(f"{TOP}/airplane", f"{TOP}/night_stand", f"{TOP}/xbox"),
        listed=f"{TOP}/flower_pot/test/flower_pot_0065_002.png",
    )


MINIATURES = (
    miniature("modelnet40", 22 * 5 + 18 * 8, 22 + 18 * 2),
    miniature("modelnet40-flat", 40 * 8, 40),
)


@pytest.mark.usefixtures("data_home")
def test_every_fifth_view_of_a_trained_object_is_held_out(tmp_path):
    build(tmp_path)
    report = prepare("modelnet40", tmp_path)
    store = open_data("modelnet40")
    assert store.hierarchy.level_names == ("category", "object")
    assert store.hierarchy.names[0] == (*UNSEEN, *TRAINED) == tuple(sorted((*UNSEEN, *TRAINED)))
    for row, name in enumerate(store.ids):
        category, part, file = name.split("/")
        assert store.label_path(store.classes[row]) == (category, file.rpartition("_")[0])
        assert category in UNSEEN or part == "train"
        seen = SEEN if file.endswith("_005.png") else "train"
        assert store.split[row] == (seen if category in TRAINED else "test")
    left_out, unnamed = report.notes
    assert left_out == "left out 66 views of test objects of the categories trained on"
    assert "does not name its seen categories" in unnamed
    assert len(store_splits(store).trainval) == 22


@pytest.mark.usefixtures("data_home")
def test_without_objects_the_test_views_of_seen_categories_are_held_out(tmp_path):
    build(tmp_path)
    prepare("modelnet40-flat", tmp_path)
    store = open_data("modelnet40-flat")
    assert store.hierarchy.level_names == ("category",)
    assert store.hierarchy.names == ((*UNSEEN, *TRAINED),)
    for row, name in enumerate(store.ids):
        category, part, _ = name.split("/")
        assert store.label_path(store.classes[row]) == (category,)
        seen = {"train": "train", "test": SEEN}[part]
        assert store.split[row] == (seen if category in TRAINED else "test")
    assert len(store_splits(store).trainval) == 22


@pytest.mark.usefixtures("data_home")
def test_newer_renderings_have_other_names(tmp_path):
    save_images(tmp_path, *views(SHADED), height=4, width=4)
    prepare("modelnet40", tmp_path)
    store = open_data("modelnet40")
    assert store.hierarchy.sizes == (40, 22 + 18 * 2)
    assert "flower_pot_0065" in store.hierarchy.names[1]


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_category_without_views_is_refused(part, tmp_path, data_home):
    build(tmp_path)
    folder = tmp_path / TOP / "bowl" / part
    for file in folder.iterdir():
        file.rename(file.with_suffix(".txt"))
    with pytest.raises(DatasetError, match=f"bowl/{part} has none; unpack"):
        prepare("modelnet40", tmp_path)
    assert not list(data_home.iterdir())


@pytest.mark.usefixtures("data_home")
def test_an_image_without_a_view_is_a_problem(tmp_path):
    build(tmp_path)
    save(tmp_path / TOP / "bowl/train/bowl_0001.png", seed=999)
    with pytest.raises(BadFilesError, match="file name without the number of a view: 1"):
        prepare("modelnet40", tmp_path)
    assert prepare("modelnet40", tmp_path, skip_bad=True).images == MINIATURES[0].images


def test_published_totals_fit_the_categories():
    # modelnet40v1: 80 training objects of all categories but two, 20 test objects, 12 views. The
    # paper trains on four fifths of the views and validates on the rest; both are counted for seen
    # and for unseen categories.
    objects = dict.fromkeys((*UNSEEN, *TRAINED), 80) | {"bowl": 64, "cup": 79}
    assert sum(objects.values()) == 3183
    for categories, train, validation, test in [
        (TRAINED, 16896, 4224, 5280),
        (UNSEEN, 13662, 3414, 4320),
    ]:
        held_out = [12 * objects[category] // 5 for category in categories]
        assert sum(held_out) == validation
        assert sum(12 * objects[category] for category in categories) - validation == train
        assert 12 * 20 * len(categories) == test
