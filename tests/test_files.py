import errno
import multiprocessing
import os
import time

import pytest

from hsearch.files import locked, replacing


def test_a_replaced_file_appears_whole(tmp_path):
    path = tmp_path / "sub" / "file"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "error", [ValueError(), KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]
)
def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_at_the_last_moment_leaves_nothing(tmp_path, monkeypatch):
    """File systems that reserve space late report it only when the file is synced."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"), replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with replacing(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def _add_one(folder):
    for _ in range(20):
        with locked(folder / ".lock"):
            count = int((folder / "count").read_text())
            time.sleep(0.001)
            (folder / "count").write_text(str(count + 1))


def test_processes_take_turns_and_leave_no_lock(tmp_path):
    (tmp_path / "count").write_text("0")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_one, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "count").read_text() == "60"
    assert [path.name for path in tmp_path.iterdir()] == ["count"]
