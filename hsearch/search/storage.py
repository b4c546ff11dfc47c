"""Opening the database of studies: a SQLite file or the URL of a server."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy import event, text
from sqlalchemy.engine import URL, Dialect, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from hsearch.errors import ConfigError, HsearchError

optuna.logging.set_verbosity(optuna.logging.ERROR)  # it would tell of every trial

SECONDS_TO_WAIT = 60  # for another process's transaction on a SQLite file
RESTART_SECONDS = 60  # for a server that a driver has lost


class Storage:
    """An open database of studies.

    Args:
        given: Path of a SQLite file, or any URL of SQLAlchemy's.
        create: Whether a SQLite file is made where there is none.
    """

    def __init__(self, given: str, *, create: bool) -> None:
        self.url = storage_url(given)
        self.shown = _shown(self.url)
        self._made: Path | None = None
        if self.url.get_backend_name() == "sqlite":
            file = Path(self.url.database or "")
            _check_file(file, create)
            self._made = None if file.exists() else file
        with self._opening():
            self._database = RDBStorage(
                self.url.render_as_string(hide_password=False),
                engine_kwargs=_engine_settings(self.url),
            )
            if create and self.url.get_backend_name() == "sqlite":
                self._let_readers_in()
            elif create:
                event.listen(self._database.engine, "do_connect", _connect_patiently)
        self.optuna: BaseStorage = optuna.storages.get_storage(self._database)

    def close(self) -> None:
        """Closes all connections."""
        self._database.remove_session()
        self._database.engine.dispose()

    def remove_if_made(self) -> None:
        """Removes the SQLite file if it is of this object's making and no study is in it."""
        if self._made is not None and not self.optuna.get_all_studies():
            self.close()
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._made}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def closed_on_error(self) -> Iterator[Self]:
        """Closes the storage if what is done with it first fails."""
        with ExitStack() as stack:
            stack.callback(self.close)
            yield self
            stack.pop_all()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turns a failure of an open database into a sentence."""
        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as error:
            raise HsearchError(
                f"The storage {self.shown} no longer answers: {self._reason(error)}. The same "
                "command continues the study once it does."
            ) from error

    def _let_readers_in(self) -> None:
        """Write-ahead logging: who reads the file never waits for the driver, nor it for them."""
        with suppress(OperationalError), self._database.engine.connect() as connection:
            connection.execute(text("PRAGMA journal_mode=WAL"))

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            extra = " (`pip install hsearch[postgres]`)" if "postgres" in self.shown else ""
            reason = str(error).rstrip(".")
            raise ConfigError(
                f"The storage {self.shown} needs a database driver{extra}: {reason}."
            ) from None
        except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            raise ConfigError(
                f"The storage {self.shown} cannot be opened: {self._reason(error)}. Give the path "
                "of a SQLite file or the URL of a database with `--storage`."
            ) from None

    def _reason(self, error: BaseException) -> str:
        """The innermost message in one line, without the password."""
        inner = error.__cause__ or error
        text = str(getattr(inner, "orig", None) or inner)
        line = "; ".join(part.strip() for part in text.strip().splitlines()[:2])
        for secret in _secrets(self.url):
            line = line.replace(secret, "***")
        return line.rstrip(".")


def storage_url(given: str) -> URL:
    """Returns the URL of a storage; a plain path is a SQLite file."""
    if "://" not in given:
        return URL.create("sqlite", database=str(Path(given).expanduser().absolute()))
    try:
        url = make_url(given)
    except (SQLAlchemyError, ValueError):
        scheme = given.partition("://")[0]
        raise ConfigError(
            f"The storage URL that begins with {scheme}:// cannot be read; write it as "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or give the path of a SQLite file."
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigError(f"A storage must outlive the search, but {given} has no file.")
    return url


def storage_file(given: str) -> Path | None:
    """Returns the SQLite file that a storage is; None for a server's."""
    url = storage_url(given)
    is_file = url.get_backend_name() == "sqlite" and url.database
    return Path(url.database).absolute() if is_file and url.database else None


def holds_secret(url: URL) -> bool:
    """Whether a URL must not be printed, because there is a password in it."""
    return bool(_secrets(url))


def _check_file(path: Path, create: bool) -> None:
    if path.is_dir():
        raise ConfigError(f"The storage {path} is a folder; give the path of a SQLite file.")
    if not create and not path.exists():
        raise ConfigError(
            f"There is no storage {path}; `hsearch tune` makes it, or name another with "
            "`--storage`."
        )
    if not path.parent.is_dir():
        raise ConfigError(f"The folder of the storage {path} does not exist; make it first.")


def _connect_patiently(
    dialect: Dialect, _: object, arguments: list[Any], named: dict[str, Any]
) -> DBAPIConnection:
    """Waits for a server that is being restarted: nothing was sent to it yet, so nothing is lost.

    It listens once the storage was opened, so that a wrong URL is told at once.
    """
    deadline = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            return dialect.connect(*arguments, **named)
        except dialect.loaded_dbapi.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def _engine_settings(url: URL) -> dict[str, object]:
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": SECONDS_TO_WAIT}}
    settings: dict[str, object] = {"pool_pre_ping": True}  # one that was restarted is no error
    if url.get_backend_name() == "postgresql":
        settings["connect_args"] = {"connect_timeout": 10}
    return settings


def _secrets(url: URL) -> list[str]:
    asked = url.normalized_query.items()
    query = [value for key, values in asked if "pass" in key.lower() for value in values]
    return [secret for secret in [url.password, *query] if secret]


def _shown(url: URL) -> str:
    """The URL as it may be printed: a plain path, or the URL without its query and password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)
