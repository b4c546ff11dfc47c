"""Files that describe a cluster, for `ray up` or for KubeRay."""

import os
import secrets
import shlex
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import jinja2

import hsearch
from hsearch.cluster.postgres import PORT as POSTGRES_PORT
from hsearch.cluster.questions import NOTHING
from hsearch.errors import ConfigError
from hsearch.files import write_whole
from hsearch.tracking.server import PORT as MLFLOW_PORT
from hsearch.tracking.server import SETTINGS, artifact_settings

TOKEN = Path("~/.hsearch/ray_token")
"""Who has its content may use the cluster."""

PROJECT = (
    *("hsearch", "search_spaces"),
    *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
)
"""What of a checkout machines need to install it; nothing else leaves the user's machine."""

_TEMPLATES = Path(__file__).parent / "templates"
_ENVIRONMENT = "~/hsearch-env"  # of Python, on every machine
_BUCKETS = {"aws": "s3://{}/hsearch", "gcp": "gs://{}/hsearch"}


def cluster_file(
    provider: str, answers: Mapping[str, str], *, project: str = ".", file: str = "cluster.yaml"
) -> str:
    """Returns the content of a cluster file.

    Args:
        provider: One of `PROVIDERS`.
        answers: To all of its questions, checked.
        project: Folder of the checkout that the machines install.
        file: Name that the file gets.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # it is YAML
    )
    templates.filters["shell"] = shlex.quote
    values = {key.replace("-", "_"): answer for key, answer in answers.items()}
    return templates.get_template(f"{provider}.yaml").render(
        {**values, **_derived(provider, answers)},
        provider=provider,
        project=project,
        mounted=PROJECT,
        file=shlex.quote(file),
        version=hsearch.__version__,
        ray_version=metadata.version("ray"),
        postgres_port=POSTGRES_PORT,
        mlflow_port=MLFLOW_PORT,
    )


def _derived(provider: str, answers: Mapping[str, str]) -> dict[str, object]:
    """What follows from the answers."""
    hosts = answers.get("worker-hosts", "").split(",")
    workers = int(answers.get("workers", len(hosts)))
    spot = answers.get("market") == "spot"
    shared = answers.get("shared") or _BUCKETS[provider].format(answers["bucket"])
    installed = answers.get("installed", NOTHING)
    environment = _ENVIRONMENT if installed == NOTHING else installed.rstrip("/")
    return {
        "shared": shared,
        "data": _data_folder(shared),
        "gs": shared.startswith("gs:"),
        "mlflow_settings": {**SETTINGS, **artifact_settings(shared, Path("/"))},
        "groups": workers * int(answers["worker-gpus"]),
        "workers": workers,
        "worker_hosts": hosts,
        "spot": workers if spot else 0,
        "on_demand": 0 if spot else workers,
        "region": answers.get("region") or answers.get("zone", "").rpartition("-")[0],
        "installed": "" if installed == NOTHING else environment,
        "bin": f"{environment}/bin",
        "path": f"{environment}/bin".replace("~", "$HOME"),
    }


def _data_folder(shared: str) -> str:
    """Where prepared data lie in a shared store, as `hsearch data prepare --to` takes it."""
    place, mark, options = shared.partition("?")
    folder = f"{place.rstrip('/')}/data{mark}{options}"
    return folder if "://" in folder else f"file://{folder}"


def project_folder(given: Path | None, file: Path) -> str:
    """Returns the checkout that machines install, as it is written into the cluster file.

    Args:
        given: By the user; None takes the checkout that this program runs from, or else the current
            folder.
        file: The cluster file; in the checkout itself, the checkout is `.`.
    """
    tried = [given] if given else [Path(hsearch.__file__).parents[1], Path.cwd()]
    folders = [Path(os.path.expanduser(folder)).resolve() for folder in tried]
    folder = next(filter(_is_checkout, folders), None)
    if folder is None:
        what = f"{folders[0]} is none" if given else "neither hsearch nor this folder is in one"
        raise ConfigError(
            f"Machines install hsearch from a checkout, but {what}; name one with `--project`."
        )
    if folder == file.absolute().parent.resolve():
        return "."
    shown = str(folder)
    if not shown.isprintable() or set(shown) & set("\"'\\$`"):
        raise ConfigError(
            f"The path of the checkout must be plain, but {shown!r} is not; name another copy with "
            "`--project`."
        )
    return shown


def _is_checkout(folder: Path) -> bool:
    """Whether hsearch can be installed from a folder."""
    if not all((folder / name).exists() for name in PROJECT):
        return False
    with suppress(OSError, ValueError, KeyError, TypeError):
        described = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return bool(described["project"]["name"] == "hsearch")
    return False


def check_token() -> None:
    """Refuses a token that is there but keeps nobody out."""
    path = TOKEN.expanduser()
    if not os.path.lexists(path):
        return
    if not path.is_file():
        trouble = "is none"
    elif path.stat().st_mode & 0o077:
        trouble = "is open to others"
    elif not path.read_text(encoding="ascii", errors="replace").strip():
        trouble = "is empty"
    else:
        return
    raise ConfigError(
        f"The token of a cluster must be a file for you alone (`chmod 600`), but {path} {trouble}; "
        "remove it, and `hsearch cluster init` makes a new one."
    )


def make_token() -> Path:
    """Returns the file of the cluster's token; a missing one is made, for this user alone."""
    path = TOKEN.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    return path


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuses a file that cannot be written, or that would replace another without force."""
    if not path.name.isprintable():  # its commands stand in comments, one line each
        raise ConfigError(
            f"The name of a cluster file must be printable, but is {path.name!r}; name another "
            "file with `--write`."
        )
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"The folder of {path} does not exist; make it first.")
    if not os.path.lexists(path):
        return
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ConfigError(
            f"`--write` must name a new file or a regular one, but {path} is something else; name "
            "another file."
        )
    if not force:
        raise ConfigError(
            f"{path} exists already; replace it with `--force`, or name another file with "
            "`--write`."
        )


def write_cluster_file(path: Path, content: str) -> None:
    """Writes the file whole or not at all."""
    try:
        write_whole(path, content.encode())
    except OSError as error:
        raise ConfigError(
            f"`--write` must name a file that can be written, but {path} cannot: "
            f"{error.strerror}; name another file."
        ) from None
