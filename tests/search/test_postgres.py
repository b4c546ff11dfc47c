"""The same record on a real PostgreSQL."""

import time
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from hsearch.errors import ConfigError
from hsearch.search.lease import Lease
from hsearch.search.study import Study, study_names
from tests.search.made_study import SPACE, kill_a_driver, made_spec, outcome, search
from tests.search.postgres import PASSWORD, Postgres, running_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def server(postgres) -> str:
    url: str = postgres.url
    return url


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> list[tuple[object, ...]]:
    """The table of an uninterrupted search on SQLite."""
    path = str(tmp_path_factory.mktemp("whole") / "studies.db")
    with closing(Study.open("s", path, made_spec(), SPACE)) as study:
        return outcome(search(study, 10))


def test_a_killed_search_on_postgres_ends_in_the_table_of_sqlite(server, expected):
    for trials in (2, 6):
        kill_a_driver(server, trials)
    with closing(Study.open("s", server, made_spec(), SPACE)) as study, Lease(study):
        assert outcome(search(study, 10)) == expected
        study.note_run("a run", 3)
        with closing(Study.load("s", server)) as reader:
            assert reader.record() == study.record()
            with pytest.raises(ConfigError, match="is in the hands of process"):
                Lease(reader).acquire()
    assert study_names(server) == ["s"]


def test_what_postgres_refuses_is_said_without_the_password(server):
    for wrong in (server.replace(PASSWORD, "WRONG"), server.replace("/postgres", "/nosuch")):
        with pytest.raises(ConfigError, match=r"hsearch:\*\*\*@127.0.0.1") as caught:
            Study.load("s", wrong)
        assert PASSWORD not in str(caught.value)
        assert "WRONG" not in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_a_driver_waits_for_a_server_that_is_restarted(postgres, server):
    def come_back() -> None:
        time.sleep(2)
        postgres.start()

    with closing(Study.open("restarted", server, made_spec(), SPACE)) as study, Lease(study):
        study.propose()
        postgres.end()
        back = Thread(target=come_back)
        back.start()
        study.propose()
        back.join()
        assert len(study.record().trials) == 2
    with closing(Study.load("restarted", server)) as reader:
        assert len(reader.record().trials) == 2
