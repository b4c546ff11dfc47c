import numpy as np
import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import LEVEL_TESTS
from hsearch.data.splits import store_splits
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature, save_images, write_lines
from tests.data.toy import save

LEVELS = ("coarse", "middle", "fine")
HEADER = "fname, coarse_id, middle_id, fine_id"
PATHS = [(fine // 4, fine // 2, fine) for fine in range(8)]
ROWS = [f"{i}.jpg, {', '.join(map(str, PATHS[i % 8]))}" for i in range(24)]
TEST_ROWS = [f"{i}.jpg, {i % 2}" for i in range(4)]
TEST_LISTS = [f"bmk_{level}/{part}" for level in LEVELS for part in ("query", "gallery")]


def build_train(root):
    # The official files have no line end between the header and the first image.
    write_lines(root / "train/label.csv", HEADER + ROWS[0], *ROWS[1:])
    return [f"train/imgs/{i}.jpg" for i in range(24)]


def build(name):
    def build_own_sets(root):
        top = root / name
        images = build_train(top)
        for each in TEST_LISTS:
            write_lines(top / f"{each}.csv", f"fname, labels{TEST_ROWS[0]}", *TEST_ROWS[1:])
            images += [f"{each}/{i}.jpg" for i in range(4)]
        save_images(top, *images)

    return build_own_sets


def build_product(root):
    top = root / "dyml_product"
    images = build_train(top)
    write_lines(top / "mini-bmk_all_in_one/label.csv", HEADER + ROWS[0], *ROWS[1:])
    save_images(top, *images, *(f"mini-bmk_all_in_one/imgs/{i}.jpg" for i in range(24)))


def faults(top):
    label = f"{top}/train/label.csv"
    return (
        Fault(label, HEADER, "image, a, b, c", r"label.csv must begin with 'fname, coarse_id"),
        Fault(label, HEADER, "", "must begin with .* begins with '0.jpg"),
        Fault(label, "\n5.jpg, 1, 2, 5", "\n5.jpg, 1, 2", "Line 6 of .*label.csv .* 3 numbers"),
        Fault(label, "\n5.jpg, 1, 2, 5", "\n5.jpg, 1, 2, 5, 1", "Line 6 of .* 3 numbers"),
        Fault(label, "\n5.jpg, 1, 2, 5", "\n5.jpg, 1, cat, 5", "Line 6 .* has '5.jpg, 1, cat, 5'"),
    )


def own_sets(name):
    top = name.replace("-", "_")
    lists = (f"{top}/train/label.csv", *(f"{top}/{each}.csv" for each in TEST_LISTS))
    query = f"{top}/bmk_middle/query.csv"
    return Miniature(
        name=name,
        build=build(top),
        images=24 + 6 * 4,
        classes=8 + 3 * 2,
        needed=lists,
        texts=lists,
        listed=f"{top}/bmk_fine/gallery/2.jpg",
        unlisted=f"{top}/bmk_fine/gallery/77.jpg",
        faults=(
            *faults(top),
            Fault(query, "labels", "coarse_id", "query.csv must begin with 'fname, labels'"),
            Fault(query, "2.jpg, 0", "2.jpg", "Line 3 of .*query.csv .* 1 numbers"),
            Fault(query, "2.jpg, 0", "2.jpg, x", "Line 3 of .*query.csv .* 1 numbers"),
        ),
    )


PRODUCT = "dyml_product/mini-bmk_all_in_one"
MINIATURES = (
    own_sets("dyml-vehicle"),
    own_sets("dyml-animal"),
    Miniature(
        name="dyml-product",
        build=build_product,
        images=24 + 3 * 24,
        classes=8 + 2 + 4 + 8,
        needed=("dyml_product/train/label.csv", f"{PRODUCT}/label.csv"),
        texts=("dyml_product/train/label.csv", f"{PRODUCT}/label.csv"),
        listed="dyml_product/train/imgs/7.jpg",
        unlisted=f"{PRODUCT}/imgs/77.jpg",
        faults=(
            *faults("dyml_product"),
            Fault(f"{PRODUCT}/label.csv", "\n8.jpg, 0, 0, 0", "\n8.jpg, 0", "Line 9 of .*one/"),
        ),
    ),
)


@pytest.fixture
def store(tmp_path, data_home):
    def make(name):
        (mini,) = (each for each in MINIATURES if each.name == name)
        mini.build(tmp_path)
        report = prepare(name, tmp_path)
        return open_data(name), report

    return make


@pytest.mark.parametrize("name", [mini.name for mini in MINIATURES])
def test_training_paths_go_from_coarse_to_fine(name, store):
    data, _ = store(name)
    assert data.hierarchy.level_names == LEVELS
    train = np.unique(data.classes[data.split == "train"])
    assert [data.label_path(label) for label in train] == [
        (f"coarse {a}", f"middle {b}", f"fine {c}") for a, b, c in PATHS
    ]
    # The image that shares its line with the header is there as well.
    assert {f"train/{i}.jpg" for i in range(24)} <= set(data.ids)


@pytest.mark.parametrize("name", ["dyml-vehicle", "dyml-animal"])
def test_every_level_has_a_test_set_with_queries_and_gallery(name, store):
    data, report = store(name)
    assert sorted(set(data.split)) == [*sorted(LEVEL_TESTS), "train"]
    for level, split in zip(LEVELS, LEVEL_TESTS, strict=True):
        rows = np.flatnonzero(data.split == split)
        assert data.is_query[rows].tolist() == [f"bmk_{level}/query" in data.ids[i] for i in rows]
        assert data.is_gallery[rows].tolist() == (~data.is_query[rows]).tolist()
        paths = {data.label_path(label) for label in data.classes[rows]}
        assert paths == {(f"{split} {n}",) * 3 for n in (0, 1)}
    assert not report.notes
    assert len(store_splits(data).trainval) == 8


def test_products_are_tested_on_the_same_images_at_all_levels(store):
    data, report = store("dyml-product")
    for split, labels in zip(LEVEL_TESTS, (2, 4, 8), strict=True):
        rows = data.split == split
        assert {data.ids[i].removeprefix(split) for i in np.flatnonzero(rows)} == {
            f"/{i}.jpg" for i in range(24)
        }
        assert data.is_query[rows].all()
        assert data.is_gallery[rows].all()
        paths = {data.label_path(label) for label in data.classes[rows]}
        assert paths == {(f"{split} {n}",) * 3 for n in range(labels)}
    assert any("three times" in note for note in report.notes)


@pytest.mark.usefixtures("data_home")
def test_a_header_on_a_line_of_its_own_means_the_same(tmp_path):
    build_product(tmp_path)
    prepare("dyml-product", tmp_path)
    before = open_data("dyml-product").digest
    write_lines(tmp_path / "dyml_product/train/label.csv", HEADER, *ROWS)
    prepare("dyml-product", tmp_path, force=True)
    assert open_data("dyml-product").digest == before


@pytest.mark.usefixtures("data_home")
def test_siblings_in_one_folder_are_told_apart_by_their_names(tmp_path):
    digests: dict[str, str] = {}
    for mini in MINIATURES:
        mini.build(tmp_path / mini.name)
        for image in (tmp_path / mini.name).rglob("7.jpg"):  # or all three would be alike
            save(image, seed=len(digests) + 100)
        prepare(mini.name, tmp_path / mini.name)
        digests[mini.name] = open_data(mini.name).digest
        top = mini.name.replace("-", "_")
        (tmp_path / mini.name / top).rename(tmp_path / top)
        (tmp_path / mini.name).rmdir()
    assert len(set(digests.values())) == 3
    for name, digest in digests.items():
        prepare(name, tmp_path, force=True)
        assert open_data(name).digest == digest
    (tmp_path / "dyml_animal/bmk_fine/query.csv").unlink()
    with pytest.raises(DatasetError, match=r"need bmk_fine/query\.csv \(of dyml_animal/\), but"):
        prepare("dyml-animal", tmp_path, force=True)
    with pytest.raises(DatasetError, match=r"need train/label\.csv"):
        prepare("dyml-animal", tmp_path / "dyml_vehicle", force=True)


@pytest.mark.usefixtures("data_home")
def test_an_image_at_three_levels_is_no_conflict(store, tmp_path):
    _, report = store("dyml-product")
    assert report.duplicates == report.conflicts == ()
    folder = tmp_path / PRODUCT / "imgs"
    (folder / "3.jpg").write_bytes((folder / "5.jpg").read_bytes())
    again = prepare("dyml-product", tmp_path, force=True)
    assert again.conflicts == (("test-coarse/3.jpg", "test-coarse/5.jpg"),)
