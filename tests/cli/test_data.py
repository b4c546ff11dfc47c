import re
import shutil
import signal
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.library import open_data
from hsearch.data.records import Record
from hsearch.data.sources import available_sources
from hsearch.data.splits import store_splits
from hsearch.folds import Splits
from tests.data.sources.test_cub200 import build as build_cub200
from tests.data.sources.test_voc2007 import build as build_voc2007
from tests.data.toy import encode, photo, toy_store, tree

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
        "images per class\t2 to 2, mean 2.0, median 2",
        "height\t40 to 40 px, mean 40.0, median 40",
        "split\tnone: 32",
        "source\tfolder",
        "PART\tIMAGES\tLEVEL_0\tLEVEL_1\tIMAGES PER CLASS",
        "fold 3 validation\t4\t2\t2\t2 to 2",
        "test\t16\t4\t8\t2 to 2",
    ):
        assert line in shown


@pytest.mark.parametrize(("size", "height"), [("20", "20"), ("original", "40"), ("256", "40")])
def test_size(images, size, height):
    assert run("prepare", "mine", "--from", images, "--size", size).exit_code == 0
    assert f"height\t{height} to {height} px, mean {height}.0, median {height}" in cells(
        run("show", "mine")
    )


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


def test_the_sentence_is_short_and_a_report_lists_all(images, tmp_path):
    bad = [images / "group-0" / "class-00" / f"bad-{i}.jpg" for i in range(9)]
    for path in bad:
        path.write_bytes(b"text")
    report = tmp_path / "report.csv"
    stopped = run("prepare", "mine", "--from", images, "--report", report)
    assert stopped.exit_code == 2
    assert "9 entries cannot be used (not a JPEG, PNG or WEBP image: 9);" in stopped.stderr
    assert "--report FILE.csv" in stopped.stderr
    assert "bad-0" not in stopped.stderr
    assert f"listed in {report}" in stopped.stdout
    lines = report.read_text().splitlines()
    assert lines[0] == "reason,where"
    assert lines[1:] == [
        f'"not a JPEG, PNG or WEBP image",{path.relative_to(images)}' for path in bad
    ]
    for path in bad:
        path.unlink()
    assert run("prepare", "mine", "--from", images, "--report", report).exit_code == 0
    assert report.read_text() == "reason,where\n"


def test_a_report_that_cannot_be_written_is_refused_at_once(images, tmp_path, folder):
    nowhere = run("prepare", "mine", "--from", images, "--report", tmp_path / "no" / "r.csv")
    assert (nowhere.exit_code, folder.exists()) == (2, False)
    assert "does not exist" in nowhere.stderr
    (tmp_path / "t.csv").write_text("path,label\n")
    table = run("prepare", "mine", "--from", tmp_path / "t.csv", "--report", tmp_path / "t.csv")
    assert table.exit_code == 2
    assert "would overwrite" in table.stderr
    assert (tmp_path / "t.csv").read_text() == "path,label\n"


def test_a_pipe_gets_lines_of_progress(images, monkeypatch):
    assert run("prepare", "mine", "--from", images).stderr == ""
    monkeypatch.setattr("hsearch.cli.counting._LINE_SECONDS", 0)
    result = run("prepare", "mine", "--from", images, "--force")
    for last in ("preparing mine: 32/32", "writing mine: 32/32", "checking mine: 1/1"):
        assert f"{last} (100%)" in result.stderr.splitlines()
    assert "preparing" not in result.stdout


INTERRUPTED = """
import sys, time
from hsearch.cli import counting
from hsearch.cli.main import main

def wait(self, what, done, total):
    if what.startswith(sys.argv[1]):
        print("reached", flush=True)
        for _ in range(600):  # a signal just before a sleep does not shorten it
            time.sleep(0.1)

counting.PlainLines.__call__ = wait
main(["data", "prepare", "cub200", "--from", sys.argv[2]])
"""


@pytest.mark.parametrize("phase", ["unpacking", "preparing", "writing", "checking"])
def test_ctrl_c_leaves_nothing_in_any_phase(phase, tmp_path, folder):
    """A real process, a real signal; the next attempt works."""
    build_cub200(tmp_path / "files")
    archive = shutil.make_archive(str(tmp_path / "all"), "gztar", tmp_path / "files")
    command = [sys.executable, "-c", INTERRUPTED, phase, archive]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reached\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (130, "hsearch: interrupted\n")
    assert list(folder.iterdir()) == []
    assert run("prepare", "cub200", "--from", archive).exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["cub200.arrow"]


