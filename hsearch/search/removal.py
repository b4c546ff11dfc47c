"""Records of studies for who makes room: what of them is over, who drives them, deleting them.

Only states and drivers are read, not what trials have scored: that is quick for many studies.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from optuna.trial import TrialState

from hsearch.search.driver import Driver
from hsearch.search.lease import Lease, driver_lives
from hsearch.search.reading import check_known, known_names
from hsearch.search.reproduced import PROTOCOLS, Protocol
from hsearch.search.reproduction import record_name
from hsearch.search.storage import Storage
from hsearch.search.stored import StoredStudy


@dataclass(frozen=True)
class StudyState:
    """What of a study is over, and who is at work on it.

    Attributes:
        name: Of the study.
        identity: Which of all studies of this name it is; its folder says the same. None before
            its first training.
        trials: How many it has.
        unfinished: Numbers of the trials that may go on.
        runs: How many runs each of its reproductions has.
        unfinished_runs: Numbers of the runs that may go on, of each reproduction.
        drivers: Who is at work on it or on one of its reproductions.
    """

    name: str
    identity: str | None = None
    trials: int = 0
    unfinished: frozenset[int] = frozenset()
    runs: dict[Protocol, int] = field(default_factory=dict)
    unfinished_runs: dict[Protocol, frozenset[int]] = field(default_factory=dict)
    drivers: tuple[Driver, ...] = ()


def study_states(storage: str) -> list[StudyState]:
    """Returns the state of every study of a storage, sorted by name."""
    with closing(Storage(storage, create=False)) as opened, opened.guarded():
        return [_state(name, opened) for name in known_names(opened)]


def study_state(name: str, storage: str) -> StudyState:
    """Returns the state of one study; a ConfigError if there is none of that name."""
    with closing(Storage(storage, create=False)) as opened, opened.guarded():
        check_known(name, opened)
        return _state(name, opened)


def _state(name: str, storage: Storage) -> StudyState:
    ids = {study.study_name: study._study_id for study in storage.optuna.get_all_studies()}
    names = {protocol: record_name(name, protocol) for protocol in PROTOCOLS}
    found = {protocol: ids[each] for protocol, each in names.items() if each in ids}
    recorded = [_driver(storage, key) for key in (ids[name], *found.values())]
    trials, unfinished = _trials(storage, ids[name])
    runs = {protocol: _trials(storage, key) for protocol, key in found.items()}
    return StudyState(
        name=name,
        identity=storage.optuna.get_study_user_attrs(ids[name]).get("id"),
        trials=trials,
        unfinished=unfinished,
        runs={protocol: count for protocol, (count, _) in runs.items()},
        unfinished_runs={protocol: numbers for protocol, (_, numbers) in runs.items()},
        drivers=tuple(driver for driver in recorded if driver is not None),
    )


def _driver(storage: Storage, key: int) -> Driver | None:
    """Who is at work on a record, if somebody is."""
    recorded = storage.optuna.get_study_user_attrs(key).get("driver")
    return Driver.from_dict(recorded) if driver_lives(recorded) else None


def _trials(storage: Storage, key: int) -> tuple[int, frozenset[int]]:
    """How many trials a record has, and which of them may go on."""
    trials = storage.optuna.get_all_trials(key, deepcopy=False)
    return len(trials), frozenset(t.number for t in trials if t.state == TrialState.RUNNING)


@contextmanager
def held_study(name: str, storage: str) -> Iterator[None]:
    """Keeps all drivers from a study and its reproductions during the context.

    Raises:
        ConfigError: There is no such study, or somebody is at work on it.
    """
    with closing(Storage(storage, create=False)) as opened:
        with opened.guarded():
            check_known(name, opened)
        with ExitStack() as stack:
            for record in _records(name, opened):
                stack.enter_context(Lease(record))
            yield


def delete_study(name: str, storage: str) -> None:
    """Deletes the record of a study and of its reproductions; the caller holds the study."""
    with closing(Storage(storage, create=False)) as opened, opened.guarded():
        for record in reversed(_records(name, opened)):
            opened.optuna.delete_study(opened.optuna.get_study_id_from_name(record.name))


class _HeldRecord(StoredStudy):
    """A record that is held for nothing but to keep others away."""

    def take_over(self) -> None:
        """Changes nothing."""


def _records(name: str, storage: Storage) -> list[_HeldRecord]:
    """The record of a study, and those of its reproductions."""
    known = {study.study_name for study in storage.optuna.get_all_studies()}
    names = [name, *(record_name(name, protocol) for protocol in PROTOCOLS)]
    return [_HeldRecord(each, storage) for each in names if each in known]
