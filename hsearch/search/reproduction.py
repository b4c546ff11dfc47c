"""The record of a reproduction: an Optuna study beside that of the search, with a trial per run.

Study attributes   reproduction (format), token (of this one, not of one begun anew), spec, floor,
                   floor_queries, command, level_names, versions, driver and stop (see lease.py),
                   mlflow_run.N of run N
Trial attributes   seed, started, fold0.. (FoldResults), tested; `failed` with the reason
Trial value        the objective on the test classes, mean over the run's networks

Its name is that of the search with `/reproduce-PROTOCOL` behind it, which no search can have.
"""

import secrets
import time
from contextlib import closing
from typing import Self

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from hsearch.errors import ConfigError
from hsearch.results import FloorScore, FoldResult, Tested, score_of
from hsearch.search.lease import driver_lives
from hsearch.search.reading import FAILED, FORMAT, package_versions
from hsearch.search.reproduced import (
    Protocol,
    ReproductionRecord,
    ReproductionSpec,
    RunRecord,
    RunState,
)
from hsearch.search.storage import Storage
from hsearch.search.stored import StoredStudy

_MARK = "reproduction"
_STATES: dict[TrialState, RunState] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.FAIL: "failed",
}


class Reproduction(StoredStudy):
    """The record of one reproduction, open for reading and writing."""

    def __init__(self, name: str, storage: Storage) -> None:
        super().__init__(name, storage)
        self.spec = ReproductionSpec.from_dict(self.attribute("spec"))

    @classmethod
    def open(cls, spec: ReproductionSpec, storage: str, *, anew: bool = False) -> Self:
        """Creates a reproduction, or continues the one with the same spec.

        One without a finished training binds nobody yet: another spec replaces its own.

        Args:
            spec: What is trained again.
            storage: Path of a SQLite file or URL of a database.
            anew: Whether to forget a reproduction of the same study and protocol first.
        """
        name = record_name(spec.study, spec.protocol)
        with Storage(storage, create=False).closed_on_error() as opened:
            with opened.guarded():
                known = _find(name, opened)
                if known is not None and (anew or _is_empty(known, spec, opened)):
                    _check_idle(name, opened.optuna.get_study_user_attrs(known).get("driver"))
                    opened.optuna.delete_study(known)
                    known = None
                if known is None:
                    _create(name, opened, spec)
            reproduction = cls(name, opened)
            _check_same(reproduction.spec, spec)
            return reproduction

    def begin(self, runs: int) -> None:
        """Records runs until there are so many; each has the next seed."""
        with self._held():
            for number in range(len(self._stored()), runs):
                seed = self.spec.job.seed + number
                trial = create_trial(state=TrialState.RUNNING, user_attrs={"seed": seed})
                self._optuna.create_new_trial(self._id, trial)

    def note_start(self, number: int) -> None:
        """Notes that the first training of a run begins now."""
        with self._held():
            key = self._key(number)
            if "started" not in self._optuna.get_trial(key).user_attrs:
                self._optuna.set_trial_user_attr(key, "started", time.time())

    def record_fold(self, number: int, result: FoldResult) -> None:
        """Records the result of one training of a run; a second one of the same is ignored."""
        with self._held():
            key, fold = self._key(number), f"fold{result.job.fold}"
            trial = self._optuna.get_trial(key)
            if trial.state == TrialState.RUNNING and fold not in trial.user_attrs:
                self._optuna.set_trial_user_attr(key, fold, result.to_dict())

    def record_tested(self, number: int, tested: Tested) -> None:
        """Records the scores on the test classes, which completes a run."""
        with self._held():
            key = self._key(number)
            if self._optuna.get_trial(key).state == TrialState.RUNNING:
                self._optuna.set_trial_user_attr(key, "tested", tested.to_dict())
                metrics = tested.separated
                value = score_of(metrics, self.spec.objective(metrics))
                self._optuna.set_trial_state_values(key, TrialState.COMPLETE, [value])

    def fail(self, number: int, reason: str, *, final: bool) -> None:
        """Marks a run as failed; its reason is kept as one line.

        Args:
            number: Of the run.
            reason: Why.
            final: Whether it would fail again, as a training that diverges; otherwise the next
                driver tries again.
        """
        with self._held():
            key = self._key(number)
            if self._optuna.get_trial(key).state == TrialState.RUNNING:
                why = {"reason": " ".join(reason.split()), "final": final}
                self._optuna.set_trial_user_attr(key, FAILED, why)
                if final:
                    self._optuna.set_trial_state_values(key, TrialState.FAIL)

    def record_floor(self, floor: FloorScore) -> None:
        """Records how the floor scores on the test images."""
        self.set_attribute("floor", floor.metrics)
        self.set_attribute("floor_queries", floor.queries)

    def note_run(self, run_id: str, number: int) -> None:
        """Notes the MLflow run of a run."""
        self.set_attribute(f"mlflow_run.{number}", run_id)

    def take_over(self) -> None:
        """Begins a driver's work: completes what a killed one left half-recorded.

        Runs that failed for no fault of their own are tried again.
        """
        self.set_attribute("versions", package_versions())
        with self._held():
            for trial in self._stored():
                key, why = self._key(trial.number), trial.user_attrs.get(FAILED)
                if trial.state != TrialState.RUNNING:
                    continue
                if "tested" in trial.user_attrs:
                    self.record_tested(trial.number, Tested.from_dict(trial.user_attrs["tested"]))
                elif why and why["final"]:
                    self._optuna.set_trial_state_values(key, TrialState.FAIL)
                elif why:
                    self._optuna.set_trial_user_attr(key, FAILED, None)

    def record(self) -> ReproductionRecord:
        """Returns the reproduction as it is now."""
        with self._held():
            attributes = self._attributes()
            ids = {int(k.split(".")[1]): v for k, v in attributes.items() if "mlflow_run." in k}
            return ReproductionRecord(
                spec=self.spec,
                runs=tuple(_read(trial, self.spec) for trial in self._stored()),
                floor=attributes.get("floor"),
                floor_queries=attributes.get("floor_queries"),
                run_ids=ids,
                token=attributes["token"],
                command=attributes.get("command"),
                versions=attributes.get("versions", {}),
                level_names=tuple(attributes.get("level_names", ())),
            )


