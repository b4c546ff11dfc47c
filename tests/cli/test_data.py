import re

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from tests.data.toy import tree

CLASSES = [f"group-{i % 4}/class-{i:02d}" for i in range(16)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def images(tmp_path):
    return tree(tmp_path / "images", CLASSES, images=2)


def run(*arguments):
    return CliRunner().invoke(main, ["data", *(str(argument) for argument in arguments)])


def cells(result):
    """The lines of tables, their columns parted by tabs."""
    return [re.sub("  +", "\t", line) for line in result.output.splitlines()]


def test_prepare_list_and_show(images):
    result = run("prepare", "mine", "--from", images)
    assert result.exit_code == 0
    assert "mine: 32 images of 16 classes" in result.output
    listed = "\n".join(cells(run("list")))
    assert "mine\t32\t16\tlevel_0 > level_1\t" in listed
    assert "glyphs\tInvented writing systems" in listed
    shown = cells(run("show", "mine"))
    for line in (
        "level_0\t4\tgroup-0, group-1, group-2",
        "images per class\t2 to 2, mean 2.0",
        "height\t40 to 40 px",
        "split\tnone: 32",
        "source\tfolder",
        "fold 3 val\t2\t4",
        "test\t8\t16",
    ):
        assert line in shown


@pytest.mark.parametrize(("size", "height"), [("20", "20"), ("original", "40"), ("256", "40")])
def test_size(images, size, height):
    assert run("prepare", "mine", "--from", images, "--size", size).exit_code == 0
    assert f"height\t{height} to {height} px" in cells(run("show", "mine"))


@pytest.mark.parametrize("size", ["0", "-5", "big", "1.5"])
def test_a_wrong_size_is_named(images, size):
    result = run("prepare", "mine", "--from", images, "--size", size)
    assert result.exit_code == 2
    assert "must be a number from 1 or `original`" in result.output


def test_bad_files_are_listed_and_stop_or_are_skipped(images, folder):
    (images / "group-0" / "class-00" / "bad.jpg").write_bytes(b"text")
    (images / "group-0" / "empty").mkdir()
    stopped = run("prepare", "mine", "--from", images)
    assert stopped.exit_code == 2
    assert "Nothing was written, because 2 entries cannot be used" in stopped.stderr
    line = "not a JPEG, PNG or WEBP image\t1\tgroup-0/class-00/bad.jpg"
    assert line in cells(stopped)
    assert "empty folder\t1\tgroup-0/empty" in cells(stopped)
    assert list(folder.iterdir()) == []
    skipped = run("prepare", "mine", "--from", images, "--skip-bad")
    assert skipped.exit_code == 0
    assert line in cells(skipped)
    assert "mine: 32 images of 16 classes" in skipped.output


def test_identical_images_are_told(images):
    first = images / "group-0" / "class-00" / "0.jpg"
    (images / "group-1" / "class-01" / "copy.jpg").write_bytes(first.read_bytes())
    output = "\n".join(cells(run("prepare", "mine", "--from", images)))
    assert "identical images (kept)\t1\tgroup-0/class-00/0.jpg = " in output


def test_an_existing_name_needs_force(images):
    run("prepare", "mine", "--from", images)
    again = run("prepare", "mine", "--from", images)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert run("prepare", "mine", "--from", images, "--force").exit_code == 0


def test_few_classes_are_shown_without_folds(tmp_path):
    run("prepare", "mine", "--from", tree(tmp_path / "few", ["a", "b"]))
    shown = run("show", "mine")
    assert shown.exit_code == 0
    assert "folds need at least" in shown.output


@pytest.mark.parametrize(
    ("marks", "sentence"), [(("train", "val"), "none is marked test"), (("train", ""), "none has")]
)
def test_marks_that_give_no_test_are_shown_in_place_of_folds(images, marks, sentence):
    lines = [f"{name}/{i}.jpg,{name},{marks[i]}" for name in CLASSES for i in range(2)]
    (images / "t.csv").write_text("\n".join(["path,label,split", *lines]))
    assert run("prepare", "mine", "--from", images / "t.csv").exit_code == 0
    shown = run("show", "mine")
    assert shown.exit_code == 0
    assert sentence in shown.output
    assert "fold 0" not in shown.output


def test_a_damaged_store_does_not_hide_the_others(images, folder):
    run("prepare", "mine", "--from", images)
    (folder / "broken.arrow").write_bytes(b"text")
    listed = run("list")
    assert listed.exit_code == 0
    assert any(line.startswith("mine\t32") for line in cells(listed))
    assert "prepare it again" in listed.output
