"""Studies and reproductions with known scores that nothing was trained for."""

from collections.abc import Mapping, Sequence

import numpy as np

from hsearch.evaluation.query_table import QueryTable
from hsearch.folds import NUM_FOLDS
from hsearch.report.entrant import Entrant
from hsearch.results import Metrics, Tested
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord
from hsearch.search.reproduced import (
    Protocol,
    ReproductionRecord,
    ReproductionSpec,
    RunRecord,
)
from hsearch.spec import FoldJob
from tests.search.made_results import made_job, made_result

ROWS = np.arange(100, 140)


def made_metrics(score: float) -> Metrics:
    """Three metrics of which the first is the score; of the last, less is better."""
    return {"map_at_r": score, "precision_at_1": score + 0.1, "h_violations": 1 - score}


def made_study(
    method: str, *, name: str | None = None, trials: int = 3, job: FoldJob | None = None
) -> StudyRecord:
    """A study whose trial 1 is the best."""
    job = job or made_job(method)
    records = []
    for number in range(trials):
        folds = {
            fold: made_result(job.model_copy(update={"fold": fold}), 0.6 if number == 1 else 0.5)
            for fold in range(NUM_FOLDS)
        }
        records.append(
            TrialRecord(
                number=number,
                state="complete",
                source="tpe",
                knobs={},
                job=job,
                folds=folds,
                started=0.0,
                ended=1.0,
            )
        )
    spec = StudySpec(job=job, space={"optimizer.lr.proxies": "0.0001 to 1, log"})
    return StudyRecord(name=name or f"made-{method}", spec=spec, trials=tuple(records))


def made_run(number: int, job: FoldJob, score: float, protocol: Protocol) -> RunRecord:
    """A complete run; its networks differ by 0.01 around the score and are better joined."""
    classic = protocol == "classic"
    folds = (NUM_FOLDS,) if classic else tuple(range(NUM_FOLDS))
    offsets = (0.0,) if classic else (-0.01, 0.01, -0.01, 0.01)
    job = job.model_copy(update={"seed": job.seed + number})
    return RunRecord(
        number=number,
        seed=job.seed,
        state="complete",
        folds={f: made_result(job.model_copy(update={"fold": f}), score) for f in folds},
        tested=Tested(
            models=tuple(made_metrics(score + offset) for offset in offsets),
            concatenated=None if classic else made_metrics(score + 0.05),
            queries=len(ROWS),
        ),
        started=0.0,
        ended=1.0,
    )


def made_queries(scores: Sequence[float], liking: float) -> dict[int, Mapping[str, QueryTable]]:
    """Tables of runs whose means are the scores; a method's liking of queries has mean 0."""
    pattern = liking * np.cos(np.arange(len(ROWS)) * np.pi)
    found: dict[int, Mapping[str, QueryTable]] = {}
    for run, score in enumerate(scores):
        found[run] = {
            kind: QueryTable(ROWS, {"map_at_r": (score + more + pattern).astype(np.float32)})
            for kind, more in (("separated", 0.0), ("concatenated", 0.05))
        }
    return found


def made_entrant(
    method: str,
    scores: Sequence[float],
    *,
    study: StudyRecord | None = None,
    protocol: Protocol = "cross-validated",
    queries: bool = True,
    liking: float = 0.01,
    floor: float | None = 0.2,
    floor_queries: bool = True,
    versions: dict[str, str] | None = None,
) -> Entrant:
    """A study with a run for each of the scores (separated).

    `floor_queries` is False for what an older hsearch has reproduced.
    """
    study = study or made_study(method)
    job = study.spec.job
    spec = ReproductionSpec(study=study.name, trial=1, protocol=protocol, job=job)
    record = ReproductionRecord(
        spec=spec,
        runs=tuple(made_run(n, job, score, protocol) for n, score in enumerate(scores)),
        floor=None if floor is None else made_metrics(floor),
        floor_queries=len(ROWS) if floor_queries else None,
        versions=versions or {"torch": "2.15.0"},
    )
    scored = made_queries(scores, liking) if queries else {}
    known = floor is not None and queries and floor_queries
    return Entrant(study, record, scored, made_floor(floor) if known and floor else None)


def made_floor(score: float) -> QueryTable:
    """What every query scores without training: the same, but for a pattern with mean 0."""
    pattern = 0.01 * np.cos(np.arange(len(ROWS)) * np.pi / 2).round()
    return QueryTable(ROWS, {"map_at_r": (score + pattern).astype(np.float32)})


def on_data(method: str, data: str, **changes: object) -> FoldJob:
    """A job on another data set, its digest made of the name, with further changes."""
    digest = (data.encode().hex() + "0" * 64)[:64]
    return made_job(method).model_copy(update={"data": data, "data_digest": digest, **changes})


def with_settings(job: FoldJob, settings: Mapping[str, Mapping[str, object]]) -> FoldJob:
    """A job with other settings of its recipe, given by part: {"model": {"pooling": "max"}}."""
    training = job.training
    parts = {
        part: getattr(training, part).model_copy(update=dict(values))
        for part, values in settings.items()
    }
    return job.model_copy(update={"training": training.model_copy(update=parts)})
