"""Stores at addresses: on a real S3 server, and in files of this machine."""

import multiprocessing
import os
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import numpy as np
import pytest

from hsearch.addresses import read_address
from hsearch.data import objects, remote
from hsearch.data.library import data_folder, open_data
from hsearch.data.remote import new_address, send
from hsearch.data.store import Store
from hsearch.errors import DatasetError
from tests.data.s3_server import S3Server
from tests.data.toy import toy_records, toy_store

BIG = 40 * 10**6
"""More than the file system keeps before it sends the first part."""


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))


@dataclass(frozen=True)
class Place:
    """Where a test may write."""

    kind: str
    folder: str
    server: S3Server

    def uri(self, name: str) -> str:
        path = f"{self.folder}/{name}"
        return f"file://{path}" if self.kind == "file" else self.server.uri(path)

    def send(self, path: Path, name: str = "toy.arrow") -> str:
        uri = self.uri(name)
        send(path, read_address(uri))
        return uri


@pytest.fixture(params=["file", "s3"])
def place(request, s3_server, tmp_path):
    folder = str(tmp_path / "there") if request.param == "file" else f"bucket/{tmp_path.name}"
    return Place(request.param, folder, s3_server)


@pytest.fixture
def s3(s3_server, tmp_path):
    return Place("s3", f"bucket/{tmp_path.name}", s3_server)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return toy_store(tmp_path_factory.mktemp("store") / "toy.arrow")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return toy_store(tmp_path_factory.mktemp("other") / "toy.arrow", toy_records(classes=9))


def copies() -> list[Path]:
    folder = data_folder() / "remote"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_what_is_sent_is_opened(place, store):
    uri = place.send(store.path)
    opened = open_data(uri)
    assert opened.digest == store.digest
    assert bytes(opened.encoded(5)) == bytes(store.encoded(5))
    assert [opened.path] == copies()
    assert opened.path.read_bytes() == store.path.read_bytes()


def test_a_second_opening_reads_the_copy(s3, store):
    uri = s3.send(store.path)
    first = open_data(uri)
    asked = s3.server.requests("GET", f"{s3.folder}/toy.arrow")
    assert asked > 0
    assert open_data(uri).path == first.path
    assert s3.server.requests("GET", f"{s3.folder}/toy.arrow") == asked


def test_progress_is_counted_in_megabytes(s3, tmp_path):
    path = tmp_path / "big"
    path.write_bytes(bytes(BIG))
    told: list[tuple[int, int]] = []
    send(path, read_address(s3.uri("big.arrow")), lambda done, total: told.append((done, total)))
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1] == (40, 40)


def test_the_endpoint_may_come_from_the_environment(s3, store, monkeypatch):
    s3.send(store.path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.endpoint)
    assert open_data(f"s3://{s3.folder}/toy.arrow").digest == store.digest


def _open(uri: str, folder: Path) -> None:
    os.environ["HSEARCH_DATA"] = str(folder)
    (folder.parent / f"{os.getpid()}.digest").write_text(open_data(uri).digest)


