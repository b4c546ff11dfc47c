"""The same record on a real PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from hsearch.errors import ConfigError
from hsearch.search.lease import Lease
from hsearch.search.study import Study, study_names
from tests.search.made_study import SPACE, kill_a_driver, made_spec, outcome, search
from tests.search.postgres import PASSWORD, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


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
