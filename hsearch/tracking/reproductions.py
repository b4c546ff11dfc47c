"""Reproductions in MLflow: their runs below the study's, and the means over them on it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from hsearch.addresses import Place
from hsearch.data.places import children, local_copy
from hsearch.errors import HsearchError
from hsearch.intervals import mean_of
from hsearch.results import Metrics, TestedKind, score_of
from hsearch.search.record import StudyRecord
from hsearch.search.reproduced import PICTURES, ReproductionRecord, RunRecord, run_name
from hsearch.tracking.address import without_credentials
from hsearch.tracking.failure import reason_of
from hsearch.tracking.points import (
    TEST,
    TEST_CLASSIC,
    Point,
    fold_points,
    milliseconds,
    points_of,
)
from hsearch.tracking.projection import (
    NOTE,
    PARAM_LENGTH,
    STUDY,
    TAG_LENGTH,
    RunView,
    common_tags,
    cut,
    experiment_name,
    job_params,
    short_command,
    study_id,
    study_view,
)
from hsearch.tracking.tables import tested_file, tested_table
from hsearch.tracking.writer import Writer, open_client
from hsearch.training.folder import RunFolder
from hsearch.training.kept import local_runs

_KINDS: tuple[TestedKind, ...] = ("separated", "concatenated")
_STATUS = {"complete": "FINISHED", "failed": "FAILED", "running": "RUNNING"}


class Study(Protocol):
    """What is needed of a study."""

    def record(self) -> StudyRecord:
        """Returns it as it is now."""


class Reproduction(Protocol):
    """What is needed of a reproduction."""

    def record(self) -> ReproductionRecord:
        """Returns it as it is now."""

    def note_run(self, run_id: str, number: int) -> None:
        """Keeps the id of MLflow's run."""


class ReproductionTracker:
    """Brings MLflow up to the record of a reproduction, whenever it is told to.

    Args:
        study: The search.
        reproduction: Its reproduction.
        uri: MLflow's address, see `checked_uri`; None writes nothing.
        runs: Holds the folder of every run.
        models: Whether to log its networks, beside its pictures.

    Attributes:
        behind: Why MLflow does not show everything, in a sentence; None if it does.
    """

    def __init__(
        self,
        study: Study,
        reproduction: Reproduction,
        uri: str | None,
        runs: Place,
        *,
        models: bool = True,
    ) -> None:
        self._study, self._reproduction = study, reproduction
        self._uri, self._runs, self._models = uri, runs, models
        self.behind: str | None = None

    def bring_up(self) -> bool:
        """Writes what is missing; returns whether that worked."""
        if self._uri is None:
            return True
        try:
            self._write(self._uri, self._study.record(), self._reproduction.record())
        except Exception as error:  # noqa: BLE001 (artifact stores raise errors of their own kinds)
            where = without_credentials(self._uri)
            self.behind = (
                f"MLflow ({where}) does not show all runs yet: {reason_of(error)}. The same "
                "command writes what is missing."
            )
            return False
        self.behind = None
        return True

    def _write(self, uri: str, study: StudyRecord, record: ReproductionRecord) -> None:
        """Writes all numbers first, then files, which may be large or lost."""
        noted = {*record.run_ids.values(), study.run_id or ""}
        experiment = experiment_name(study.spec.job)
        writer = Writer(open_client(uri), uri, experiment, study_id(study), noted)
        writer.write(_summary_view(study, record, writer))
        if record.complete:
            writer.offer_studies(tested=True)
        if record.complete or record.floor:
            writer.write_table(tested_file(record), tested_table(record))
        views = [run_view(study, record, run) for run in record.runs if run.state != "running"]
        _remove_others(writer, record)
        for run, view in zip((r for r in record.runs if r.state != "running"), views, strict=True):
            run_id = writer.write(view)
            if record.run_ids.get(run.number) != run_id:
                self._reproduction.note_run(run_id, run.number)
        for run in record.complete:
            self._write_files(writer, record, run)

    def _write_files(self, writer: Writer, record: ReproductionRecord, run: RunRecord) -> None:
        folder, key = self._runs / run_name(run.number), run_key(record, run.number)
        if any(name.endswith(".png") for name in children(folder / PICTURES)):
            writer.write_files(key, PICTURES, _pictures(folder / PICTURES))
        for fold in record.spec.folds if self._models else ():
            writer.write_files(
                key, f"model/fold-{fold}", _network(folder / f"fold-{fold}", run.number)
            )


def _pictures(place: Place) -> Iterator[Path]:
    """Yields files, of which those elsewhere are fetched only if they are asked for."""
    with local_copy(place, "*.png") as folder:
        yield from sorted(folder.glob("*.png"))


def _network(place: Place, run: int) -> Iterator[Path]:
    """Yields the files that a network can be used again with; as `_pictures` else."""
    with local_runs([place]) as (folder,):
        files = RunFolder(folder).best, RunFolder(folder).job
        if not all(file.is_file() for file in files):
            raise HsearchError(f"the networks of run {run} are no longer in {place}")
        yield from files


