import os

import pytest

from hsearch.data.records import LevelNames, Problem, Record, split_name
from hsearch.data.sources.folder import records
from hsearch.errors import DatasetError
from tests.data.toy import save, tree


def found(path):
    items = list(records(path))
    good = [item for item in items if isinstance(item, Record)]
    return good, {item.where: item.reason for item in items if isinstance(item, Problem)}


@pytest.mark.parametrize(
    ("name", "labels"), [("a", ("a",)), ("a/b", ("a", "b")), ("x y/é/c", ("x y", "é", "c"))]
)
def test_folders_are_levels(tmp_path, name, labels):
    good, problems = found(tree(tmp_path, [name], images=2))
    assert [record.id for record in good] == [f"{name}/0.jpg", f"{name}/1.jpg"]
    assert {record.labels for record in good} == {labels}
    assert not problems


def test_folders_named_like_splits_are_no_level(tmp_path):
    good, _ = found(tree(tmp_path, ["Train/a/x", "val/a/y", "test/b/z"], images=1))
    assert [(record.split, record.labels) for record in good] == [
        ("Train", ("a", "x")),
        ("test", ("b", "z")),
        ("val", ("a", "y")),
    ]


def test_levels_are_called_as_the_user_says(tmp_path):
    tree(tmp_path / "plain", ["Cuckoos/Ani"], images=1)
    tree(tmp_path / "split", ["train/Cuckoos/Ani", "test/Owls/Eagle Owl"], images=1)
    for root in ("plain", "split"):
        names, *_ = records(tmp_path / root, ("family", "species"))
        assert names == LevelNames(("family", "species"))
    with pytest.raises(
        DatasetError, match=r"name every level.* got species, .* has 2 levels, such"
    ):
        list(records(tmp_path / "split", ("species",)))


def test_other_names_of_splits_are_no_level_either(tmp_path):
    good, _ = found(tree(tmp_path, ["training/a", "validation/b", "dev/c", "eval/d"], images=1))
    assert sorted(record.labels for record in good) == [("a",), ("b",), ("c",), ("d",)]
    assert {split_name(record.split, "") for record in good} == {"train", "test"}


def test_classes_may_be_called_like_splits(tmp_path):
    good, _ = found(tree(tmp_path / "a", ["train", "test"], images=1))
    assert [record.labels for record in good] == [("test",), ("train",)]
    good, _ = found(tree(tmp_path / "b", ["train/x", "bus/y"], images=1))
    assert [record.labels for record in good] == [("bus", "y"), ("train", "x")]


def test_images_at_two_depths_are_an_error(tmp_path):
    tree(tmp_path, ["a/b", "c"], images=2)
    with pytest.raises(DatasetError, match=r"2 lie 1 deep \(such as c/0.jpg\), 2 lie 2 deep"):
        found(tmp_path)


def test_images_need_class_folders(tmp_path):
    save(tmp_path / "1.jpg")
    with pytest.raises(DatasetError, match="one folder per class"):
        found(tmp_path)


def test_an_empty_tree_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match="holds no"):
        found(tmp_path)
    with pytest.raises(DatasetError, match="must be a folder"):
        found(tmp_path / "none")


def test_what_is_no_image_is_reported_and_hidden_files_are_not(tmp_path):
    tree(tmp_path, ["a"], images=2)
    (tmp_path / "README.txt").write_text("text")
    (tmp_path / "a" / ".DS_Store").write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / "empty").mkdir()
    good, problems = found(tmp_path)
    assert len(good) == 2
    assert problems == {"README.txt": "not an image", "empty": "empty folder"}


def test_links_stay_inside_the_tree(tmp_path):
    root = tree(tmp_path / "root", ["a"], images=1)
    outside = save(tmp_path / "outside.jpg")
    (root / "a" / "in.jpg").symlink_to(root / "a" / "0.jpg")
    (root / "a" / "out.jpg").symlink_to(outside)
    (root / "a" / "gone.jpg").symlink_to(root / "a" / "none.jpg")
    (root / "loop").symlink_to(root)
    good, problems = found(root)
    assert [record.id for record in good] == ["a/0.jpg", "a/in.jpg"]
    assert problems == {
        "a/out.jpg": "symlink out of the tree",
        "a/gone.jpg": "symlink to a folder or to nothing",
        "loop": "symlink to a folder or to nothing",
    }


def test_names_must_be_utf8(tmp_path):
    tree(tmp_path, ["a"], images=1)
    os.close(os.open(os.fsencode(tmp_path) + b"/a/\xff.jpg", os.O_CREAT))
    os.mkfifo(tmp_path / "a" / "pipe.jpg")
    good, problems = found(tmp_path)
    assert len(good) == 1
    assert problems == {
        "a/\\xff.jpg": "name is not UTF-8",
        "a/pipe.jpg": "neither file nor folder",
    }