def test_ignored_columns_are_told(images):
    lines = [f"{name}/{i}.jpg,{name},7" for name in CLASSES for i in range(2)]
    (images / "t.csv").write_text("\n".join(["path,label,x_1", *lines]))
    result = run("prepare", "mine", "--from", images / "t.csv")
    assert result.stdout.splitlines()[0] == "ignored columns: x_1"
    assert result.stderr == ""


def test_identical_images_are_told(images):
    first = (images / "group-0" / "class-00" / "0.jpg").read_bytes()
    second = (images / "group-0" / "class-00" / "1.jpg").read_bytes()
    (images / "group-0" / "class-00" / "copy.jpg").write_bytes(first)
    (images / "group-1" / "class-01" / "copy.jpg").write_bytes(second)
    found = cells(run("prepare", "mine", "--from", images))
    same = "group-0/class-00/0.jpg = group-0/class-00/copy.jpg"
    differ = "group-0/class-00/1.jpg = group-1/class-01/copy.jpg"
    assert f"identical images (kept)\t1\t{same}" in found
    assert f"identical images with different labels (kept)\t1\t{differ}" in found


def test_a_large_group_of_identical_images_is_cut_but_not_in_the_report(images, tmp_path):
    first = (images / "group-0" / "class-00" / "0.jpg").read_bytes()
    for i in range(9):
        (images / "group-0" / "class-00" / f"copy-{i}.jpg").write_bytes(first)
    report = tmp_path / "report.csv"
    found = cells(run("prepare", "mine", "--from", images, "--report", report))
    start = "group-0/class-00/0.jpg = group-0/class-00/copy-0.jpg = group-0/class-00/copy-1.jpg"
    assert f"identical images (kept)\t1\t{start} = 7 more" in found
    assert report.read_text().count("copy-") == 9


def test_where_all_is_bad_the_report_is_written(tmp_path, folder):
    for path in tree(tmp_path / "images", ["a", "b"]).rglob("*.jpg"):
        path.write_bytes(b"text")
    report = tmp_path / "report.csv"
    arguments = ("prepare", "mine", "--from", tmp_path / "images", "--report", report)
    result = run(*arguments, "--skip-bad")
    assert result.exit_code == 2
    assert "6 entries cannot be used and nothing else is left" in result.stderr
    assert len(report.read_text().splitlines()) == 7
    assert not list(folder.iterdir())


def test_data_with_tags_are_counted_by_their_tags(tmp_path):
    build_voc2007(tmp_path / "voc")
    result = run("prepare", "voc2007", "--from", tmp_path / "voc")
    assert "voc2007: 7 images with 6 tags in " in result.stdout


@pytest.fixture
def tagged(folder):
    """Multi-label data: tag-00 on every image, tag-11 on one of twelve."""
    names = [f"tag-{i:02d}" for i in range(12)]
    records = [
        Record(f"{i:02d}", encode(photo(i)), (), tags=tuple(names[: i % 12 + 1])) for i in range(24)
    ]
    return toy_store(folder / "tagged.arrow", records)


@pytest.mark.usefixtures("tagged")
def test_data_with_tags_are_listed_and_shown():
    assert any(line.startswith("tagged\t24\t12\ttags\t") for line in cells(run("list")))
    shown = cells(run("show", "tagged"))
    for line in (
        "tag-00\t24",
        "2 more",
        "tag-11\t2",
        "tags\t12",
        "images per tag\t2 to 24, mean 13.0, median 13",
        "tags per image\t1 to 12, mean 6.5, median 6.5",
    ):
        assert line in shown
    assert "tag-05\t14" not in shown
    parts = shown[shown.index("PART\tIMAGES\tTAGS\tIMAGES PER TAG") + 1 :]
    images = {line.split("\t")[0]: int(line.split("\t")[1]) for line in parts if "\t" in line}
    assert images["trainval"] + images["test"] == 24
    assert images["test"] in (4, 5)
    assert sum(images[f"fold {number} validation"] for number in range(4)) == images["trainval"]
    assert not any(line.startswith(("level", "queries", "gallery", "No folds")) for line in shown)


