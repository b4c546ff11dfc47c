import multiprocessing
import os
from pathlib import Path

import pytest

from hsearch.data.library import data_folder, open_data, prepare, prepared_names, store_path
from hsearch.data.records import BadFilesError
from hsearch.data.sources import available_sources, load_source
from hsearch.errors import DatasetError
from tests.data.toy import tree

CLASSES = [f"group-{i % 2}/class-{i}" for i in range(4)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    path = tmp_path / "data"
    monkeypatch.setenv("HSEARCH_DATA", str(path))
    return path


def test_the_folder_follows_the_environment(folder, monkeypatch):
    assert data_folder() == folder
    monkeypatch.delenv("HSEARCH_DATA")
    assert data_folder() == Path.home() / ".cache" / "hsearch"


def test_own_data_are_opened_by_name_and_by_path(tmp_path, folder):
    report = prepare("mine", tree(tmp_path / "images", CLASSES))
    assert (report.images, report.classes) == (12, 4)
    assert prepared_names() == ["mine"]
    store = open_data("mine")
    assert store.name == "mine"
    assert store.provenance["source"] == "folder"
    assert store.provenance["from"] == str((tmp_path / "images").resolve())
    assert open_data(str(store_path("mine"))).digest == store.digest
    assert [path.name for path in folder.iterdir()] == ["mine.arrow"]


def test_the_same_input_gives_the_same_bytes(tmp_path):
    images = tree(tmp_path / "images", CLASSES)
    prepare("mine", images)
    before = store_path("mine").read_bytes()
    prepare("mine", images, force=True)
    assert store_path("mine").read_bytes() == before


def test_an_existing_name_needs_force(tmp_path):
    images = tree(tmp_path / "images", CLASSES)
    prepare("mine", images)
    with pytest.raises(DatasetError, match="--force"):
        prepare("mine", images)


def test_a_failed_replacement_keeps_the_old_store(tmp_path, folder):
    images = tree(tmp_path / "images", CLASSES)
    prepare("mine", images)
    before = store_path("mine").read_bytes()
    (images / "group-0" / "class-0" / "bad.jpg").write_bytes(b"text")
    with pytest.raises(DatasetError, match="--skip-bad"):
        prepare("mine", images, force=True)
    assert store_path("mine").read_bytes() == before
    assert len(list(folder.iterdir())) == 1


def test_a_table_is_known_by_its_suffix(tmp_path):
    tree(tmp_path, CLASSES)
    lines = [f"{name}/{i}.jpg,{name}" for name in CLASSES for i in range(3)]
    (tmp_path / "t.csv").write_text("\n".join(["path,label", *lines]))
    prepare("mine", tmp_path / "t.csv")
    assert open_data("mine").provenance["source"] == "table"


def test_an_unknown_name_says_what_there_is(tmp_path):
    prepare("mine", tree(tmp_path / "images", CLASSES))
    told = r"'mine'\? .*glyphs, mine, scenes\. .*data prepare mina"
    with pytest.raises(DatasetError, match=told):
        open_data("mina")
    with pytest.raises(DatasetError, match="does not exist"):
        open_data(str(tmp_path / "none.arrow"))


def test_a_long_list_of_names_is_cut(tmp_path, folder):
    folder.mkdir()
    for i in range(20):
        (folder / f"set-{i:02d}.arrow").write_bytes(b"")
    told = r"'set-19'\? .*glyphs, scenes, set-00, .*set-07 and 12 more\."
    with pytest.raises(DatasetError, match=told):
        open_data("set-199")


@pytest.mark.parametrize("given", ["images", "./images", ".", "t.csv", "./T.Parquet", "{}"])
def test_what_is_not_prepared_yet_is_told_how(tmp_path, monkeypatch, given):
    tree(tmp_path / "images", CLASSES[:1])
    monkeypatch.chdir(tmp_path)
    path = given.format(tmp_path)
    with pytest.raises(DatasetError, match=rf"prepare NAME --from {Path(path)}`, then give NAME"):
        open_data(path)


def test_a_prepared_name_is_opened_though_a_folder_is_called_so(tmp_path, monkeypatch):
    prepare("images", tree(tmp_path / "images", CLASSES))
    monkeypatch.chdir(tmp_path)
    assert open_data("images").name == "images"


@pytest.mark.parametrize("below", ["", "x/y"])
def test_the_data_folder_must_not_be_a_file(folder, monkeypatch, below):
    folder.write_text("")
    monkeypatch.setenv("HSEARCH_DATA", str(folder / below))
    with pytest.raises(DatasetError, match="is a file; set HSEARCH_DATA to a folder"):
        open_data("mine")


def test_a_table_of_bad_rows_is_listed_and_skipped(tmp_path):
    tree(tmp_path, CLASSES)
    lines = [f"{name}/{i}.jpg,{name},i{name}{i},1" for name in CLASSES for i in range(3)]
    bad = ["x.jpg,a,x,", "gone.jpg,a,gone,1", "b.jpg,,b,1", f"{lines[0]}"]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["path,label,id,is_query", *lines, "y.jpg,a,y,perhaps", *bad]))
    with pytest.raises(BadFilesError, match="5 entries cannot be used") as raised:
        prepare("mine", table)
    assert raised.value.report.by_reason() == {
        "missing": ["row 15 (x.jpg)", "row 16 (gone.jpg)"],
        "duplicate id": ["row 18 (group-0/class-0/0.jpg)"],
        "empty label": ["row 17 (b.jpg)"],
        "is_query is not true, false or empty": ["row 14 (y.jpg)"],
    }
    assert "(missing: 2; duplicate id: 1; empty label: 1; 1 more kind)" in str(raised.value)
    assert prepare("mine", table, skip_bad=True).images == len(lines)


