"""The entrance of the command line: finds the verb, and turns errors into one sentence.

Nothing heavy is imported here; a verb's module is imported when the verb is run or asked for help.
"""

import errno
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click
from click.exceptions import NoArgsIsHelpError

import hsearch
from hsearch.errors import HsearchError, did_you_mean

# The first line of each verb's own help, so that `hsearch --help` need not import it.
VERBS = {
    "data": "Prepare data sets and look at them.",
    "methods": "List the methods, or show one with its knobs and ranges.",
    "recipes": "List the recipes, or print one as YAML to copy.",
    "tune": "Search the best knobs of a method; run again, it continues.",
    "attach": "Watch a running search, from anywhere; Ctrl-C leaves it alone.",
    "stop": "Stop searches and reproductions, from anywhere; they can go on.",
    "studies": "List the studies, or show one with its best knobs and all trials.",
    "reproduce": "Train the best trial again with new seeds, and test it.",
    "compare": "Compare reproduced studies: who is best, and was it fair.",
    "train": "Train one method on one fold; the same command again resumes it.",
    "evaluate": "Score trained networks, or embeddings from a file.",
    "ui": "Open MLflow's UI on this machine; Ctrl-C ends it.",
    "look": "Draw pictures of a study or of a trained network.",
    "clean": "Show what takes space, or remove what is named.",
    "cluster": "Describe a cluster for Ray or Kubernetes, and serve its records.",
}

# Troubles of the machine or of a path that was given, not of the program: no permission, no space,
# read-only; a file where a folder must be, or the other way round; a name that is too long.
_MACHINE = {
    *(errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS),
    *(errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG),
}
_INTERRUPTED = 130
_TERMINATED = 143


class LazyGroup(click.Group):
    """A group whose verb `x` is the command `x` of the module `hsearch.cli.x`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the verbs in the order of a user's day."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of the verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"hsearch.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the verb; an unknown one is answered with the nearest."""
        verb = args[0]
        if verb not in VERBS and not verb.startswith("-"):
            raise click.UsageError(f"Unknown command '{verb}'; {did_you_mean(verb, VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Runs the verb; an error that a user can act on becomes one sentence."""
        terminated = threading.Event()
        try:
            with _termination(terminated), _broken_off_sessions():
                return super().invoke(ctx)
        except HsearchError as error:
            _end(ctx, f"error: {error}", error.exit_code)
        except NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "hsearch"
            _end(ctx, f"error: {error.format_message()} More: `{where} --help`.", error.exit_code)
        except KeyboardInterrupt:
            if terminated.is_set():
                _end(ctx, "terminated", _TERMINATED)
            _end(ctx, "interrupted", _INTERRUPTED)
        except OSError as error:
            if error.errno not in _MACHINE:
                raise
            _end(ctx, f"error: {error.strerror}: {error.filename or 'no file named'}", 1)


@contextmanager
def _termination(terminated: threading.Event) -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end a verb as Ctrl-C does.

    Batch systems and containers send the one, a terminal that is closed the other; who ignores
    SIGHUP, as below nohup, goes on doing so.
    """

    def terminate(number: int, frame: object) -> NoReturn:
        terminated.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, terminate)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _broken_off_sessions() -> Iterator[None]:
    """Ends what a verb that ended well has left at work, as a search that was stopped may."""
    try:
        yield
    except click.exceptions.Exit as ended:
        _end_process(ended.exit_code)
        raise
    _end_process(0)


def _end(ctx: click.Context, sentence: str, exit_code: int) -> NoReturn:
    click.echo(f"hsearch: {sentence}", err=True)
    _end_process(exit_code)
    ctx.exit(exit_code)


def _end_process(exit_code: int) -> None:
    session = sys.modules.get("hsearch.cluster.session")  # heavy, so it is here only if it was used
    if session is not None:
        session.end_process(exit_code)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hsearch.__version__, prog_name="hsearch")
def main() -> None:
    """Find out which (hierarchical) metric-learning loss works best on your images.

    \b
    First steps, offline and on any machine:
      hsearch methods
      hsearch train --method hpl --data glyphs
      hsearch tune --method hpl --data glyphs --trials 10
    """  # noqa: D301 (click wants the backspace itself)
