"""The files of an MLflow store on this machine, and whether only hsearch has written to it."""

from pathlib import Path

from hsearch.tracking.address import database_file
from hsearch.tracking.projection import EXPERIMENTS
from hsearch.tracking.writer import open_client

_DEFAULT = "0"  # the id of the experiment that every store has


def local_files(uri: str) -> list[Path]:
    """Returns the database of a store, and the folders of its artifacts, as far as they are there.

    Args:
        uri: MLflow's address, see `checked_uri`; a server's has no files here.
    """
    database = database_file(uri)
    if database is None or not database.is_file():
        return []
    sidecars = [database.with_name(f"{database.name}-{kind}") for kind in ("wal", "shm", "journal")]
    folders = [database.parent / "mlruns" / EXPERIMENTS, database.parent / "mlartifacts"]
    return [database, *(path for path in [*sidecars, *folders] if path.exists())]


def other_experiments(uri: str) -> list[str]:
    """Returns the names of the experiments of a store that somebody else has made or used."""
    client = open_client(uri)
    found = [
        each
        for each in client.search_experiments()
        if not each.name.startswith(EXPERIMENTS)
        and (each.experiment_id != _DEFAULT or client.search_runs([_DEFAULT], max_results=1))
    ]
    return sorted(each.name for each in found)