def test_a_table_without_a_good_row_is_listed_too(tmp_path):
    (tmp_path / "t.csv").write_text("path,label,extra\na.jpg,,1\n")
    with pytest.raises(BadFilesError, match=r"1 entry cannot .* correct it, ") as raised:
        prepare("mine", tmp_path / "t.csv")
    assert raised.value.report.notes == ("ignored columns: extra",)


def test_classes_of_a_table_are_sorted_by_number(tmp_path):
    labels = [1, 2, 10, 101]
    tree(tmp_path, map(str, labels))
    lines = [f"{label}/{i}.jpg,{label}" for label in labels for i in range(3)]
    (tmp_path / "t.csv").write_text("\n".join(["path,label", *lines, "bad.jpg,"]))
    prepare("mine", tmp_path / "t.csv", skip_bad=True)
    assert open_data("mine").hierarchy.names[-1] == ("1", "2", "10", "101")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "ä", "-x", 101 * "a"])
def test_names_are_plain(name):
    with pytest.raises(DatasetError, match="letters, digits"):
        store_path(name)


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("mine", None, "--from PATH"),
        ("mine", "none", "does not exist"),
        ("mine", "none.csv", "does not exist"),
        ("mine", "file.txt", "a folder, a .csv or a .parquet"),
        ("glyphs", "file.txt", "leave --from away"),
    ],
)
def test_wrong_paths_are_named(tmp_path, folder, name, path, message):
    (tmp_path / "file.txt").write_text("")
    with pytest.raises(DatasetError, match=message):
        prepare(name, tmp_path / path if path else None)
    assert not list(folder.glob("*"))


def _digest(folder: Path) -> None:
    os.environ["HSEARCH_DATA"] = str(folder)
    (folder.parent / f"{os.getpid()}.digest").write_text(open_data("glyphs").digest)


def test_processes_that_start_at_once_prepare_glyphs_once(tmp_path, folder):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_digest, args=(folder,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len({path.read_text() for path in tmp_path.glob("*.digest")}) == 1
    assert [path.name for path in folder.iterdir()] == ["glyphs.arrow"]


def test_every_source_says_what_it_reads():
    assert {"folder", "glyphs", "table"} <= set(available_sources())
    for name in available_sources():
        source = load_source(name)
        assert len(source.about) > 20
        assert source.needs_path == (name not in ("glyphs", "scenes"))


def test_an_unknown_source_is_named():
    with pytest.raises(DatasetError, match="Did you mean 'glyphs'"):
        load_source("glyph")
