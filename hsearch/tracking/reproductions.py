"""Reproductions in MLflow: their runs below the study's, and the means over them on it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from hsearch.results import Metrics, TestedKind
from hsearch.search.record import StudyRecord
from hsearch.search.reproduced import PICTURES, ReproductionRecord, RunRecord, run_name
from hsearch.tracking.address import without_credentials
from hsearch.tracking.failure import reason_of
from hsearch.tracking.points import Point, fold_points, milliseconds, points_of
from hsearch.tracking.projection import (
    NOTE,
    PARAM_LENGTH,
    STUDY,
    TAG_LENGTH,
    RunView,
    Status,
    common_tags,
    cut,
    experiment_name,
    job_params,
    study_id,
    study_view,
)
from hsearch.tracking.writer import Writer, open_client

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
        runs: Path,
        *,
        models: bool = True,
    ) -> None:
        self._study, self._reproduction = study, reproduction
        self._uri, self._runs, self._models = uri, runs, models
        self._written: set[int] = set()
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
        noted = {*record.run_ids.values(), study.run_id or ""}
        experiment = experiment_name(study.spec.job)
        writer = Writer(open_client(uri), uri, experiment, study_id(study), noted)
        writer.write(_summary_view(study, record, writer.status(STUDY)))
        for run in record.runs:
            if run.state == "running" or run.number in self._written:
                continue
            view = run_view(study, record, run)
            run_id = writer.write(view)
            if record.run_ids.get(run.number) != run_id:
                self._reproduction.note_run(run_id, run.number)
            if self._models and run.state == "complete":
                for fold in record.spec.folds:
                    place = self._runs / run_name(run.number) / f"fold-{fold}"
                    files = [place / "best.safetensors", place / "job.json"]
                    writer.write_files(view.key, f"model/fold-{fold}", files)
            pictures = sorted((self._runs / run_name(run.number) / PICTURES).glob("*.png"))
            if pictures:
                writer.write_files(view.key, PICTURES, pictures)
            self._written.add(run.number)


def run_view(study: StudyRecord, record: ReproductionRecord, run: RunRecord) -> RunView:
    """Returns the MLflow run of one run of a reproduction."""
    spec = record.spec
    key = f"reproduce-{spec.protocol}-{run.number}"
    tags = {
        **common_tags(study, spec.job_of(run.number, spec.folds[0]), key, record.versions),
        "hsearch.protocol": spec.protocol,
        "hsearch.kind": "reproduction",
        "hsearch.trial": str(spec.trial),
        "hsearch.run": str(run.number),
        "hsearch.state": run.state,
        NOTE: f"`hsearch reproduce {spec.study} --protocol {spec.protocol}`, run "
        f"{run.number}: trial {spec.trial} with seed {run.seed}, on the test classes.",
        **({"hsearch.reason": run.reason} if run.reason else {}),
    }
    return RunView(
        key=key,
        name=f"{study.name}/{spec.protocol}/{run_name(run.number)}",
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
        for kind in _KINDS:
            metrics = run.tested.metrics(kind) or {}
            yield from points_of(_named(record, kind, metrics), step=0, time=time)


def _summary_view(study: StudyRecord, record: ReproductionRecord, status: Status) -> RunView:
    """The study's run with the means over all complete runs, which grow in steps of runs."""
    view = study_view(study, status)
    complete = record.complete
    values: dict[str, float | None] = {}
    for kind in _KINDS:
        means = record.means(kind)
        for statistic in ("mean", "std", "low", "high"):
            found = {name: getattr(mean, statistic) for name, mean in means.items()}
            values |= _named(record, kind, found, _PREFIXES[statistic])
    time = milliseconds(max((run.ended or run.started for run in complete), default=0.0))
    points = [
        *view.points,
        *points_of(_floor(record), step=0, time=time or view.started),
        *points_of(values, step=len(complete), time=time),
    ]
    return replace(view, points=points)


_PREFIXES = {"mean": "mean/", "std": "std/", "low": "ci95_low/", "high": "ci95_high/"}


def _floor(record: ReproductionRecord) -> Metrics:
    return {f"floor/test/{name}": value for name, value in (record.floor or {}).items()}


def _named(
    record: ReproductionRecord, kind: str, values: Mapping[str, float | None], prefix: str = ""
) -> dict[str, float | None]:
    """Names such as `mean/test/separated/map_at_r`; the classic protocol has one network."""
    place = "classic" if record.spec.protocol == "classic" else kind
    return {f"{prefix}test/{place}/{name}": value for name, value in values.items()}
