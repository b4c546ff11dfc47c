"""Objects at addresses: on a real S3 server, and in files of this machine."""

import pytest

from hsearch.addresses import Address, read_folder
from hsearch.data import objects as door
from hsearch.data.objects import NoAnswerError, Objects
from hsearch.errors import DatasetError

BIG = 12 * 10**6
"""More than one part of an upload."""


@pytest.fixture(params=["file", "s3"])
def address(request, s3_server, tmp_path) -> Address:
    there = tmp_path / "there"
    on_s3 = request.param == "s3"
    return read_folder(s3_server.uri(f"bucket/{tmp_path.name}") if on_s3 else f"file://{there}")


def test_what_is_put_is_listed_read_fetched_and_removed(address, tmp_path):
    objects = Objects(address)
    (tmp_path / "big").write_bytes(b"x" * BIG)
    objects.put("a/big", tmp_path / "big")
    objects.put("a/small", b"small")
    objects.put("b", b"")
    assert objects.names() == ["a/big", "a/small", "b"]
    assert objects.children() == ["a", "b"]
    assert Objects(address / "a").names() == ["big", "small"]
    assert objects.read("a/small") == b"small"
    assert objects.fetch("a/big", tmp_path / "new" / "copy")
    assert (tmp_path / "new" / "copy").read_bytes() == b"x" * BIG
    objects.remove("b")
    Objects(address / "a").clear()
    assert objects.names() == []


def test_what_is_not_there_is_no_error(address, tmp_path):
    objects = Objects(address)
    assert objects.names() == objects.children() == []
    assert objects.read("none") is None
    assert not objects.fetch("none", tmp_path / "none")
    objects.remove("none")
    objects.clear()
    assert not (tmp_path / "none").exists()


def test_a_half_fetched_object_is_not_there(address, tmp_path, monkeypatch):
    objects = Objects(address)
    objects.put("a", b"whole")

    def copy(source: str, target: str, **_: object) -> None:
        with open(target, "wb") as file:
            file.write(b"who")

    monkeypatch.setattr("pyarrow.fs.copy_files", copy)
    with pytest.raises(DatasetError, match="came only in part; try again"):
        objects.fetch("a", tmp_path / "here" / "a")
    assert list((tmp_path / "here").iterdir()) == []


def test_only_the_patient_bear_with_a_server_that_does_not_answer(address, monkeypatch):
    connect, faults = door.connect, ["curlCode: 28, Timeout was reached", "code: 503 SLOW_DOWN"]

    def connect_later(address: Address) -> object:
        if faults:
            raise OSError(faults.pop())
        return connect(address)

    monkeypatch.setattr(door, "WAITS", (0.01, 0.01))
    monkeypatch.setattr(door, "connect", connect_later)
    with pytest.raises(NoAnswerError, match=r"cannot be read: its server does not answer"):
        Objects(address).read("a")
    Objects(address, patient=True).put("a", b"text")
    assert faults == []
    assert Objects(address).read("a") == b"text"


def test_what_will_not_change_is_said_at_once(s3_server, monkeypatch):
    monkeypatch.setattr(door, "WAITS", (60.0,))
    objects = Objects(read_folder(s3_server.uri("none/folder")), patient=True)
    with pytest.raises(DatasetError, match=r"^s3://none/folder/a\?.* cannot be written: there is"):
        objects.put("a", b"text")
