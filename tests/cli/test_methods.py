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
from hsearch.recipes import recipes_of
from hsearch.search.space import load_space


def run(*args: str) -> str:
    result = CliRunner().invoke(main, ["methods", *args])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_names_every_method_with_summary_in_80_columns():
    listed = json.loads(run("--json"))
    assert [method["name"] for method in listed] == available_methods()
    assert all(method["summary"] and "arXiv" in method["paper"] for method in listed)
    lines = run().splitlines()
    for method in listed:
        assert any(
            line.startswith(method["name"]) and line.endswith(method["summary"]) for line in lines
        )
    assert max(map(len, lines)) <= 80


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
        assert shown[knob_range.name]["min_levels"] == knob_range.min_levels
    assert [recipe["name"] for recipe in page["recipes"]] == list(recipes_of(name))
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
    assert "hpl/classic resnet50.tv_in1k 512 adamw 0.0001 30 128 shuffle 224" in lines


def test_values_are_shown_as_they_are_typed():
    lines = [" ".join(line.split()) for line in run("happier").splitlines()]
    assert "method.hrank false false, true 2 or more levels" in lines
    assert ("method.hrank_leak 10.0 1 to 50, log method.hrank = true, 2 or more levels") in lines
    assert any(line.endswith("method.hrank=true") for line in lines)
    assert not any("True" in line or "False" in line for line in lines)


def test_recipes_are_shown_with_what_they_give_to_the_method():
    lines = [" ".join(line.split()) for line in run("happier").splitlines()]
    assert (
        "happier/inat resnet50.tv_in1k 512 adam 1e-05 100 256 m_per_class_once 224 "
        "start=0.0, offset=1.0"
    ) in lines
    csl = [line for line in run("csl").splitlines() if line.startswith("happier/")]
    assert len(csl) == 5
    assert any(line.startswith("happier/sop ") and "margin_step=0.2" in line for line in csl)


@pytest.mark.parametrize("name", available_methods())
def test_every_method_has_a_published_recipe(name):
    assert recipes_of(name)


def test_a_group_as_fast_as_the_backbone_is_told_so():
    assert "`classifier` learns as fast as the backbone unless" in run("cross_entropy")


def test_lcas_are_explained():
    assert "LCAs (lowest common ancestors)" in run("hier")


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