def test_processes_that_start_at_once_fetch_once(s3, store, tmp_path):
    uri = s3.send(store.path)
    context = multiprocessing.get_context("spawn")
    arguments = (uri, data_folder())
    processes = [context.Process(target=_open, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert {path.read_text() for path in tmp_path.glob("*.digest")} == {store.digest}
    assert s3.server.requests("GET", f"{s3.folder}/toy.arrow") == 1  # it is smaller than a part
    assert len(copies()) == 1


def _open_and_die(uri: str, folder: Path) -> None:
    os.environ["HSEARCH_DATA"] = str(folder)

    def copy(source: object, path: Path, size: int, address: object) -> None:
        path.write_bytes(bytes(size))
        os.kill(os.getpid(), signal.SIGKILL)

    remote._copy = copy
    open_data(uri)


def test_what_a_killed_process_left_is_not_used_and_removed(place, store, other):
    uri = place.send(store.path)
    process = multiprocessing.get_context("spawn").Process(
        target=_open_and_die, args=(uri, data_folder())
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert any(path.suffix == ".tmp" for path in copies())
    place.send(other.path)  # another version, which gets another name
    assert open_data(uri).digest == other.digest
    assert [path.suffix for path in copies()] == [".arrow"]


def test_a_failed_fetch_leaves_nothing(place, store, monkeypatch):
    uri = place.send(store.path)

    def copy(source: object, path: Path, *_: object) -> NoReturn:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(remote, "_copy", copy)
        with pytest.raises(KeyboardInterrupt):
            open_data(uri)
    assert copies() == []
    assert open_data(uri).digest == store.digest


def test_a_changed_store_is_fetched_anew(place, store, other):
    uri = place.send(store.path)
    assert open_data(uri).digest == store.digest
    place.send(other.path)
    assert open_data(uri).digest == other.digest


def test_other_content_of_the_same_size_and_second_is_noticed(s3, store, tmp_path):
    uri = s3.send(store.path)
    first = open_data(uri)
    image = bytes(store.encoded(0))
    changed = tmp_path / "changed.arrow"
    changed.write_bytes(store.path.read_bytes().replace(image, image[:-1] + b"\0"))
    s3.send(changed)
    assert open_data(uri).path != first.path


def test_a_store_that_changes_while_it_is_fetched_is_not_used(place, store, other, monkeypatch):
    uri = place.send(store.path)
    copy = remote._copy

    def copy_and_change(*arguments: object) -> None:
        copy(*arguments)  # type: ignore[arg-type]
        place.send(other.path)

    with monkeypatch.context() as patch:
        patch.setattr(remote, "_copy", copy_and_change)
        with pytest.raises(DatasetError, match="changed while it was fetched; try again"):
            open_data(uri)
    assert copies() == []
    assert open_data(uri).digest == other.digest


def test_a_truncated_copy_is_not_used(place, store):
    uri = place.send(store.path)
    path = open_data(uri).path
    path.write_bytes(path.read_bytes()[:-100])
    assert open_data(uri).digest == store.digest
    assert path.read_bytes() == store.path.read_bytes()


def test_copies_stay_below_the_share_of_the_disk(place, store, monkeypatch):
    """Room for two: the one that was used least recently goes."""
    size = store.path.stat().st_size
    uris = [place.send(store.path, f"{name}.arrow") for name in "abc"]

    def usage(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(free=5 * size - sum(p.stat().st_size for p in copies()))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    for uri in (uris[0], uris[1], uris[0], uris[2]):
        open_data(uri)
        time.sleep(0.02)
    assert [path.name[0] for path in copies()] == ["a", "c"]


def test_copies_stay_below_the_limit_that_a_user_sets(place, store, monkeypatch):
    uris = [place.send(store.path, f"{name}.arrow") for name in "ab"]
    size = store.path.stat().st_size
    monkeypatch.setenv("HSEARCH_COPIES_GB", str(1.5 * size / 10**9))
    for uri in uris:
        open_data(uri)
        time.sleep(0.02)
    assert [path.name[0] for path in copies()] == ["b"]
    for limit, message in (("1e-9", "takes 1 MB, but HSEARCH_COPIES_GB"), ("x", "above 0, but is")):
        monkeypatch.setenv("HSEARCH_COPIES_GB", limit)
        with pytest.raises(DatasetError, match=message):
            open_data(uris[0])


def test_a_store_that_does_not_fit_the_disk_is_named(place, store, monkeypatch):
    uri = place.send(store.path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=100))
    with pytest.raises(DatasetError, match=r"takes 1 MB, but .* has 1 MB; make room, or set HSEA"):
        open_data(uri)
    assert copies() == []


def test_a_long_fetch_says_how_far_it_is(place, store, monkeypatch, caplog):
    monkeypatch.setattr(remote, "_LINE_SECONDS", 0)
    monkeypatch.setattr(remote, "_CHUNK", 1000)
    uri = place.send(store.path)
    assert open_data(uri).digest == store.digest
    assert f"fetching {uri}: 1 of 1 MB" in caplog.text


def interrupt(done: int, total: int) -> NoReturn:
    raise KeyboardInterrupt


def test_an_interrupted_sending_publishes_nothing(place, store, tmp_path):
    uri = place.send(store.path)
    big = tmp_path / "big"
    big.write_bytes(np.random.default_rng(0).bytes(BIG))
    with pytest.raises(KeyboardInterrupt):
        send(big, read_address(uri), interrupt)
    with pytest.raises(KeyboardInterrupt):
        send(big, read_address(place.uri("new.arrow")), interrupt)
    assert open_data(uri).digest == store.digest
    with pytest.raises(DatasetError, match="There is no store"):
        open_data(place.uri("new.arrow"))
    if place.kind == "file":
        assert [path.name for path in Path(place.folder).iterdir()] == ["toy.arrow"]


def _send_and_die(path: Path, uri: str) -> None:
    send(path, read_address(uri), lambda done, total: os.kill(os.getpid(), signal.SIGKILL))


def test_a_killed_sender_publishes_nothing(s3, tmp_path):
    big = tmp_path / "big"
    big.write_bytes(bytes(BIG))
    uri = s3.uri("new.arrow")
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_send_and_die, args=(big, uri))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    time.sleep(2)  # the process that writes has noticed by then
    with pytest.raises(DatasetError, match="There is no store"):
        open_data(uri)


def test_a_store_is_replaced_only_by_force(place, store):
    folder = place.uri("toy.arrow").replace("/toy.arrow", "")
    address = new_address(folder, "toy")
    assert str(address) == place.uri("toy.arrow")
    send(store.path, address)
    with pytest.raises(DatasetError, match="already; replace it with --force"):
        new_address(folder, "toy")
    assert new_address(folder, "toy", force=True) == address


def test_a_missing_store_is_named(place):
    with pytest.raises(DatasetError, match=r"There is no store .*none\.arrow.*check the address"):
        open_data(place.uri("none.arrow"))
    assert copies() == []


def test_a_folder_is_no_store(place, store):
    place.send(store.path, "folder.arrow/toy.arrow")
    with pytest.raises(DatasetError, match=r"A store is a file, but .* is a folder"):
        open_data(place.uri("folder.arrow"))
    with pytest.raises(DatasetError, match="is a folder"):
        new_address(place.uri("folder.arrow"), "toy")


def test_another_file_is_no_store(place, tmp_path):
    (tmp_path / "text").write_text("text")
    uri = place.send(tmp_path / "text")
    with pytest.raises(DatasetError, match="is not a store") as caught:
        open_data(uri)
    assert uri in str(caught.value)
    assert str(data_folder()) not in str(caught.value)
    assert copies() == []


def test_a_missing_bucket_is_named(s3_server, store):
    uri = s3_server.uri("none/toy.arrow")
    for use in (open_data, lambda uri: new_address(uri, "toy")):
        with pytest.raises(DatasetError, match=r"The bucket 'none' of .* does not exist"):
            use(uri)
    with pytest.raises(DatasetError, match=r"cannot be written: there is no such bucket\.$"):
        send(store.path, read_address(uri))


def test_denied_access_names_the_credentials_but_does_not_show_them(s3, store, monkeypatch):
    uri = s3.send(store.path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHUSH")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "HUSH")
    s3.server.request("POST", "moto-api/reset-auth", b"0")
    try:
        for use in (open_data, lambda uri: new_address(uri, "toy"), lambda _: s3.send(store.path)):
            with pytest.raises(
                DatasetError, match=r"access is denied.*AWS_ACCESS_KEY_ID"
            ) as caught:
                use(uri)
            assert "HUSH" not in str(caught.value)
    finally:
        s3.server.request("POST", "moto-api/reset-auth", b"1000000")


@pytest.mark.parametrize(("scheme", "silent"), [("s3", False), ("s3", True), ("gs", False)])
def test_an_absent_server_is_named_soon(monkeypatch, scheme, silent):
    monkeypatch.setattr(objects, "_SILENT_SECONDS", 1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()  # it takes connections, but says nothing
        options = f"endpoint_override=127.0.0.1:{listener.getsockname()[1]}&scheme=http"
        began = time.monotonic()
        with pytest.raises(
            DatasetError, match=r"cannot be read: its server does not answer; check the network"
        ):
            open_data(f"{scheme}://bucket/toy.arrow?{options}&anonymous=true")
    assert time.monotonic() - began < 20


def test_an_unreadable_file_is_named(tmp_path, monkeypatch):
    def refuse(address: object) -> NoReturn:
        raise PermissionError(13, "Permission denied", "file")

    monkeypatch.setattr(remote, "connect", refuse)
    with pytest.raises(DatasetError, match=r"cannot be read: Permission denied\.$"):
        open_data(f"file://{tmp_path}/toy.arrow")


def test_other_errors_are_cut_to_their_beginning(tmp_path, monkeypatch):
    def fail(address: object) -> NoReturn:
        raise OSError("word " * 100)

    monkeypatch.setattr(remote, "connect", fail)
    with pytest.raises(DatasetError) as caught:
        open_data(f"file://{tmp_path}/toy.arrow")
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


def test_the_data_folder_is_no_address(monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", "s3://bucket/folder")
    with pytest.raises(DatasetError, match="HSEARCH_DATA is a folder of this machine"):
        open_data("glyphs")


def test_copies_are_no_prepared_data(place, store):
    opened = open_data(place.send(store.path))
    assert isinstance(opened, Store)
    assert list(data_folder().glob("*.arrow")) == []
