import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import SEEN, BadFilesError
from hsearch.data.sources.modelnet40 import TRAINED, UNSEEN
from hsearch.errors import DatasetError
from tests.data.miniature import Miniature, save_images
from tests.data.toy import save

TOP = "modelnet40v1png"
MVCNN = "{}_{}_{:03d}.png"
SHADED = "{}_{}.obj.shaded_v{:03d}.png"


def views(style=MVCNN):
    """Three views of one train and one test object per category, named as in the real archive."""
    return [
        f"{TOP}/{category}/{part}/{style.format(category, number, view)}"
        for category in (*UNSEEN, *TRAINED)
        for part, number in (("train", "000000023"), ("test", "0065"))
        for view in (1, 2, 3)
    ]


def build(root):
    save_images(root, *views(), height=4, width=4)


MINIATURES = (
    Miniature(
        name="modelnet40",
        build=build,
        images=240,
        classes=80,
        needed=(f"{TOP}/airplane", f"{TOP}/night_stand", f"{TOP}/xbox"),
        listed=f"{TOP}/flower_pot/test/flower_pot_0065_002.png",
    ),
)


@pytest.mark.usefixtures("data_home")
def test_objects_lie_below_their_category(tmp_path):
    build(tmp_path)
    report = prepare("modelnet40", tmp_path)
    store = open_data("modelnet40")
    assert store.hierarchy.level_names == ("category", "object")
    assert store.hierarchy.names[0] == (*UNSEEN, *TRAINED) == tuple(sorted((*UNSEEN, *TRAINED)))
    for row, name in enumerate(store.ids):
        category, part, file = name.split("/")
        assert store.label_path(store.classes[row]) == (category, file.rpartition("_")[0])
        seen = {"train": "train", "test": SEEN}[part]
        assert store.split[row] == (seen if category in TRAINED else "test")
    assert any("does not name its seen categories" in note for note in report.notes)


@pytest.mark.usefixtures("data_home")
def test_newer_renderings_have_other_names(tmp_path):
    save_images(tmp_path, *views(SHADED), height=4, width=4)
    prepare("modelnet40", tmp_path)
    store = open_data("modelnet40")
    assert store.hierarchy.sizes == (40, 80)
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
    with pytest.raises(BadFilesError, match="1 file name without the number of a view"):
        prepare("modelnet40", tmp_path)
    assert prepare("modelnet40", tmp_path, skip_bad=True).images == 240


def test_published_totals_fit_the_categories():
    # modelnet40v1: 80 training objects of all categories but two, 20 test objects, 12 views.
    training = {category: 80 for category in (*UNSEEN, *TRAINED)} | {"bowl": 64, "cup": 79}
    assert sum(training.values()) == 3183
    assert (len(TRAINED), len(UNSEEN)) == (22, 18)
    for categories, train_and_validation, test in [
        (TRAINED, 16896 + 4224, 5280),
        (UNSEEN, 13662 + 3414, 4320),
    ]:
        assert 12 * sum(training[category] for category in categories) == train_and_validation
        assert 12 * 20 * len(categories) == test