def run_key(record: ReproductionRecord, number: int) -> str:
    """Returns what tells a run from all others of its study, also from one begun anew."""
    return f"{_prefix(record)}{record.token}-{number}"


def _prefix(record: ReproductionRecord) -> str:
    return f"reproduce-{record.spec.protocol}-"


def _remove_others(writer: Writer, record: ReproductionRecord) -> None:
    """Removes the runs of a reproduction that was forgotten."""
    prefix = _prefix(record)
    for key in writer:
        if key.startswith(prefix) and not key.startswith(f"{prefix}{record.token}-"):
            writer.remove(key)


def run_view(study: StudyRecord, record: ReproductionRecord, run: RunRecord) -> RunView:
    """Returns the MLflow run of one run of a reproduction."""
    spec, key = record.spec, run_key(record, run.number)
    command = record.command or f"hsearch reproduce {spec.study}"
    tags = {
        **common_tags(study, spec.job_of(run.number, spec.folds[0]), key, record.versions),
        "hsearch.protocol": spec.protocol,
        "hsearch.kind": "reproduction",
        "hsearch.trial": str(spec.trial),
        "hsearch.run": str(run.number),
        "hsearch.state": run.state,
        "hsearch.command": command,
        NOTE: f"Trial {spec.trial} of {spec.study} with seed {run.seed}, {spec.protocol}, on the "
        f"test images, made with {short_command(command)}.",
        **({"hsearch.reason": run.reason} if run.reason else {}),
    }
    return RunView(
        key=key,
        name=f"{run_name(run.number)} of {study.name} ({spec.protocol})",
        tags=cut(tags, TAG_LENGTH),
        params=cut(job_params(spec.job_of(run.number, spec.folds[0])), PARAM_LENGTH),
        points=sorted(_run_points(record, run), key=lambda point: point.step),
        status=_STATUS[run.state],  # type: ignore[arg-type]
        started=milliseconds(run.started),
        ended=None if run.ended is None else milliseconds(run.ended),
    )


def _run_points(record: ReproductionRecord, run: RunRecord) -> Iterator[Point]:
    for fold, result in run.folds.items():
        yield from fold_points(run.started, fold, result)
    if run.tested is not None:
        time = milliseconds(run.ended or run.started)
        found = {kind: m for kind in _KINDS if (m := run.tested.metrics(kind)) is not None}
        scores = {_score_name(record, kind): _score(record, m) for kind, m in found.items()}
        yield from points_of(scores, step=0, time=time)
        for kind, metrics in found.items():
            yield from points_of(_named(record, kind, metrics), step=0, time=time)


def _summary_view(study: StudyRecord, record: ReproductionRecord, writer: Writer) -> RunView:
    """The study's run with the score over all complete runs, which grows in steps of runs.

    Steps of a reproduction that was begun anew follow those of the one before, whose numbers MLflow
    would show otherwise.
    """
    view = study_view(study, writer.status(STUDY))
    complete = record.complete
    values = _summary(record)
    tag = f"hsearch.reproduction.{record.spec.protocol}"
    token, _, first = (writer.tags(STUDY).get(tag) or " 0").partition(" ")
    if token != record.token:
        first = str(1 + max((writer.last_step(STUDY, name) for name in values), default=-1))
    ended = max((run.ended or run.started for run in complete), default=study.trials[0].started)
    step = int(first) + len(complete)
    points = [*view.points, *points_of(values, step=step, time=milliseconds(ended))]
    return replace(view, points=points, tags={**view.tags, tag: f"{record.token} {first}"})


def _summary(record: ReproductionRecord) -> dict[str, float | None]:
    """What decides: mean and interval over the runs of the objective, and the floor."""
    found: dict[str, float | None] = {}
    for kind in _KINDS:
        tests = [run.tested.metrics(kind) for run in record.complete if run.tested]
        scores = [_score(record, metrics) for metrics in tests if metrics is not None]
        if scores:
            mean, name = mean_of(scores), _score_name(record, kind)
            found[name] = mean.mean
            if kind == "separated":
                found |= {f"{name}_low": mean.low, f"{name}_high": mean.high}
    if record.floor:
        found[f"{_score_name(record, 'separated')}_floor"] = _score(record, record.floor)
    return found


def _score(record: ReproductionRecord, metrics: Metrics) -> float:
    return score_of(metrics, record.spec.objective(metrics))


def _score_name(record: ReproductionRecord, kind: TestedKind) -> str:
    """Returns `score/test`, or `score/test_classic`; a classic reproduction has one network."""
    name = TEST_CLASSIC if record.spec.protocol == "classic" else TEST
    return name if kind == "separated" else f"{name}_concatenated"


def _named(
    record: ReproductionRecord, kind: TestedKind, values: Mapping[str, float]
) -> dict[str, float]:
    """Names such as `test/separated/map_at_r`; the classic protocol has one network."""
    place = "classic" if record.spec.protocol == "classic" else kind
    return {f"test/{place}/{name}": value for name, value in values.items()}
