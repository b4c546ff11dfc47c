"""From what Optuna stores to the words of record.py, and the checks of a stored study."""

from collections.abc import Container

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from hsearch.errors import ConfigError, did_you_mean
from hsearch.folds import NUM_FOLDS
from hsearch.results import FoldResult, versions_of
from hsearch.search.record import StudySpec, TrialRecord, TrialState
from hsearch.search.storage import Storage
from hsearch.spec import FoldJob

FORMAT = 1  # of everything that a study stores; a newer one is refused
LOST = "lost"  # trial attribute: reason, and the expected mean over all folds
FAILED = "failed"  # trial attribute: reason

SHOWN_DIFFERENCES = 5
PACKAGES = ("hsearch", "optuna", "ray", "mlflow", "torch", "torchvision", "timm", "numpy")

_STATES: dict[OptunaState, TrialState] = {
    OptunaState.RUNNING: "running",
    OptunaState.COMPLETE: "complete",
    OptunaState.PRUNED: "lost",
    OptunaState.FAIL: "failed",
}


class TrialReader:
    """Reads stored trials; what can no longer change is read once."""

    def __init__(self) -> None:
        self._ended: dict[int, TrialRecord] = {}
        self._jobs: dict[int, FoldJob] = {}
        self._folds: dict[tuple[int, int], FoldResult] = {}

    def read(self, trial: FrozenTrial) -> TrialRecord:
        """Returns a trial without its MLflow run, which only the study knows."""
        record = self._ended.get(trial.number) or self._read(trial)
        if record.state != "running":
            self._ended[trial.number] = record
        return record

    def _read(self, trial: FrozenTrial) -> TrialRecord:
        number, notes = trial.number, trial.user_attrs
        if number not in self._jobs:
            self._jobs[number] = FoldJob.from_dict(notes["job"])
        for fold in range(NUM_FOLDS):
            if f"fold{fold}" in notes and (number, fold) not in self._folds:
                self._folds[number, fold] = FoldResult.from_dict(notes[f"fold{fold}"])
        folds = [fold for fold in range(NUM_FOLDS) if (number, fold) in self._folds]
        why = notes.get(LOST) or notes.get(FAILED) or {}
        assert trial.datetime_start is not None
        return TrialRecord(
            number=number,
            state=_STATES[trial.state],
            source=notes["source"],
            knobs=trial.params,
            job=self._jobs[number],
            folds={fold: self._folds[number, fold] for fold in folds},
            reason=why.get("reason") if trial.state.is_finished() else None,
            started=trial.datetime_start.timestamp(),
            ended=trial.datetime_complete.timestamp() if trial.datetime_complete else None,
        )


def contiguous(folds: Container[int]) -> int:
    """How many folds there are from fold 0 on without a gap."""
    return next(fold for fold in range(NUM_FOLDS + 1) if fold not in folds)


def is_undecided(trial: FrozenTrial) -> bool:
    """Whether a running trial has folds from which nothing was concluded yet."""
    folds = [fold for fold in range(NUM_FOLDS) if f"fold{fold}" in trial.user_attrs]
    decided = len(trial.intermediate_values)
    return LOST in trial.user_attrs or len(folds) == NUM_FOLDS or contiguous(folds) > decided


def known_names(storage: Storage) -> list[str]:
    """Returns the names of all studies that hsearch has written, sorted."""
    studies = storage.optuna.get_all_studies()
    return sorted(study.study_name for study in studies if "hsearch" in study.user_attrs)


def check_known(name: str, storage: Storage) -> None:
    """Raises an error unless the storage has a study of that name that this version can read."""
    for study in storage.optuna.get_all_studies():
        if study.study_name == name:
            written = study.user_attrs.get("hsearch")
            if written is None:
                raise ConfigError(
                    f"The study '{name}' in {storage.shown} was not made by hsearch; give another "
                    "name with `--study`."
                )
            if written > FORMAT:
                raise ConfigError(
                    f"The study '{name}' was written by a newer hsearch (format {written}, this "
                    f"one reads {FORMAT}); upgrade hsearch to use it."
                )
            return
    valid = did_you_mean(name, known_names(storage))
    raise ConfigError(f"There is no study '{name}' in {storage.shown}; {valid}")


def is_unmarked(name: str, storage: Storage) -> bool:
    """Whether a study is one of ours that was killed while it was being made."""
    key = storage.optuna.get_study_id_from_name(name)
    return (
        set(storage.optuna.get_study_user_attrs(key)) <= {"spec"}
        and storage.optuna.get_n_trials(key) == 0
        and storage.optuna.get_study_directions(key) == [StudyDirection.MAXIMIZE]
    )


def check_same_spec(name: str, recorded: StudySpec, given: StudySpec) -> None:
    """Raises an error that names the settings in which the specs differ."""
    different = recorded.differences(given)
    if different.keys() == {"job.data_digest"}:
        raise ConfigError(
            f"The data set '{given.job.data}' has changed since the study '{name}' began; give "
            "another name with `--study` to search on the new data."
        )
    if different:
        listed = "; ".join(
            f"{key}: {before!r}, now {now!r}"
            for key, (before, now) in list(different.items())[:SHOWN_DIFFERENCES]
        )
        if more := max(0, len(different) - SHOWN_DIFFERENCES):
            listed += f"; and {more} more"
        raise ConfigError(
            f"The study '{name}' was begun with other settings ({listed}); repeat those to "
            "continue it, or give another name with `--study`."
        )


def package_versions() -> dict[str, str]:
    """Returns the versions of the packages that run a search, as far as they are installed."""
    return versions_of(PACKAGES)
