"""Trials and records of studies that nothing was trained for."""

from hsearch.folds import NUM_FOLDS
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord, TrialState
from tests.search.made_results import made_job, made_result


def made_trial(
    number: int, scores: list[float], state: TrialState = "running", reason: str | None = None
) -> TrialRecord:
    """A trial with these scores on its first folds."""
    job = made_job()
    folds = {
        fold: made_result(job.model_copy(update={"fold": fold}), score)
        for fold, score in enumerate(scores)
    }
    if state == "complete":
        assert len(scores) == NUM_FOLDS
    return TrialRecord(
        number=number,
        state=state,
        source="published" if number == 0 else "tpe",
        knobs={"method.scale": 8.0 + number, "optimizer.lr.proxies": 0.0123456},
        job=job,
        folds=folds,
        reason=reason,
        started=100.0,
        ended=None if state == "running" else 200.0,
    )


def made_record(*trials: TrialRecord, race: bool = True) -> StudyRecord:
    """A study of these trials."""
    space = {"method.scale": "1 to 64, log", "optimizer.lr.proxies": "0.0001 to 1, log"}
    return StudyRecord(
        name="made-study", spec=StudySpec(job=made_job(), space=space, race=race), trials=trials
    )
