"""Records of a made-up study, exactly the same in every process that asks for them."""

import random
from typing import Any

from hsearch.folds import NUM_FOLDS
from hsearch.recipes import load_recipe
from hsearch.results import EpochRecord, FoldResult
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord, TrialState
from hsearch.spec import FoldJob, MethodSpec

START = 1_800_000_000.0
METRICS = ("map_at_r", "r_precision", "recall_at_1", "level0/map_at_r")


def made_job(data: str = "glyphs", **knobs: Any) -> FoldJob:
    method = MethodSpec(name="hpl", knobs={"base": "proxy_anchor", "num_coarse": 4, **knobs})
    return FoldJob(
        data=data, data_digest="d" * 12, method=method, training=load_recipe("small"), seed=3
    )


def made_result(job: FoldJob, score: float, epochs: int = 2) -> FoldResult:
    rng = random.Random(f"{job.digest()} {score}")
    history = [
        EpochRecord(
            epoch=epoch,
            loss=1.0 / epoch if epoch else None,
            seconds=0.5 + rng.random(),
            images_per_second=100.0 if epoch else None,
            lr={"backbone": 0.01, "proxies": 0.03},
            validation={name: score * epoch / epochs for name in METRICS},
        )
        for epoch in range(epochs + 1)
    ]
    return FoldResult(
        job=job,
        score=score,
        best_epoch=epochs,
        validation=dict.fromkeys(METRICS, score),
        untrained=dict.fromkeys(METRICS, 0.0),
        history=tuple(history),
        stopped="epochs",
        versions={"torch": "2.15", "hsearch": "0.1"},
    )


def made_trial(
    number: int,
    state: TrialState,
    scores: tuple[float, ...] = (),
    *,
    epochs: int = 2,
    reason: str | None = None,
) -> TrialRecord:
    job = made_job(num_coarse=4 + number)
    folds = {
        fold: made_result(job.model_copy(update={"fold": fold}), score, epochs)
        for fold, score in enumerate(scores)
    }
    return TrialRecord(
        number=number,
        state=state,
        source="published" if number == 0 else "tpe",
        knobs={"method.num_coarse": 4 + number},
        job=job,
        folds=folds,
        reason=reason,
        started=START + 100 * number,
        ended=None if state == "running" else START + 100 * number + 90,
    )


def made_study(*trials: TrialRecord, name: str = "hpl-a1b2c3") -> StudyRecord:
    spec = StudySpec(job=made_job(), space={"method.num_coarse": "2..1000, log"})
    return StudyRecord(name=name, spec=spec, trials=trials, versions={"optuna": "5.0"})


def growing(num_trials: int, epochs: int = 2) -> list[StudyRecord]:
    """Every state of a study as it grows, fold by fold: trials complete, are lost or fail."""
    states = []
    done: tuple[TrialRecord, ...] = ()
    for number in range(num_trials):
        scores = tuple(0.5 + 0.01 * ((number * 7 + fold * 3) % 11) for fold in range(NUM_FOLDS))
        kind = number % 3
        last = NUM_FOLDS if kind == 0 else 2 - kind % 2
        for folds in range(last):
            trial = made_trial(number, "running", scores[:folds], epochs=epochs)
            states.append(made_study(*done, trial))
        state: TrialState = ("complete", "lost", "failed")[kind]  # type: ignore[assignment]
        reason = None if kind == 0 else "behind trial 0 by more than the noise"
        end = made_trial(number, state, scores[:last], epochs=epochs, reason=reason)
        done = (*done, end)
        states.append(made_study(*done))
    return states


class MadeStudy:
    """A study whose record is set by the test and which keeps the run ids it is told."""

    def __init__(self, record: StudyRecord) -> None:
        self.now = record
        self.notes: list[tuple[str, int | None]] = []

    def record(self) -> StudyRecord:
        ids = {number: run_id for run_id, number in self.notes}
        trials = [t.model_copy(update={"run_id": ids.get(t.number)}) for t in self.now.trials]
        return self.now.model_copy(update={"run_id": ids.get(None), "trials": tuple(trials)})

    def note_run(self, run_id: str, number: int | None = None) -> None:
        self.notes.append((run_id, number))
