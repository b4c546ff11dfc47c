"""The entrance: help without heavy imports, and every error a user can make as one sentence."""

import errno
import os
import re
import signal
import subprocess
import sys
import types

import click
import pytest
from click.testing import CliRunner, Result

import hsearch
from hsearch.cli.main import VERBS, main
from hsearch.errors import ClusterError, ConfigError, DatasetError, DivergedError

HEAVY = {
    *("faiss", "matplotlib", "mlflow", "numpy", "optuna", "pandas", "PIL", "pyarrow", "pydantic"),
    *("ray", "rich", "scipy", "sklearn", "timm", "torch", "torchvision", "yaml"),
}


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="hsearch")


@pytest.fixture
def verb(monkeypatch):
    """Makes `hsearch data` run the given function."""

    def put(function) -> None:
        module = types.ModuleType("hsearch.cli.data")
        module.__dict__["data"] = click.command("data")(function)
        monkeypatch.setitem(sys.modules, "hsearch.cli.data", module)

    return put


@pytest.mark.parametrize("args", [["--help"], ["-h"], []])
def test_help_lists_every_verb_with_its_line(args):
    result = run(*args)
    assert result.exit_code == (0 if args else 2)
    shown = result.output
    lines = dict(line.strip().split("  ", 1) for line in shown.split("Commands:\n")[1].splitlines())
    assert {verb: text.strip() for verb, text in lines.items()} == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_of_a_verb_is_the_first_of_its_own_help(verb):
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    assert command.get_short_help_str(limit=200) == VERBS[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_under_both_names(verb):
    assert run(verb, "-h").output == run(verb, "--help").output
    assert f"Usage: hsearch {verb}" in run(verb, "-h").output


def test_help_imports_nothing_heavy():
    program = (
        "import sys\n"
        "from hsearch.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print('MODULES', *sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert HEAVY & set(out.split("MODULES")[1].split()) == set()


@pytest.mark.parametrize(
    "args", [["tune", "--method", "hpl", "--trials", "abc"], ["tune"], ["data", "show"]]
)
def test_wrong_usage_is_one_line_that_names_the_help(args):
    result = run(*args)
    assert result.exit_code == 2
    assert re.fullmatch(r"hsearch: error: .* More: `\S+ .*--help`\.\n", result.stderr)


def test_version():
    assert run("--version").output == f"hsearch, version {hsearch.__version__}\n"


def test_python_dash_m_is_the_same_program():
    done = subprocess.run(
        [sys.executable, "-m", "hsearch", "--help"], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == run("--help").output.split()


def test_an_unknown_verb_is_answered_with_the_nearest():
    result = run("methds")
    assert result.exit_code == 2
    assert "Unknown command 'methds'" in result.stderr
    assert "Did you mean 'methods'?" in result.stderr


@pytest.mark.parametrize(
    ("args", "nearest"), [(["--versio"], "--version"), (["methods", "--jso"], "--json")]
)
def test_an_unknown_option_is_answered_with_the_nearest(args, nearest):
    result = run(*args)
    assert result.exit_code == 2
    assert f"Did you mean '{nearest}'?" in result.stderr or f"mean {nearest}?" in result.stderr


@pytest.mark.parametrize(
    ("kind", "code"), [(ConfigError, 2), (DatasetError, 2), (DivergedError, 1), (ClusterError, 1)]
)
def test_an_error_of_ours_is_one_sentence_and_its_exit_code(verb, kind, code):
    def fail() -> None:
        raise kind("The rule; what was given; what to do.")

    verb(fail)
    result = run("data")
    assert result.stderr == "hsearch: error: The rule; what was given; what to do.\n"
    assert result.stdout == ""
    assert result.exit_code == code


def test_no_permission_is_a_sentence_but_a_programmers_mistake_is_not_hidden(verb):
    def refused() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "runs/x")

    verb(refused)
    result = run("data")
    assert (result.exit_code, result.stderr) == (
        1,
        "hsearch: error: Permission denied: runs/x\n",
    )

    def broken() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "x")

    verb(broken)
    assert isinstance(run("data").exception, FileNotFoundError)


@pytest.mark.parametrize("folder", ["file", "file/x", "file/x/y"])
def test_a_file_in_place_of_the_data_folder_is_a_sentence(tmp_path, monkeypatch, folder):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / folder))
    result = run("data", "show", "glyphs")
    assert result.exit_code == 2
    assert re.fullmatch(r"hsearch: error: .*file is a file; set HSEARCH_DATA .*\n", result.stderr)


@pytest.mark.parametrize("args", [["data", "show"], ["train", "--method", "hpl", "--data"]])
def test_a_name_that_is_too_long_is_a_sentence(tmp_path, monkeypatch, args):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = run(*args, 300 * "a")
    assert result.exit_code == 2
    assert "hsearch: error: The name of a data set must be up to 100 letters" in result.stderr
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / (300 * "a")))
    result = run(*args, "glyphs")
    assert result.exit_code == 1
    assert "hsearch: error: File name too long: " in result.stderr


def test_an_interrupt_is_one_word_and_130(verb):
    def interrupted() -> None:
        raise KeyboardInterrupt

    verb(interrupted)
    result = run("data")
    assert (result.exit_code, result.stderr) == (130, "hsearch: interrupted\n")


def test_a_real_interrupt_leaves_no_traceback():
    program = (
        "import sys, time, types, click\n"
        "from hsearch.cli.main import main\n"
        "module = types.ModuleType('hsearch.cli.data')\n"
        "def wait():\n"
        "    print('ready', flush=True)\n"
        "    for _ in range(600):\n"  # a signal just before a sleep does not shorten it
        "        time.sleep(0.1)\n"
        "module.data = click.command('data')(wait)\n"
        "sys.modules['hsearch.cli.data'] = module\n"
        "main(['data'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (130, "hsearch: interrupted\n")


def test_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hsearch", "methods"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.stderr == ""
