"""A study's one record: an Optuna study that holds every trial with its knobs, state and folds.

Study attributes   hsearch (format), spec, versions, command, level_names, driver and stop (see
                   lease.py), start_points (of another study, see start_from.py), news (see
                   news.py), mlflow_run and mlflow_run.N of trial N (Optuna closes a trial's own
                   when it ends)
Trial attributes   source, job, fold0.. (FoldResults); `lost` or `failed` with the reason
Trial values       after fold k the mean of folds 0..k as intermediate value k; at last the mean

Every call that changes something first writes the fact (a fold's result, a reason) and then what
follows from it, so that `take_over` can complete whatever a kill interrupted.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from hsearch.errors import ConfigError
from hsearch.folds import NUM_FOLDS
from hsearch.results import FoldResult
from hsearch.search.domain import StartPoint
from hsearch.search.driver import Driver
from hsearch.search.lease import driver_lives
from hsearch.search.race import noise_sd, verdict
from hsearch.search.reading import (
    FAILED,
    FORMAT,
    LOST,
    TrialReader,
    check_known,
    check_same_spec,
    contiguous,
    is_undecided,
    is_unmarked,
    known_names,
    package_versions,
)
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord, rank
from hsearch.search.storage import Storage
from hsearch.search.stored import StoredStudy

if TYPE_CHECKING:  # proposing imports torch, which a study that is only read does not need
    from hsearch.search.proposal import Proposer
    from hsearch.search.space import SearchSpace

START_POINTS = "start_points"


class Study(StoredStudy):
    """The record of one study, open for reading and, after `open`, for searching.

    Attributes:
        spec: What is searched and how.
        best: As in the record, known to the driver at any time.
    """

    def __init__(self, name: str, storage: Storage, proposer: "Proposer | None" = None) -> None:
        super().__init__(name, storage)
        self._proposer = proposer
        self._reader = TrialReader()
        # What the one driver knows, who need not read what it has written.
        self._known: dict[int, TrialRecord] = {}
        self._complete: dict[int, list[float]] = {}
        self._sigma: float | None = None
        self._notes: dict[str, Any] = {}
        self._earlier: tuple[StartPoint, ...] = ()
        self.best: TrialRecord | None = None
        self.spec = StudySpec.from_dict(self.attribute("spec"))

    @classmethod
    def open(
        cls,
        name: str,
        storage: str,
        spec: StudySpec,
        space: "SearchSpace",
        earlier: Sequence[StartPoint] = (),
    ) -> Self:
        """Creates a study or continues the one of that name, which must have the same spec.

        A study without a trial binds nobody yet: the spec of the next driver replaces its own.

        Args:
            name: Of the study.
            storage: Path of a SQLite file or URL of a database.
            spec: What is searched and how.
            space: The same ranges for drawing; knobs that the user has fixed are not among them.
            earlier: Start points of another study, which are tried before those of the space.
        """
        from hsearch.search.proposal import Proposer

        space = replace(space, start=(*earlier, *space.start))
        proposer = Proposer(spec, space)  # first, because it refuses what can never be tried
        with Storage(storage, create=True).closed_on_error() as opened:
            with opened.guarded():
                _create(name, opened, spec)
                check_known(name, opened)
            study = cls(name, opened, proposer)
            if study._read_trials():
                check_same_spec(name, study.spec, spec)
            study.spec, study._earlier = spec, tuple(earlier)
            return study

    @classmethod
    def load(cls, name: str, storage: str) -> Self:
        """Opens an existing study for reading and for notes."""
        with Storage(storage, create=False).closed_on_error() as opened:
            with opened.guarded():
                check_known(name, opened)
            return cls(name, opened)

    def remove_if_unused(self) -> None:
        """Takes back what `open` has made, where no trial was recorded and nobody drives."""
        with self._held():
            if not self._stored() and self._attributes().get("driver") is None:
                with suppress(KeyError):  # somebody else has
                    self._optuna.delete_study(self._id)
                self._storage.remove_if_made()

    def propose(self) -> TrialRecord:
        """Records the next trial as running, whole in one transaction, and returns it."""
        assert self._proposer is not None, "a study that was loaded only for reading"
        with self._held():
            proposal = self._proposer.propose()
            trial = create_trial(
                state=TrialState.RUNNING,
                params=proposal.knobs,
                distributions=proposal.distributions,
                user_attrs={"source": proposal.source, "job": proposal.job.to_dict()},
                system_attrs=dict(proposal.system_attrs),
            )
            self._optuna.create_new_trial(self._id, trial)
            trial.number = len(self._known)
            return self._remember(trial)

    def record_fold(self, number: int, result: FoldResult) -> TrialRecord:
        """Records a fold's result and decides what becomes of the trial.

        A result that comes twice, or after the trial's end, changes nothing.

        Returns:
            The trial: `running`, `complete` with all folds, `lost` where the race ends it, or
            `failed` where the score is no number.
        """
        with self._held():
            trial = self._trial(number)
            fold = result.job.fold
            if trial.state != "running" or fold in trial.folds:
                return trial
            if result.job != trial.job.model_copy(update={"fold": fold}):
                raise ValueError(f"The result of fold {fold} is not of trial {number}'s job.")
            if result.score is None or not math.isfinite(result.score):
                return self.fail(number, f"The score of fold {fold} is {result.score}.")
            self._optuna.set_trial_user_attr(self._key(number), f"fold{fold}", result.to_dict())
            folds = dict(sorted({**trial.folds, fold: result}.items()))
            self._known[number] = trial.model_copy(update={"folds": folds})
            self._decide(number, reported=contiguous(trial.folds))
            return self._known[number]

    def fail(self, number: int, reason: str) -> TrialRecord:
        """Ends a running trial as failed; its reason is kept as one line."""
        reason = " ".join(reason.split())
        with self._held():
            if self._trial(number).state == "running":
                self._optuna.set_trial_user_attr(self._key(number), FAILED, {"reason": reason})
                self._end(number, TrialState.FAIL)
            return self._known[number]

    def note_run(self, run_id: str, number: int | None = None) -> None:
        """Notes the MLflow run of a trial, or of the study."""
        with self._held():
            self.set_attribute("mlflow_run" if number is None else _run_key(number), run_id)
            if number in self._known:
                self._known[number] = self._known[number].model_copy(update={"run_id": run_id})

    def set_attribute(self, key: str, value: object) -> None:
        """Sets an attribute of the study to a plain value."""
        with self._held():
            super().set_attribute(key, value)
            self._notes[key] = value

    def earlier_points(self) -> tuple[StartPoint, ...]:
        """Returns the start points that it took from another study when it began."""
        stored: Any = self.attribute(START_POINTS) or []
        return tuple(StartPoint(point["source"], point["values"]) for point in stored)

    def record(self) -> StudyRecord:
        """Returns the study as it is now."""
        with self._held():
            if self._proposer is None:  # another process may be writing
                attributes = self._attributes()
                trials = [self._read(trial, attributes) for trial in self._stored()]
            else:
                attributes, trials = self._notes, list(self._known.values())
            driver = attributes.get("driver")
            searching = driver_lives(driver)
            return StudyRecord(
                name=self.name,
                spec=self.spec,
                trials=tuple(trials),
                searching=searching,
                run_id=attributes.get("mlflow_run"),
                versions=attributes.get("versions", {}),
                command=attributes.get("command"),
                driver=str(Driver.from_dict(driver)) if searching else None,
                level_names=tuple(attributes.get("level_names", ())),
            )

    def take_over(self) -> None:
        """Begins a driver's work: completes what a killed one left half-recorded.

        `Lease` calls it; before, a study that somebody else may be writing to is only read.
        """
        with self._held():
            stored = self._read_trials()
            recorded = StudySpec.from_dict(self._attributes()["spec"])
            if stored:  # another driver may have come in between
                check_same_spec(self.name, recorded, self.spec)
                self._check_same_start()
            else:
                if recorded != self.spec:
                    self.set_attribute("spec", self.spec.to_dict())
                if self._earlier or self.earlier_points():
                    points = [{"source": p.source, "values": {**p.values}} for p in self._earlier]
                    self.set_attribute(START_POINTS, points)
            self.set_attribute("versions", package_versions())
            for trial in stored:
                if trial.state == TrialState.RUNNING and FAILED in trial.user_attrs:
                    self._end(trial.number, TrialState.FAIL)
                elif trial.state == TrialState.RUNNING and is_undecided(trial):
                    self._decide(trial.number, reported=len(trial.intermediate_values))

    def _check_same_start(self) -> None:
        if self.earlier_points() != self._earlier:
            raise ConfigError(
                f"Another driver has begun the study '{self.name}' meanwhile, from other trials of "
                f"'{self.spec.start_from}'; run the same command again to go on with it."
            )

    def _decide(self, number: int, reported: int) -> None:
        """Writes what follows from a running trial's folds.

        Args:
            number: Of the trial.
            reported: How many intermediate values are stored; that of a fold is stored only after
                the race was asked, so that a fold without one is known to be undecided.
        """
        trial = self._known[number]
        scores = trial.scores[: contiguous(trial.folds)]
        complete = len(scores) == NUM_FOLDS
        lost = not complete and self.spec.race and bool(scores) and self._loses(number, scores)
        for step in range(reported, len(scores)):
            mean = statistics.fmean(scores[: step + 1])
            self._optuna.set_trial_intermediate_value(self._key(number), step, mean)
        if complete:
            self._end(number, TrialState.COMPLETE, statistics.fmean(scores))
        elif lost:
            self._end(number, TrialState.PRUNED, statistics.fmean(scores))

    def _loses(self, number: int, scores: list[float]) -> bool:
        """Asks the race, and notes the reason for which the trial loses."""
        best = self.best
        if best is None or best.score is None:
            return False
        if self._sigma is None:
            self._sigma = noise_sd([self._complete[number] for number in sorted(self._complete)])
        said = verdict(scores, best.scores, self._sigma)
        if said.lost:
            why = {"reason": said.sentence(best.number), "expected": best.score - said.behind}
            self._optuna.set_trial_user_attr(self._key(number), LOST, why)
        return said.lost

    def _end(self, number: int, state: TrialState, value: float | None = None) -> None:
        values = None if value is None else [value]
        self._optuna.set_trial_state_values(self._key(number), state, values)
        self._remember(self._optuna.get_trial(self._key(number)))

    def _remember(self, trial: FrozenTrial) -> TrialRecord:
        if self._proposer is not None:
            self._proposer.remember(trial)
        record = self._known[trial.number] = self._read(trial, self._notes)
        if record.state == "complete" and trial.number not in self._complete:
            self._complete[trial.number], self._sigma = record.scores, None
            self.best = max(filter(None, (self.best, record)), key=rank)
        return record

    def _read(self, trial: FrozenTrial, attributes: Mapping[str, Any]) -> TrialRecord:
        run_id = attributes.get(_run_key(trial.number))
        return self._reader.read(trial).model_copy(update={"run_id": run_id})

    def _trial(self, number: int) -> TrialRecord:
        if number not in self._known:
            raise ConfigError(
                f"The study '{self.name}' has no trial {number}, but {len(self._known)} trials."
            )
        return self._known[number]

    def _read_trials(self) -> list[FrozenTrial]:
        """Learns the trials as they are stored now."""
        with self._held():
            self._notes = self._attributes()
            stored = self._stored()
            for trial in stored:
                self._remember(trial)
            return stored


def _run_key(number: int) -> str:
    return f"mlflow_run.{number}"


def study_names(storage: str) -> list[str]:
    """Returns the names of all studies of hsearch in a storage, sorted."""
    with closing(Storage(storage, create=False)) as opened, opened.guarded():
        return known_names(opened)


def _create(name: str, storage: Storage, spec: StudySpec) -> None:
    """Makes the study unless it is there; one that a kill left without its marks is completed."""
    names = [study.study_name for study in storage.optuna.get_all_studies()]
    if name not in names:
        storage.optuna.create_new_study([StudyDirection.MAXIMIZE], name)
    elif not is_unmarked(name, storage):
        return
    key = storage.optuna.get_study_id_from_name(name)
    storage.optuna.set_study_user_attr(key, "spec", spec.to_dict())
    storage.optuna.set_study_user_attr(key, "hsearch", FORMAT)
