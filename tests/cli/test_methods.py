"""`hsearch methods`: every method; for one of them every knob, its range and published value."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.cli.output import plain_lines
from hsearch.methods import available_methods, knobs_of, load_method
from hsearch.search.space import load_space


def run(*args: str) -> str:
    result = CliRunner().invoke(main, ["methods", *args])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_names_every_method_with_summary_and_paper():
    listed = json.loads(run("--json"))
    assert [method["name"] for method in listed] == available_methods()
    assert all(method["summary"] and "arXiv" in method["paper"] for method in listed)
    text = run()
    for method in listed:
        assert any(
            line.startswith(method["name"])
            and method["summary"] in line
            and method["paper"] in line
            for line in text.splitlines()
        )


@pytest.mark.parametrize("name", available_methods())
def test_one_method_in_json_is_complete(name):
    page = json.loads(run(name, "--json"))
    space = load_space(name)
    own = {f"method.{knob}": about for knob, about in knobs_of(load_method(name)).items()}
    shown = {knob["name"]: knob for knob in page["knobs"]}
    assert set(shown) == set(own) | {knob.name for knob in space.knobs}
    for key, knob in own.items():
        assert shown[key]["published"] == knob.default
        assert shown[key]["about"] == knob.about != ""
    for knob_range in space.knobs:
        assert shown[knob_range.name]["searched"] is not None
        assert shown[knob_range.name]["when"].keys() == knob_range.when.keys()
    assert page["groups"] == dict(load_method(name).groups)
    assert [point["source"] for point in page["start"]] == [point.source for point in space.start]


def test_one_method_as_text_tells_ranges_conditions_and_sources():
    lines = [" ".join(line.split()) for line in run("hpl").splitlines()]
    assert "method.fine_margin 0.1 0 to 0.4 method.base = proxy_anchor" in lines
    assert "method.fine_scale 32.0 4 to 64, log" in lines
    assert "method.coarse_mode param no" in lines
    assert "optimizer.lr.proxies the recipe's 0.0001 to 1, log" in lines
    assert any(line.startswith("method.base proxy_anchor | proxy_nca The loss") for line in lines)
    assert any("learns 100 times as fast as the backbone" in line for line in lines)
    assert any("supplement figure 2 (Cars-196" in line for line in lines)
    assert any(line.startswith("hpl/classic HPL's first evaluation protocol") for line in lines)


def test_an_unknown_method_is_one_sentence_with_the_nearest():
    result = CliRunner().invoke(main, ["methods", "proxy_ancor"])
    assert result.exit_code == 2
    assert "Did you mean 'proxy_anchor'?" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_terminal_gets_a_drawn_table():
    main_end, terminal = pty.openpty()
    shown = b""
    with os.fdopen(main_end, "rb", closefd=True) as screen:
        environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
        command = [sys.executable, "-m", "hsearch", "methods"]
        with subprocess.Popen(command, stdout=terminal, env=environment) as process:
            os.close(terminal)
            with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
                while part := os.read(screen.fileno(), 4096):
                    shown += part
    assert process.returncode == 0
    text = shown.decode()
    assert "───" in text
    assert all(name in text for name in available_methods())


def test_plain_columns_are_aligned():
    assert plain_lines(["a", "bb"], [["x", "y"], ["long", ""]]) == ["A     BB", "x     y", "long"]
