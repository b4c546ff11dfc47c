"""What every record has in common: an Optuna study with attributes, opened in a storage."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optuna.trial import FrozenTrial

from hsearch.errors import ConfigError
from hsearch.search.storage import Storage


class StoredStudy:
    """An Optuna study that exists.

    All methods may be called from several threads; one driver at a time is `Lease`'s matter.
    """

    def __init__(self, name: str, storage: Storage) -> None:
        self.name = name
        self._storage, self._optuna = storage, storage.optuna
        self._lock = threading.RLock()
        with self._held():
            self._id = self._optuna.get_study_id_from_name(name)

    def close(self) -> None:
        """Closes the storage."""
        self._storage.close()

    def attribute(self, key: str) -> object:
        """Returns an attribute of the study; null where there is none."""
        with self._held():
            return self._attributes().get(key)

    def set_attribute(self, key: str, value: object) -> None:
        """Sets an attribute of the study to a plain value."""
        with self._held():
            try:
                self._optuna.set_study_user_attr(self._id, key, value)
            except KeyError:
                raise ConfigError(
                    f"The study '{self.name}' has been removed meanwhile; `hsearch studies` lists "
                    "those that are there."
                ) from None

    def _stored(self) -> list[FrozenTrial]:
        """All trials; none if the study was removed, as one that got no trial."""
        try:
            return self._optuna.get_all_trials(self._id, deepcopy=False)
        except KeyError:
            return []

    def _key(self, number: int) -> int:
        return self._optuna.get_trial_id_from_study_id_trial_number(self._id, number)

    def _attributes(self) -> dict[str, Any]:
        """All attributes; none if the study was removed."""
        try:
            return self._optuna.get_study_user_attrs(self._id)
        except KeyError:
            return {}

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._lock, self._storage.guarded():
            yield
