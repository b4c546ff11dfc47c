import io
import zipfile

import pytest

from hsearch.data.layout import open_layout
from hsearch.data.records import Note, Problem, Record
from hsearch.errors import DatasetError
from tests.data.toy import save

HOME = "https://example.org/birds"


@pytest.mark.parametrize("top", ["", "birds/"])
@pytest.mark.parametrize("packed", ["no", "given", "inside"])
def test_files_are_found_wherever_they_lie(tmp_path, top, packed):
    folder = tmp_path / "given"
    folder.mkdir()
    if packed == "no":
        (folder / top).mkdir(exist_ok=True)
        (folder / f"{top}list.txt").write_text("x")
    else:
        with zipfile.ZipFile(folder / "birds.zip", "w") as file:
            file.writestr(f"{top}list.txt", "x")
    path = folder / "birds.zip" if packed == "given" else folder
    with open_layout(path, "birds", HOME, tmp_path / "scratch") as layout:
        (found,) = layout.require("other.txt|list.txt", inside="birds.zip")
        assert found.read_text() == "x"
        assert layout.find("nothing.txt") is None
    assert found.exists() == (packed == "no")


def test_an_archive_is_left_packed_while_all_is_there(tmp_path):
    (tmp_path / "list.txt").write_text("x")
    (tmp_path / "broken.zip").write_bytes(b"")
    with open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout:
        assert layout.find("list.txt") == tmp_path.resolve() / "list.txt"
        with pytest.raises(DatasetError, match="damaged"):
            layout.find("nothing.txt")


def test_all_missing_files_are_named_with_the_home_page(tmp_path):
    with (
        pytest.raises(
            DatasetError, match=r"a.txt or b.txt, c.txt .of birds.tgz.*example.org/birds"
        ),
        open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout,
    ):
        layout.require("a.txt|b.txt", "c.txt", inside="birds.tgz")


def test_neither_folder_nor_archive_is_a_sentence(tmp_path):
    (tmp_path / "x.txt").write_text("")
    with (
        pytest.raises(DatasetError, match="neither"),
        open_layout(tmp_path / "x.txt", "birds", HOME, tmp_path / "scratch"),
    ):
        pass


def test_archives_in_folders_and_in_archives_are_found(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("deep/list.txt", "x")
    (tmp_path / "parts").mkdir()
    with zipfile.ZipFile(tmp_path / "parts" / "outer.zip", "w") as file:
        file.writestr("top/inner.zip", inner.getvalue())
    with open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout:
        assert layout.require("list.txt", inside="inner.zip")[0].read_text() == "x"


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / "scratch" / "0-birds.zip").mkdir(parents=True)
    (tmp_path / "scratch" / "0-birds.zip" / "list.txt").write_text("half")
    with (
        open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout,
        pytest.raises(DatasetError, match=r"need list\.txt"),
    ):
        layout.require("list.txt", inside="birds.zip")
    assert not (tmp_path / "scratch").exists()


def test_images_are_inside_the_folder_and_others_are_told(tmp_path):
    root = tmp_path / "images"
    outside = save(tmp_path / "outside.jpg")
    for name in ("a.jpg", "b.jpg", "c.PNG", "note.txt"):
        save(root / name)
    (root / "link.jpg").symlink_to(outside)
    (root / "fine.jpg").symlink_to(root / "a.jpg")
    listed = ("a.jpg", "../outside.jpg", "link.jpg", "fine.jpg", "a\0b.jpg", "/etc/hostname")
    found = [Record(name, root / name, ("x",)) for name in listed]
    with open_layout(root, "birds", HOME, tmp_path / "scratch") as layout:
        *items, note = layout.checked(iter(found))
    assert [item.id for item in items if isinstance(item, Record)] == ["a.jpg", "fine.jpg"]
    assert {item.reason for item in items if isinstance(item, Problem)} == {
        "path out of the data's folder"
    }
    assert isinstance(note, Note)
    assert note.text == f"left out 3 images that are not listed, such as {root / 'b.jpg'}"
