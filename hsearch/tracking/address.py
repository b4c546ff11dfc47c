"""Where MLflow keeps its runs: which addresses serve, where artifacts lie, how to look at them."""

import os
import re
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hsearch.errors import ConfigError, did_you_mean

DEFAULT_URI = "sqlite:///mlflow.db"

_SQLITE = "sqlite:///"
_SERVERS = ("http", "https")
_DATABASES = ("mssql", "mysql", "postgresql", "sqlite")
_CREDENTIALS = re.compile(
    r"(?<=://)[^/\s@]*@|(?<=[?&])[^=&\s]*pass[^=&\s]*=[^&\s]*&?", re.IGNORECASE
)


def checked_uri(uri: str) -> str:
    """Returns the address with the path of an SQLite file made absolute, or raises a ConfigError.

    Args:
        uri: `sqlite:///FILE`, `http(s)://HOST:PORT`, or another database that MLflow knows, such as
            `postgresql://HOST/NAME`.
    """
    scheme = uri.partition("://")[0].partition("+")[0]
    if "://" not in uri or scheme not in (*_DATABASES, *_SERVERS):
        raise ConfigError(
            f"MLflow's address cannot be {without_credentials(uri)!r}; give one such as "
            f"`{DEFAULT_URI}` or `http://127.0.0.1:5000`; "
            f"{did_you_mean(scheme, (*_DATABASES, *_SERVERS))}"
        )
    if scheme in _SERVERS and not _has_host(uri):
        raise ConfigError(
            f"MLflow's server must be given as http://HOST:PORT, but got "
            f"{without_credentials(uri)!r}."
        )
    if scheme != "sqlite":
        return uri
    file = database_file(uri)
    if file is None:
        raise ConfigError(f"MLflow's SQLite address must be `sqlite:///FILE`, but got {uri!r}.")
    place = file if file.exists() else file.parent
    if file.is_dir() or not file.parent.is_dir() or not os.access(place, os.W_OK):
        raise ConfigError(f"MLflow's SQLite address must name a writable file, but got {file}.")
    return f"{_SQLITE}{file}"


def _has_host(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def database_file(uri: str) -> Path | None:
    """Returns the absolute path of an SQLite address, or None for any other address."""
    name = uri.removeprefix(_SQLITE).partition("?")[0]
    if not uri.startswith(_SQLITE) or not name or name == ":memory:":
        return None
    return Path(name).absolute()


def artifact_location(uri: str, experiment: str) -> str | None:
    """Returns where an experiment's artifacts lie: beside an SQLite file, else the server decides.

    Without it MLflow would put them below whatever folder the program was started in.
    """
    file = database_file(uri)
    return None if file is None else (file.parent / "mlruns" / experiment).as_uri()


def local_artifacts(uri: str) -> Path | None:
    """Returns the folder of a run's artifacts on this machine, or None if they lie elsewhere."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))


def without_credentials(text: str) -> str:
    """Returns a text with user names and passwords taken out of all addresses in it."""
    return _CREDENTIALS.sub("", text)


def is_server(uri: str) -> bool:
    """Returns whether an address is that of a server, which has a UI of its own."""
    return uri.startswith(tuple(f"{scheme}://" for scheme in _SERVERS))


def ui_command(uri: str, *studies: str) -> str:
    """Returns what a user types to see studies: a command, or a server's address.

    Args:
        uri: MLflow's address as given.
        studies: Names of the studies.
    """
    command = shlex.join(["hsearch", "ui", *studies])
    if uri == DEFAULT_URI:
        return command
    uri = checked_uri(uri)
    shown = without_credentials(uri)
    if is_server(uri):
        return shown
    store = shlex.quote(uri) if shown == uri else '"$MLFLOW_TRACKING_URI"'
    return f"{command} --tracking-uri {store}"
