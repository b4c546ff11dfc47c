"""`hsearch cluster`: files that describe a cluster, and what runs on its machines."""

import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import click

from hsearch.cluster.postgres import PORT as POSTGRES_PORT
from hsearch.cluster.questions import (
    NOTHING,
    PROVIDERS,
    QUESTIONS,
    TOGETHER,
    Question,
    questions_of,
    unset,
)
from hsearch.errors import ConfigError
from hsearch.tracking.server import PORT as MLFLOW_PORT

_Command = Callable[..., None]
_NEXT = {
    "kuberay": "`kubectl apply -f {}`; the top of the file says what to do before.",
    **dict.fromkeys(("aws", "gcp", "local"), "`ray up {}`; the top of the file says the rest."),
}


@click.group()
def cluster() -> None:
    """Describe a cluster for Ray or Kubernetes, and serve its records."""


def _question_options(command: _Command) -> _Command:
    """Adds a flag for every question."""
    for question in reversed(QUESTIONS):
        help_text = f"{question.text} ({', '.join(question.defaults)})."
        command = click.option(question.flag, metavar="TEXT", help=help_text)(command)
    return command


@cluster.command()
@click.option(
    "--provider", required=True, type=click.Choice(PROVIDERS), help="Who has the machines."
)
@click.option(
    "--write",
    "file",
    default="cluster.yaml",
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the file goes.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False),
    help="Checkout of hsearch that the machines install; by default the one that runs here, or the "
    "current folder.",
)
@_question_options
def init(provider: str, file: Path, force: bool, project: Path | None, **flags: str | None) -> None:
    """Write a cluster file for your case.

    On a terminal, what is most often changed and was not given by a flag is asked. Flags that end
    with a name of a provider belong to that one.
    """
    from hsearch.cluster import cluster_file as files
    from hsearch.cluster.answers import check_flags, checked_answers

    given = {key.replace("_", "-"): value for key, value in flags.items() if value is not None}
    check_flags(provider, given)
    checked_answers(provider, {**_any_answers(provider), **given})
    files.check_new_file(file, force=force)
    files.check_token()
    folder = _project(provider, given, project, file)
    answers = checked_answers(provider, {**given, **_asked(provider, given)})
    content = files.cluster_file(provider, answers, project=folder, file=file.name)
    token = files.make_token()
    files.write_cluster_file(file, content)
    command = _NEXT[provider].format(shlex.quote(str(file)))
    click.echo(f"{file}: a cluster on {provider}. Next: {command}")
    click.echo(f"Who has {token} may use the cluster: keep it.")
    if waiting := unset(answers):
        click.echo(f"Still to be set in {file}: {', '.join(waiting)}.")


def _project(provider: str, given: Mapping[str, str], project: Path | None, file: Path) -> str:
    """The checkout that the machines install, where they install one."""
    from hsearch.cluster.cluster_file import project_folder

    if provider != "kuberay" and given.get("installed", NOTHING) == NOTHING:
        return project_folder(project, file)
    if project is not None:
        raise ConfigError("`--project` is only for machines on which hsearch is to be installed.")
    return ""


def _any_answers(provider: str) -> dict[str, str]:
    """Something for what has no default but will be asked, so that the rest is checked before."""
    waiting = [q for q in questions_of(provider) if not q.defaults[provider]]
    return {q.key: q.key for q in waiting} if sys.stdin.isatty() else {}


def _asked(provider: str, given: Mapping[str, str]) -> dict[str, str]:
    """What the user answers, on a terminal alone."""
    answers: dict[str, str] = {}
    waiting = [q for q in questions_of(provider) if q.asked and q.key not in given]
    for question in waiting if sys.stdin.isatty() else ():
        answers[question.key] = _answer(provider, question, {**given, **answers})
    return answers


def _answer(provider: str, question: Question, before: Mapping[str, str]) -> str:
    """What the user answers to one question, asked again until it is right."""
    from hsearch.cluster.answers import checked_answers

    def right(answer: str) -> str:
        answer = answer.strip()
        try:
            checked_answers(provider, {**_any_answers(provider), **before, question.key: answer})
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        return answer

    default = _default(provider, question, before)
    try:
        return str(click.prompt(question.text, default=default, value_proc=right))
    except click.Abort:
        raise KeyboardInterrupt from None


def _default(provider: str, question: Question, before: Mapping[str, str]) -> str | None:
    """The usual answer, unless it is that of another type of machine than the user wants."""
    usual = {q.key: q.defaults[provider] for q in questions_of(provider)}
    for kind, *parts in TOGETHER:
        if question.key in parts and kind in before and before[kind] != usual[kind]:
            return None
    return usual[question.key] or None


@cluster.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Of all data and logs; by default ~/.hsearch, or /var/lib/hsearch for root.",
)
@click.option(
    "--postgres-port",
    default=POSTGRES_PORT,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Of PostgreSQL.",
)
@click.option(
    "--mlflow-port",
    default=MLFLOW_PORT,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Of MLflow.",
)
@click.option(
    "--with-ray",
    "ray",
    metavar="HOST:PORT",
    help="End when the Ray head at that address has not answered for 20 seconds.",
)
def serve(folder: Path | None, postgres_port: int, mlflow_port: int, ray: str | None) -> None:
    """Keep PostgreSQL and MLflow running on this machine, on loopback.

    For the head node of a cluster: the record of the studies and the runs are there for all who
    work on it. Either is started again when it ends; the password of PostgreSQL is in ~/.pgpass.
    Artifacts lie in $HSEARCH_SHARED where that is set. One such process is enough: another says so
    and ends.
    """
    from hsearch.cluster.services import default_folder
    from hsearch.cluster.services import serve as keep

    keep(folder or default_folder(), (postgres_port, mlflow_port), ray, _say)


def _say(event: str) -> None:
    click.echo(f"{datetime.now().astimezone().isoformat(timespec='seconds')} {event}")


@cluster.command()
@click.option(
    "--provider", required=True, type=click.Choice(("aws", "gcp")), help="Whose machine this is."
)
@click.option("--address", required=True, metavar="HOST:PORT", help="Of the Ray head.")
@click.option("--metadata", metavar="URL", help="Of another metadata service than the provider's.")
def notice(provider: str, address: str, metadata: str | None) -> None:
    """Drain this machine when the cloud takes it back.

    For spot workers of a cluster: asks for the cloud's notice every 5 seconds, tells Ray of it, and
    ends when Ray has ended here.
    """
    from hsearch.cluster.notice import watch

    watch(provider, address, metadata, _say)