def record_name(study: str, protocol: Protocol) -> str:
    """Returns the name of a reproduction in the storage."""
    return f"{study}/reproduce-{protocol}"


def load_reproduction(study: str, protocol: Protocol, storage: str) -> ReproductionRecord | None:
    """Returns the reproduction of a study as it is recorded now; None if there is none."""
    with closing(Storage(storage, create=False)) as opened:
        with opened.guarded():
            if _find(record_name(study, protocol), opened) is None:
                return None
        return Reproduction(record_name(study, protocol), opened).record()


def _find(name: str, storage: Storage) -> int | None:
    """Returns Optuna's id of a reproduction; None if there is none."""
    for study in storage.optuna.get_all_studies():
        if study.study_name == name and "spec" in study.user_attrs:
            if study.user_attrs.get(_MARK, FORMAT) > FORMAT:
                raise ConfigError(
                    f"The reproduction '{name}' was written by a newer hsearch; upgrade hsearch to "
                    "use it."
                )
            return study._study_id
    return None


def _create(name: str, storage: Storage, spec: ReproductionSpec) -> None:
    """Makes the study; one that a kill left without its spec is completed."""
    names = [study.study_name for study in storage.optuna.get_all_studies()]
    if name not in names:
        storage.optuna.create_new_study([StudyDirection.MAXIMIZE], name)
    key = storage.optuna.get_study_id_from_name(name)
    storage.optuna.set_study_user_attr(key, _MARK, FORMAT)
    storage.optuna.set_study_user_attr(key, "token", secrets.token_hex(4))
    storage.optuna.set_study_user_attr(key, "spec", spec.to_dict())


def _is_empty(key: int, spec: ReproductionSpec, storage: Storage) -> bool:
    """Whether a reproduction has another spec, and no training that would be lost."""
    other = storage.optuna.get_study_user_attrs(key)["spec"] != spec.to_dict()
    trials = storage.optuna.get_all_trials(key, deepcopy=False)
    return other and not any(k.startswith("fold") for t in trials for k in t.user_attrs)


def _check_idle(name: str, driver: object) -> None:
    if driver_lives(driver):
        raise ConfigError(
            f"The reproduction '{name}' is being run by another process; end that one first, or "
            "leave `--anew` out."
        )


def _check_same(recorded: ReproductionSpec, given: ReproductionSpec) -> None:
    different = recorded.differences(given)
    if "trial" in different:
        raise ConfigError(
            f"The reproduction of '{given.study}' was begun with trial {recorded.trial}, but trial "
            f"{given.trial} is the best one by now; add `--anew` to forget its runs and begin with "
            f"that, or `--trial {recorded.trial}` to go on."
        )
    if different:
        key, (before, now) = next(iter(different.items()))
        raise ConfigError(
            f"The reproduction of '{given.study}' was begun with other settings ({key}: "
            f"{before!r}, now {now!r}); repeat those to go on, or add `--anew` to forget its runs."
        )


def _read(trial: FrozenTrial, spec: ReproductionSpec) -> RunRecord:
    notes = trial.user_attrs
    why = notes.get(FAILED)
    unfinished = trial.state == TrialState.RUNNING
    assert trial.datetime_start is not None
    return RunRecord(
        number=trial.number,
        seed=notes["seed"],
        state="failed" if unfinished and why else _STATES[trial.state],
        folds={
            fold: FoldResult.from_dict(notes[f"fold{fold}"])
            for fold in spec.folds
            if f"fold{fold}" in notes
        },
        tested=Tested.from_dict(notes["tested"]) if "tested" in notes else None,
        reason=why["reason"] if why else None,
        started=notes.get("started", trial.datetime_start.timestamp()),
        ended=trial.datetime_complete.timestamp() if trial.datetime_complete else None,
    )
