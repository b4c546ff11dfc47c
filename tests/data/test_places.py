"""A folder and an address are used alike."""

from pathlib import Path

import pytest

from hsearch.addresses import Place, read_place
from hsearch.data.objects import Objects
from hsearch.data.places import (
    absolute,
    check_writable,
    children,
    local_copy,
    read_or_write,
    remove,
)


@pytest.fixture(params=["folder", "address"])
def place(request, tmp_path) -> Place:
    there = tmp_path / "there"
    return there if request.param == "folder" else read_place(f"file://{there}")


def fill(place: Place) -> None:
    for name in ("a/1.png", "a/1.txt", "b/2.png"):
        folder, _, file = name.partition("/")
        read_or_write(place / folder, file, name.encode())


def test_what_is_written_is_listed_and_removed(place):
    assert children(place) == []
    fill(place)
    assert children(place) == ["a", "b"]
    remove(place / "a")
    remove(place / "none")
    assert children(place) == ["b"]


def test_a_file_that_is_there_is_read_instead_of_written(place):
    assert read_or_write(place, "name", b"first") == b"first"
    assert read_or_write(place, "name", b"second") == b"first"


def test_a_check_leaves_nothing(place, tmp_path):
    check_writable(place)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_copy_has_the_wanted_files_and_is_gone_afterwards(place, tmp_path):
    fill(place)
    with local_copy(place, "*/*.png") as folder:
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
        assert found == ["a/1.png", "b/2.png"]
        assert (folder / "a" / "1.txt").exists() == isinstance(place, Path)
    assert folder.exists() == isinstance(place, Path)
    assert len(list((tmp_path / "there").rglob("*.*"))) == 3


def test_only_a_path_depends_on_the_folder(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute(Path("there")) == tmp_path / "there"
    assert absolute(place) == place


def test_an_address_keeps_no_hidden_halves(tmp_path):
    place = read_place(f"file://{tmp_path}")
    assert not isinstance(place, Path)
    (tmp_path / ".a.1234.tmp").write_text("half")
    assert Objects(place).names() == []
