"""Opening the database of studies."""

import sqlite3
import threading
from contextlib import closing

import pytest

from hsearch.errors import ConfigError
from hsearch.search.study import Study
from tests.search.made_study import (
    SPACE,
    made_spec,
    search,
)


def test_storages_that_cannot_be_used_are_said_in_a_sentence_without_the_password(tmp_path):
    (tmp_path / "text.db").write_text("no database\n" * 100)
    cases = {
        str(tmp_path / "no" / "x.db"): "folder of the storage .* does not exist",
        str(tmp_path): "is a folder",
        str(tmp_path / "text.db"): "file is not a database",
        "postgresql://u:SECRET@127.0.0.1:1/x": r"u:\*\*\*@127.0.0.1:1/x cannot be opened",
        "nosuch://u:SECRET@host/x": "cannot be opened",
        "mysql+mysqldb://u:SECRET@host/x": "needs a database driver",
        "postgresql://u:SECRET@host:port/x": "cannot be read",
        "sqlite://": "must outlive",
    }
    for storage, message in cases.items():
        with pytest.raises(ConfigError, match=message) as caught:
            Study.open("s", storage, made_spec(), SPACE)
        assert "SECRET" not in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    for missing in (tmp_path / "missing.db", tmp_path / "no" / "x.db"):
        with pytest.raises(ConfigError, match="There is no storage"):
            Study.load("s", str(missing))
        assert not missing.exists()


def test_a_plain_path_and_its_url_are_the_same_storage(opened, storage):
    opened().propose()
    with closing(Study.load("s", f"sqlite:///{storage}")) as study:
        assert len(study.record().trials) == 1


def test_readers_and_the_driver_never_find_the_file_locked(opened, storage):
    study = opened(made_spec(race=False, sampler="random"))
    ended = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        try:
            with closing(Study.load("s", storage)) as reader:
                while not ended.is_set():
                    assert len(reader.record().trials) <= 12
        except BaseException as error:  # noqa: BLE001 (told to the test's own thread)
            failures.append(error)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    search(study, 12)
    ended.set()
    for reader in readers:
        reader.join()
    assert failures == []
    with closing(sqlite3.connect(storage)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
