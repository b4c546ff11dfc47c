"""The folder of one training run: what it holds, who may write it, and when it may be resumed.

job.json           what is trained
last.safetensors   everything needed to go on after the last finished epoch; of no use at the end
best.safetensors   the network of the best epoch so far
result.json        the FoldResult, once training has ended
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hsearch.addresses import P
from hsearch.errors import ConfigError, DatasetError, HsearchError
from hsearch.files import write_whole
from hsearch.results import FoldResult
from hsearch.spec import FoldJob, Spec


class RunFolder:
    """Paths and guarded access of a run's folder.

    Args:
        path: Created when the run is claimed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job, self.result = path / "job.json", path / "result.json"
        self.last, self.best = path / "last.safetensors", path / "best.safetensors"

    @contextmanager
    def claimed(self, job: FoldJob, patience: float = 0.0) -> Iterator[None]:
        """Holds the folder for one writer and one job; another writer or job is refused.

        Args:
            job: What is trained.
            patience: Seconds to wait for another writer, such as one that is being ended.
        """
        created = not self.path.exists()
        self._refuse_foreign_files()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"The run folder {self.path} cannot be made: {error}.") from error
        with open(self.path / ".lock", "a+", encoding="utf-8") as lock:
            if not _lock(lock, patience):
                lock.seek(0)
                raise ConfigError(
                    f"Another run (process {lock.read().strip()}) is writing to {self.path}; wait "
                    "for it, or give another folder with `--out`."
                )
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self._accept(job)
            try:
                yield
            except HsearchError:
                self._leave_if_nothing_was_trained(created)
                raise

    def _accept(self, job: FoldJob) -> None:
        if not self.job.exists():
            write_json(self.job, job)
            return
        check_same_job(read_job(self.path), job, str(self.path))

    def _refuse_foreign_files(self) -> None:
        if self.path.is_dir() and not self.job.exists():
            others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if others:
                raise ConfigError(
                    f"{self.path} holds other files ({others[0]}, ...) and no hsearch run; give a "
                    "new or empty folder with `--out`."
                )

    def _leave_if_nothing_was_trained(self, created: bool) -> None:
        if not self.last.exists() and not self.result.exists():
            self.job.unlink(missing_ok=True)
            (self.path / ".lock").unlink(missing_ok=True)
            if created:
                with suppress(OSError):
                    self.path.rmdir()

    def remove_state(self) -> None:
        """Removes what only a training that goes on needs, most of the folder's size.

        For who needs the network and its result alone, once training has ended.
        """
        if self.result.exists():
            self.last.unlink(missing_ok=True)

    def finished(self) -> FoldResult | None:
        """Returns the result if training has ended."""
        return FoldResult.from_dict(_read_json(self.result)) if self.result.exists() else None


def _lock(file: IO[str], patience: float) -> bool:
    """Locks a file; False if another process holds it for longer than `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.2)
        else:
            return True


def check_same_job(held: FoldJob, job: FoldJob, place: str) -> None:
    """Raises if a place holds a run of another job."""
    different = held.differences(job).keys()
    if different == {"data_digest"}:
        raise ConfigError(
            f"The data set '{job.data}' has changed since the run in {place} began; give another "
            "folder with `--out` to train on the new data."
        )
    if different:
        raise ConfigError(
            f"{place} holds a run with other settings ({', '.join(sorted(different))}); repeat "
            "those to resume it, or give another folder with `--out`."
        )


def trial_name(trial: int) -> str:
    """Returns how the folder of a trial is called in the study's."""
    return f"trial-{trial:04d}"


def fold_folder(study: P, trial: int, fold: int) -> P:
    """Returns where a search trains one fold of a trial, in the study's place."""
    return study / trial_name(trial) / f"fold-{fold}"


def read_job(path: Path) -> FoldJob:
    """Returns the job of a run's folder."""
    file = path / "job.json"
    if not file.exists():
        raise DatasetError(f"{path} is not a folder that `hsearch train` has written: no job.json.")
    return FoldJob.from_dict(_read_json(file))


def write_json(path: Path, value: Spec) -> None:
    """Writes a value as indented JSON, atomically."""
    write_whole(path, (json.dumps(value.to_dict(), indent=2) + "\n").encode())


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
