"""What the record of a study holds: frozen values that survive a round trip through JSON."""

import math
import statistics
from typing import ClassVar, Literal

from pydantic import Field

from hsearch.folds import NUM_FOLDS
from hsearch.results import FoldResult, score_of, score_title
from hsearch.spec import FoldJob, KnobValue, Spec

Sampler = Literal["tpe", "gp", "random"]
TrialState = Literal["running", "complete", "lost", "failed"]


class StudySpec(Spec):
    """What a study searches and how; the number of trials is free to grow.

    Attributes:
        job: Fold 0 with published knob values; a trial's jobs differ from it in the searched knobs
            and in the fold alone.
        space: Every searched knob with its range, as text.
        sampler: Who proposes knobs after the published values and the start points.
        race: Whether a trial ends once it is clearly behind the best one on the same folds.
        start_from: Name of a study whose best trials are tried right after the published values.
    """

    later: ClassVar[tuple[str, ...]] = ("start_from",)

    job: FoldJob
    space: dict[str, str]
    sampler: Sampler = "tpe"
    race: bool = True
    start_from: str | None = None

    def is_log(self, knob: str) -> bool:
        """Whether a knob with a range of numbers is drawn uniformly in its logarithm."""
        return ", log" in self.space[knob].partition(";")[0]  # as str(Interval) says it


class TrialRecord(Spec):
    """One set of knob values and what came of it.

    Attributes:
        number: From 0, in the order of proposal.
        state: `complete` with all folds, `lost` when the race ended it, `failed` with a reason.
        source: Who proposed the knobs: `published`, a start point's source, or the sampler.
        knobs: The searched knobs by dotted name; a knob whose condition does not hold is absent.
        job: The job of fold 0; those of the other folds differ in `fold` alone.
        folds: Results by fold.
        reason: Why the trial was lost or failed.
        run_id: Of its MLflow run.
        started: Seconds since the epoch.
        ended: Seconds since the epoch; null while running.
    """

    number: int
    state: TrialState
    source: str
    knobs: dict[str, KnobValue]
    job: FoldJob
    folds: dict[int, FoldResult] = Field(default_factory=dict)
    reason: str | None = None
    run_id: str | None = None
    started: float
    ended: float | None = None

    @property
    def scores(self) -> list[float]:
        """Scores of the finished folds in the order of the folds."""
        found = (self.folds[fold].score for fold in sorted(self.folds))
        return [score for score in found if score is not None]

    @property
    def score(self) -> float | None:
        """Mean over all folds, or None as long as one is missing."""
        return statistics.fmean(self.scores) if len(self.folds) == NUM_FOLDS else None

    @property
    def sem(self) -> float | None:
        """Standard error of the mean over all folds."""
        if len(self.folds) < NUM_FOLDS:
            return None
        return statistics.stdev(self.scores) / math.sqrt(NUM_FOLDS)


def rank(trial: TrialRecord) -> tuple[float, int]:
    """Orders complete trials: by the mean, the earliest among equals."""
    return trial.score or 0.0, -trial.number


class StudyRecord(Spec):
    """A study as recorded at one moment.

    Attributes:
        name: Of the study.
        spec: What is searched; `spec.job` names method and data.
        trials: By number.
        searching: Whether a driver is at work on it.
        run_id: Of its MLflow run.
        versions: Of the packages that ran it, by the last driver.
        command: That the last driver was started with.
        driver: Who is at work on it, in words.
        level_names: What the levels of the data are called, coarsest first; empty in records from
            before this was kept.
    """

    name: str
    spec: StudySpec
    trials: tuple[TrialRecord, ...] = ()
    searching: bool = True
    run_id: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    command: str | None = None
    driver: str | None = None
    level_names: tuple[str, ...] = ()

    @property
    def score_title(self) -> str:
        """What the objective is called where people read it, such as `MAP@R at family`."""
        return score_title(self.spec.job.objective, self.level_names)

    @property
    def best(self) -> TrialRecord | None:
        """The complete trial with the highest mean, the earliest among equals."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return max(complete, key=rank, default=None)

    @property
    def floor(self) -> float | None:
        """Mean over the folds of what needs no training, by the objective; None if not recorded."""
        known = {f: r.floor for trial in self.trials for f, r in trial.folds.items() if r.floor}
        if len(known) < NUM_FOLDS:
            return None
        return statistics.fmean(
            score_of(floor, self.spec.job.objective) for floor in known.values()
        )

    def is_over(self, trials: int) -> bool:
        """Whether the study has so many trials and none of them is unfinished."""
        return len(self.trials) >= trials and all(t.state != "running" for t in self.trials)

    @property
    def folds_trained(self) -> int:
        """Fold trainings spent."""
        return sum(len(trial.folds) for trial in self.trials)

    @property
    def folds_saved(self) -> int:
        """Fold trainings that the race made unnecessary."""
        return sum(NUM_FOLDS - len(t.folds) for t in self.trials if t.state == "lost")
