"""A new SQLite store for every test, and a look into it that trusts nothing of hsearch."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsearch.tracking import tracker as tracker_module
from hsearch.tracking.writer import open_client

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow takes seconds to make its tables: once for all tests."""
    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    open_client(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def database(empty_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(empty_store, tmp_path / "mlflow.db"))


@pytest.fixture
def uri(database: Path) -> str:
    return f"sqlite:///{database}"


@pytest.fixture
def query(database: Path) -> Callable[[str], Rows]:
    def run(sql: str) -> Rows:
        connection = sqlite3.connect(database)
        try:
            with connection:  # which commits
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    return run


@pytest.fixture
def contents(query: Callable[[str], Rows]) -> Callable[[], dict[str, Rows]]:
    """Everything the store holds of active runs, by the run's name instead of its random id."""

    def read() -> dict[str, Rows]:
        active = "from runs r join {} x using (run_uuid) where r.lifecycle_stage = 'active'"
        select = {
            "runs": "select name, status, start_time from runs where lifecycle_stage = 'active'",
            "params": f"select r.name, x.key, x.value {active.format('params')}",
            "metrics": f"select r.name, x.key, x.step, x.value, x.timestamp "
            f"{active.format('metrics')}",
            "tags": f"select r.name, x.key, x.value {active.format('tags')} "
            "and x.key not like 'mlflow.%'",
        }
        return {table: sorted(query(sql)) for table, sql in select.items()}

    return read


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(tracker_module, "LONGEST_PAUSE", 1.0)
