import io
import os
import zipfile

import pytest

from hsearch.data import layout as layout_module
from hsearch.data.archives import unpack
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
    (tmp_path / "birds.zip").write_bytes(b"")
    with open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout:
        assert layout.find("list.txt") == tmp_path.resolve() / "list.txt"
        with pytest.raises(DatasetError, match=r"birds\.zip is damaged"):
            layout.find("nothing.txt")


def pack(path, *names):
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, path.name)


def opened(monkeypatch):
    """The names of all archives that are unpacked from now on, in their order."""
    names = []

    def tell(archive, *rest):
        names.append(archive.name)
        unpack(archive, *rest)

    monkeypatch.setattr(layout_module, "unpack", tell)
    return names


def test_what_is_optional_is_looked_for_in_archives_of_its_name_only(tmp_path, monkeypatch):
    (tmp_path / "another.zip").write_bytes(b"damaged")
    pack(tmp_path / "z.json.zip", "z.json")
    names = opened(monkeypatch)
    with open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout:
        assert layout.find("nothing.txt") is None
        assert names == []
        assert layout.find("z.json")
        assert names == ["z.json.zip"]


def test_archives_whose_names_tell_of_it_come_first(tmp_path, monkeypatch):
    for name, content in (("a", "x.txt"), ("bird", "list.txt"), ("images", "images/0.jpg")):
        pack(tmp_path / f"{name}.zip", content)
    names = opened(monkeypatch)
    with open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout:
        layout.require("list.txt", "images", inside="bird.zip")
        assert names == ["images.zip", "bird.zip"]


def test_damage_of_another_archive_does_not_hide_what_is_missing(tmp_path):
    (tmp_path / "another.zip").write_bytes(b"damaged")
    pack(tmp_path / "renamed.zip", "list.txt")
    with open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout:
        assert layout.require("list.txt", inside="birds.zip")[0].read_text() == "renamed.zip"
        with pytest.raises(
            DatasetError,
            match=r"need none\.txt \(of birds\.zip\), but .* lacks it, and the archive "
            r".*another\.zip is damaged or cut off \(.*\); https",
        ) as caught:
            layout.require("none.txt", "list.txt", inside="birds.zip")
    assert "\n" not in str(caught.value)


def put(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def required(path, *names, **options):
    """What of the folder is taken."""
    with open_layout(path, "birds", HOME, path.parent / "scratch") as layout:
        found = layout.require(*names, inside="birds.zip", **options)
        return [file.read_text() for file in found]


def test_all_files_come_from_one_folder_where_one_has_all(tmp_path):
    put(tmp_path / "x", "a/list.txt", "b/list.txt", "b/names.txt", "c/names.txt")
    names = ("list.txt", "names.txt")
    assert required(tmp_path / "x", *names) == ["b/list.txt", "b/names.txt"]
    assert required(tmp_path / "x", *reversed(names)) == ["b/names.txt", "b/list.txt"]
    put(tmp_path / "x", "list.txt", "names.txt")
    assert required(tmp_path / "x", *names) == ["list.txt", "names.txt"]


@pytest.mark.parametrize("other", [("b/names.txt",), ()])
def test_the_same_name_in_two_folders_is_refused_with_both(tmp_path, other):
    put(tmp_path / "x", "a/list.txt", "b/list.txt", "a/names.txt", *other)
    names = ("list.txt", "names.txt") if other else ("list.txt",)
    with pytest.raises(
        DatasetError, match=r"one folder, but list.txt .* .*/a/list.txt and .*/b/list.txt; name"
    ):
        required(tmp_path / "x", *names)


def test_parts_of_two_data_sets_are_never_mixed(tmp_path):
    put(tmp_path / "x", "a/list.txt", "a/names.txt", "b/list.txt", "b/boxes.txt")
    with pytest.raises(DatasetError, match=r"must lie in one folder, but list\.txt is in several"):
        required(tmp_path / "x", "list.txt", "names.txt", "boxes.txt")


def test_files_may_be_spread_over_folders_and_archives(tmp_path):
    put(tmp_path / "x", "lists/list.txt", "names.txt")
    pack(tmp_path / "x" / "images.zip", "images/list.txt", "images/boxes.txt")
    assert required(tmp_path / "x", "boxes.txt", "names.txt") == ["images.zip", "names.txt"]
    names = ("lists/list.txt|list.txt", "names.txt")  # the same file, by way of two folders
    assert required(tmp_path / "x", *names) == ["lists/list.txt", "names.txt"]


def test_the_folder_of_its_own_name_decides_and_those_of_others_never_count(tmp_path):
    put(tmp_path / "x", "birds/list.txt", "cats/list.txt", "other/list.txt", "cats/names.txt")
    own = {"own": "birds", "others": ("cats",)}
    assert required(tmp_path / "x", "list.txt", **own) == ["birds/list.txt"]
    with pytest.raises(DatasetError, match=r"need names\.txt"):
        required(tmp_path / "x", "list.txt", "names.txt", **own)
    (tmp_path / "x" / "birds").rename(tmp_path / "away")
    assert required(tmp_path / "x", "list.txt", **own) == ["other/list.txt"]
    with pytest.raises(DatasetError, match=r"need list\.txt"):
        required(tmp_path / "x" / "cats", "list.txt", **own)
    pack(tmp_path / "x" / "birds.zip", "list.txt")
    assert required(tmp_path / "x", "list.txt", **own) == ["birds.zip"]


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "list.txt")
    with (
        open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout,
        pytest.raises(DatasetError, match=r"need list\.txt"),
    ):
        layout.require("list.txt", inside="birds.zip")


def test_files_from_elsewhere_are_named_with_their_own_home(tmp_path):
    with (
        open_layout(tmp_path, "birds", HOME, tmp_path / "scratch") as layout,
        pytest.raises(
            DatasetError, match=r"need a\.txt \(see http://a\), b\.txt \(of .*lacks them; https"
        ),
    ):
        layout.require("a.txt", "b.txt", inside="x", homes={"a.txt": "http://a"})


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