def test_a_table_of_tags_is_prepared_and_shown(images):
    lines = [f"{name}/{i}.jpg,{name.replace('/', ';')}" for name in CLASSES for i in range(2)]
    (images / "t.csv").write_text("\n".join(["path,tags", *lines]))
    result = run("prepare", "mine", "--from", images / "t.csv")
    assert result.stdout.startswith("mine: 32 images with 20 tags in ")
    assert (result.exit_code, result.stderr) == (0, "")
    shown = cells(run("show", "mine"))
    assert {"tags\t20", "tags per image\t2 to 2, mean 2.0, median 2", "source\ttable"} <= set(shown)
    assert "No folds" not in "\n".join(shown)


def test_the_contact_sheet_lies_beside_the_store_or_where_asked(images, folder, tmp_path):
    run("prepare", "mine", "--from", images)
    for _ in range(2):  # a former sheet is replaced
        shown = run("show", "mine")
        assert shown.output.splitlines()[-1] == f"Contact sheet: {folder / 'mine.png'}"
    assert run("show", "mine", "--sheet", tmp_path / "s.png").exit_code == 0
    assert (tmp_path / "s.png").read_bytes() == (folder / "mine.png").read_bytes()
    nowhere = run("show", "mine", "--sheet", tmp_path / "no" / "s.png")
    assert (nowhere.exit_code, "does not exist" in nowhere.stderr) == (2, True)


def test_a_file_that_is_no_sheet_is_never_replaced(images, tmp_path):
    run("prepare", "mine", "--from", images)
    photograph = next(images.rglob("*.jpg")).read_bytes()
    (tmp_path / "mine.png").write_bytes(photograph)
    refused = run("show", "mine", "--sheet", tmp_path / "mine.png")
    assert refused.exit_code == 2
    assert "which is something else" in refused.stderr
    assert (tmp_path / "mine.png").read_bytes() == photograph


def test_official_data_sets_are_listed_apart(images):
    run("prepare", "mine", "--from", images)
    _, own, official = run("list").output.split("\n\n")[:3]
    assert "\nfolder " in own
    assert "\ntable " in own
    assert "\ncub200 " in official
    assert "\nfolder " not in official


def test_every_source_says_what_it_reads_and_where_it_comes_from():
    for name in available_sources():
        result = run("list", name)
        assert result.exit_code == 0
        assert result.output.startswith(f"{name}: ")
        assert f"hsearch data prepare {name}" in result.output
    birds = run("list", "cub200-family").output
    assert "Levels: order > family > species" in birds
    assert "image_class_labels.txt" in birds
    assert "Home: https://www.vision.caltech.edu" in birds
    assert "Did you mean 'cub200'" in run("list", "cub20").stderr
    assert "Did you mean" not in run("list", "nope").stderr


def test_data_that_are_not_prepared_yet_are_told_how():
    result = run("show", "cub200")
    assert result.exit_code == 2
    assert "get them at https://www.vision.caltech.edu" in result.stderr
    assert "vision.caltech.edu" in run("prepare", "cub200").stderr


def test_official_files_may_become_a_store_of_any_name(tmp_path):
    build_cub200(tmp_path / "birds")
    result = run("prepare", "tiny", "--source", "cub200-family", "--from", tmp_path / "birds")
    assert result.exit_code == 0, result.output
    assert "tiny\t12\t4\torder > family > species\t" in "\n".join(cells(run("list")))
    wrong = run("prepare", "other", "--source", "cub20", "--from", tmp_path / "birds")
    assert wrong.exit_code == 2
    assert "Did you mean 'cub200'" in wrong.stderr


def test_an_archive_of_unknown_files_is_refused(tmp_path, images):
    shutil.make_archive(str(tmp_path / "mine"), "zip", images)
    result = run("prepare", "mine", "--from", tmp_path / "mine.zip")
    assert result.exit_code == 2
    assert "unpack an archive first, or say with --source" in result.stderr


def test_an_existing_name_needs_force(images):
    run("prepare", "mine", "--from", images)
    again = run("prepare", "mine", "--from", images)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert run("prepare", "mine", "--from", images, "--force").exit_code == 0


def test_data_that_cannot_be_trained_are_warned_of(tmp_path):
    prepared = run("prepare", "mine", "--from", tree(tmp_path / "few", ["a", "b"]))
    assert prepared.exit_code == 0
    (warning,) = prepared.stderr.splitlines()
    assert warning.startswith("hsearch: warning: these data cannot be trained on yet. 4 class-dis")
    shown = run("show", "mine")
    assert shown.exit_code == 0
    assert "\nNo folds: 4 class-disjoint folds need at" in shown.stdout


