"""Runs whose files are kept at an address, while they are trained in a folder of this machine.

job.json                what is trained
last-0007.safetensors   everything needed to go on after epoch 7
best-0004.safetensors   the network of the best epoch by then
result.json             the FoldResult, once training has ended; `last` is gone then

Every process puts its own files, so that a result always stands beside the network that it is of,
also where a training that is repeated differs a little, as on a GPU. Of a machine that was cut off
and the one that goes on in its place, the later one to finish leaves its files.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import hsearch.distributed as distributed
from hsearch.addresses import Address, Place
from hsearch.data.objects import Objects
from hsearch.errors import ConfigError, DatasetError, HsearchError
from hsearch.results import EpochRecord, FoldResult, Metrics
from hsearch.scratch import scratch
from hsearch.spec import FoldJob
from hsearch.training.best import best_record
from hsearch.training.checkpoint import read_notes
from hsearch.training.folder import RunFolder, check_same_job
from hsearch.training.loop import Report

Train = Callable[[FoldJob, Report, RunFolder], FoldResult]
"""What trains a fold: `train_fold`, or what a benchmark puts in its place."""


def train_kept(job: FoldJob, report: Report, address: Address, train: Train) -> FoldResult:
    """Trains a job to its end; every rank calls this, and has a folder of its own.

    An epoch is reported once its files are at the address, from which any machine can go on.
    """
    with scratch("run") as path:
        run = _KeptRun(job, address, RunFolder(path))
        run.bring()
        result = train(job, _Keeping(report, run), run.folder)
        if distributed.rank() == 0:
            run.finish(result)
        return result


class _KeptRun:
    """A run at an address, and the folder in which it is trained here."""

    def __init__(self, job: FoldJob, address: Address, folder: RunFolder) -> None:
        self.job, self.folder = job, folder
        self.objects = Objects(address, patient=True)
        self._same: set[str] = set()  # objects that are as the files here are

    def bring(self) -> None:
        """Fetches what is needed to go on, on every rank; rank 0 decides from where."""
        if distributed.rank() == 0:
            self._accept()
        names = distributed.share_object(self._start() if distributed.rank() == 0 else [])
        self._same.update(names)
        if distributed.rank() > 0:
            for name in names:
                if not self.objects.fetch(name, self._path(name)):
                    raise DatasetError(f"{self.objects.address / name} is gone.")

    def keep(self, epoch: int) -> None:
        """Puts the files of the folder to the address; older ones go when the newer are there."""
        there = self.objects.names()
        best = self._put_best()
        self._put(_name("last", epoch), self.folder.last)
        self._remove(there, "last", lambda number: number < epoch)
        self._remove(there, "best", lambda number: best is not None and number < best)

    def finish(self, result: FoldResult) -> None:
        """Leaves the job, its result and its best network at the address."""
        there = self.objects.names()
        self._put_best()
        self._put(self.folder.result.name, self.folder.result)
        self._remove(there, "last", lambda number: True)
        self._remove(there, "best", lambda number: number != result.best_epoch)

    def _put_best(self) -> int | None:
        """Puts the best network of the folder, if there is one, and returns its epoch."""
        if not self.folder.best.exists():
            return None
        epoch: int = read_notes(self.folder.best)["history"][0]["epoch"]
        self._put(_name("best", epoch), self.folder.best)
        return epoch

    def _put(self, name: str, path: Path) -> None:
        if name not in self._same:
            self.objects.put(name, path)
            self._same.add(name)

    def _remove(self, there: list[str], kind: str, unwanted: Callable[[int], bool]) -> None:
        for number, name in _numbered(there, kind).items():
            if unwanted(number):
                self.objects.remove(name)

    def _accept(self) -> None:
        """Raises if the address holds another job."""
        name = self.folder.job.name
        text = _json(self.objects.read(name))
        if text is None:
            self.objects.put(name, (json.dumps(self.job.to_dict(), indent=2) + "\n").encode())
            return
        try:
            check_same_job(FoldJob.from_dict(text), self.job, str(self.objects.address))
        except ConfigError as error:  # nothing that a trial has brought about
            raise DatasetError(str(error)) from error

    def _start(self) -> list[str]:
        """Fetches the result, or the newest state that is whole; returns the names of the files."""
        there = self.objects.names()
        result = self._result()
        if result is not None and _name("best", result.best_epoch) in there:
            self.objects.fetch(self.folder.result.name, self.folder.result)
            return [self.folder.result.name]
        states = _numbered(there, "last")
        for number in sorted(states, reverse=True):
            if (names := self._state(states[number])) is not None:
                return names
        return []

    def _state(self, last: str) -> list[str] | None:
        """Fetches a state with the best network that its history names; None if one is not whole.

        Training itself makes the best network anew where that is of the state's own epoch.
        """
        if (notes := self._fetch_whole(last)) is not None:
            history = [EpochRecord.from_dict(record) for record in notes]
            best = _name("best", (best_record(self.job, history) or history[-1]).epoch)
            if self._fetch_whole(best) is not None:
                return [last, best]
            if best == _name("best", history[-1].epoch):
                return [last]
        self.folder.last.unlink(missing_ok=True)
        return None

    def _fetch_whole(self, name: str) -> list[object] | None:
        """Fetches a checkpoint and returns its history; a broken one is removed, and None."""
        if not self.objects.fetch(name, self._path(name)):
            return None
        try:
            history: list[object] = read_notes(self._path(name))["history"]
        except DatasetError:
            self._path(name).unlink()
            self.objects.remove(name)
            return None
        return history

    def _result(self) -> FoldResult | None:
        text = _json(self.objects.read(self.folder.result.name))
        return None if text is None else FoldResult.from_dict(text)

    def _path(self, name: str) -> Path:
        """Where an object lies in the folder: under its name without the number."""
        return self.folder.path / re.sub(r"-\d+\.", ".", name)


class _Keeping(Report):
    """Puts every epoch to the address before it is reported."""

    def __init__(self, report: Report, run: _KeptRun) -> None:
        self._report, self._run = report, run

    def features(self, done: int, total: int) -> None:
        """Passes it on."""
        self._report.features(done, total)

    def floor(self, folds: Sequence[Metrics]) -> None:
        """Passes it on."""
        self._report.floor(folds)

    def iteration(self, epoch: int, done: int, total: int) -> None:
        """Passes it on."""
        self._report.iteration(epoch, done, total)

    def epoch(self, record: EpochRecord) -> None:
        """Passes it on once its files are kept."""
        self._run.keep(record.epoch)
        self._report.epoch(record)

    def must_pause(self) -> bool:
        """Passes it on."""
        return self._report.must_pause()


def has_network(place: Place) -> bool:
    """Returns whether a run has the network of a best epoch."""
    if isinstance(place, Path):
        return RunFolder(place).best.exists()
    return bool(_numbered(Objects(place).names(), "best"))


@contextmanager
def local_runs(places: Sequence[Place]) -> Iterator[list[Path]]:
    """Gives the folders of runs, during the context: the places, or copies of those elsewhere."""
    with ExitStack() as stack:
        found = {str(place): stack.enter_context(_local_run(place)) for place in places}
        yield [found[str(place)] for place in places]


@contextmanager
def local_folds(place: Place, folds: Iterable[int]) -> Iterator[Path]:
    """Gives the folder that holds the runs `fold-K`, or a copy of one elsewhere.

    What is written to the copy beside the runs is put to the address at the end, by rank 0.
    """
    if isinstance(place, Path):
        yield place
        return
    with scratch("test") as folder:
        for fold in folds:
            fetch_run(place / f"fold-{fold}", folder / f"fold-{fold}", patient=True)
        yield folder
        if distributed.rank() == 0:
            objects = Objects(place, patient=True)
            for path in sorted(folder.rglob("*")):
                name = path.relative_to(folder).as_posix()
                if path.is_file() and not name.startswith("fold-"):
                    objects.put(name, path)


def fetch_run(address: Address, path: Path, *, patient: bool = False) -> None:
    """Makes a folder as `hsearch train` writes it of the run at an address.

    Args:
        address: Of the run.
        path: Of the folder.
        patient: See `Objects`.
    """
    objects, folder = Objects(address, patient=patient), RunFolder(path)
    if not objects.fetch(folder.job.name, folder.job):
        raise DatasetError(f"{address} is not where a search keeps a run: no {folder.job.name}.")
    objects.fetch(folder.result.name, folder.result)
    if networks := _numbered(objects.names(), "best"):
        objects.fetch(networks[max(networks)], folder.best)


@contextmanager
def _local_run(place: Place) -> Iterator[Path]:
    if isinstance(place, Path):
        yield place
        return
    with scratch("run") as folder:
        try:
            fetch_run(place, folder)
            yield folder
        except HsearchError as error:
            error.args = (str(error).replace(str(folder), str(place)),)
            raise


def _name(kind: str, epoch: int) -> str:
    return f"{kind}-{epoch:04d}.safetensors"


def _numbered(names: Iterable[str], kind: str) -> dict[int, str]:
    """Returns the checkpoints of a kind among some names, by their epoch."""
    found = [re.fullmatch(rf"{kind}-(\d+)\.safetensors", name) for name in names]
    return {int(match[1]): match[0] for match in found if match}


def _json(content: bytes | None) -> object:
    """Reads an object; None where there is none, or one that is broken."""
    try:
        return None if content is None else json.loads(content)
    except ValueError:
        return None
