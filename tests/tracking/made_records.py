"""Records of a made-up study, exactly the same in every process that asks for them."""

from hsearch.folds import NUM_FOLDS
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord, TrialState
from hsearch.training.resolve import with_knobs
from tests.search.made_results import made_job, made_result

START = 1_800_000_000.0
JOB = made_job("hpl")


def made_trial(
    number: int,
    state: TrialState,
    scores: tuple[float, ...] = (),
    *,
    epochs: int = 2,
    reason: str | None = None,
) -> TrialRecord:
    knobs = {"method.num_coarse": 4 + number}
    folds = {
        fold: made_result(with_knobs(JOB, knobs, fold), score, epochs)
        for fold, score in enumerate(scores)
    }
    return TrialRecord(
        number=number,
        state=state,
        source="published" if number == 0 else "tpe",
        knobs=dict(knobs),
        job=with_knobs(JOB, knobs),
        folds=folds,
        reason=reason,
        started=START + 100 * number,
        ended=None if state == "running" else START + 100 * number + 90,
    )


def made_study(*trials: TrialRecord, name: str = "hpl-a1b2c3") -> StudyRecord:
    spec = StudySpec(job=JOB, space={"method.num_coarse": "2 to 1000, log"})
    return StudyRecord(name=name, spec=spec, trials=trials, versions={"optuna": "5.0"})


def growing(num_trials: int, *, epochs: int = 2, name: str = "hpl-a1b2c3") -> list[StudyRecord]:
    """Every state of a study as it grows, fold by fold: trials complete, are lost or fail."""
    states = []
    done: tuple[TrialRecord, ...] = ()
    ends: list[tuple[TrialState, int, str | None]] = [
        ("complete", NUM_FOLDS, None),
        ("lost", 1, "behind trial 0 by more than the noise"),
        ("failed", 2, "the loss was not a number"),
    ]
    for number in range(num_trials):
        state, last, reason = ends[number % 3]
        scores = tuple(0.5 + 0.01 * ((number * 7 + fold * 3) % 11) for fold in range(last))
        for folds in range(last):
            trial = made_trial(number, "running", scores[:folds], epochs=epochs)
            states.append(made_study(*done, trial, name=name))
        done = (*done, made_trial(number, state, scores, epochs=epochs, reason=reason))
        states.append(made_study(*done, name=name))
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