def test_what_every_fold_and_the_test_hold_is_shown_level_by_level(tmp_path):
    names = [f"group-{i // 5}/class-{i:02d}" for i in range(20)]  # sorted by their groups
    root = tree(tmp_path / "images", names[:10], images=2)
    tree(root, names[10:], images=3)
    run("prepare", "mine", "--from", root, "--levels", "group,class")
    store = open_data("mine")
    images = np.bincount(store.classes)
    for kind in get_args(Splits):
        splits = store_splits(store, kind)
        shown = cells(run("show", "mine", "--splits", kind))
        assert "PART\tIMAGES\tGROUP\tCLASS\tIMAGES PER CLASS" in shown
        parts = {f"fold {n} validation": fold.validation for n, fold in enumerate(splits.folds)}
        for part, classes in {**parts, "trainval": splits.trainval, "test": splits.test}.items():
            groups = len(np.unique(store.hierarchy.paths[classes, 0]))
            some = images[classes]
            counts = f"{some.sum()}\t{groups}\t{len(classes)}\t{some.min()} to {some.max()}"
            assert f"{part}\t{counts}" in shown
    wrong = run("show", "mine", "--splits", "other")
    assert (wrong.exit_code, "stratified" in wrong.stderr) == (2, True)


def test_which_splits_are_used_and_why_is_shown(images):
    run("prepare", "mine", "--from", images)
    (own,) = re.findall(r"Splits: .*", run("show", "mine").output)
    assert own.startswith("Splits: stratified (the default for own images; --splits disjoint or ")
    assert own.endswith("The test is half of the classes.")
    (other,) = re.findall(r"Splits: .*", run("show", "mine", "--splits", "mlrc").output)
    assert other.startswith("Splits: mlrc (as --splits says; --splits stratified or disjoint ")
    marked = [
        f"{name}/{i}.jpg,{name},{'train' if n < 9 else 'test'}"
        for n, name in enumerate(CLASSES)
        for i in range(2)
    ]
    (images / "t.csv").write_text("\n".join(["path,label,split", *marked]))
    run("prepare", "marked", "--from", images / "t.csv")
    (marked,) = re.findall(r"Splits: .*", run("show", "marked").output)
    assert marked.startswith("Splits: stratified (the default for own images; ")
    assert marked.endswith("The test is the data set's own test classes.")


def test_levels_that_say_nothing_on_a_fold_are_told(tmp_path):
    root = tree(tmp_path / "images", [f"g{i // 8}/c{i:02d}" for i in range(32)], images=2)
    run("prepare", "mine", "--from", root, "--levels", "group,kind")
    shown = run("show", "mine", "--splits", "disjoint").output
    assert "Folds 0, 1, 2, 3: all classes share their group, so metrics at group are" in shown
    shown = run("show", "mine").output
    assert "Folds 0, 1, 2, 3: no two classes share their group, so metrics at group are " in shown
    assert "metrics at kind" not in shown


def test_levels_have_the_names_that_the_user_gives(images):
    assert run("prepare", "mine", "--from", images, "--levels", "group, kind").exit_code == 0
    assert any(line.startswith("mine\t32\t16\tgroup > kind\t") for line in cells(run("list")))
    assert "group\t4\tgroup-0, group-1, group-2" in cells(run("show", "mine"))
    digest = open_data("mine").digest
    run("prepare", "mine", "--from", images, "--force")
    assert open_data("mine").digest == digest  # names of levels are words, not content


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ("kind", "--levels must name every level"),
        ("a,b,c", "but got a, b, c, and"),
        ("a,", "but got ''"),
        ("a/b,c", "but got 'a/b'"),
        ("kind,Kind", "Levels need different names, but got kind, Kind"),
        ("level_1,kind", "level 0 would be called 'level_1'"),
    ],
)
def test_wrong_names_of_levels_are_refused_before_any_image_is_read(
    images, folder, levels, sentence
):
    result = run("prepare", "mine", "--from", images, "--levels", levels)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not list(folder.glob("*.arrow"))


def test_levels_of_published_data_have_their_own_names(tmp_path):
    build_cub200(tmp_path / "birds")
    arguments = ("--source", "cub200", "--from", tmp_path / "birds", "--levels", "kind")
    result = run("prepare", "tiny", *arguments)
    assert result.exit_code == 2
    assert "which has its own: species; leave --levels out" in result.stderr


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
