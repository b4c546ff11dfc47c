"""A wrong search-space file ends in one sentence that names the file and the line."""

from pathlib import Path

import pytest

from hsearch.errors import ConfigError
from hsearch.search.domain import Choices, Interval, KnobRange, StartPoint
from hsearch.search.space import load_space
from hsearch.spec import KnobValue


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine" / "hpl.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_every_form_of_a_knob_is_read(tmp_path):
    space = load_space(
        "hpl",
        write(
            tmp_path,
            """
knobs:
  method.base: {choices: [proxy_nca, proxy_anchor]}
  method.num_coarse: {low: 2, high: 50, log: true, high_per_class: 0.5}
  method.update_period: {low: 10, high: 80, step: 10}
  method.fine_margin:
    low: 0
    high: 0.4
    step: 0.1
    when: {method.base: proxy_anchor, method.coarse_mode: [param, mean]}
  optimizer.weight_decay: {low: 1.0e-6, high: 0.01, log: true}
  batch.per_class: {choices: [2, 4]}
  optimizer.nesterov: {choices: [true, false]}
start:
  - source: a paper
    values: {method.base: proxy_anchor, method.fine_margin: 0.3, batch.per_class: 4}
""",
        ),
    )
    assert space.knobs == (
        KnobRange("method.base", Choices(("proxy_nca", "proxy_anchor")), {}),
        KnobRange("method.num_coarse", Interval(2, 50, log=True, high_per_class=0.5), {}),
        KnobRange("method.update_period", Interval(10, 80, step=10), {}),
        KnobRange(
            "method.fine_margin",
            Interval(0.0, 0.4, step=0.1),
            {"method.base": ("proxy_anchor",), "method.coarse_mode": ("param", "mean")},
        ),
        KnobRange("optimizer.weight_decay", Interval(1e-6, 0.01, log=True), {}),
        KnobRange("batch.per_class", Choices((2, 4)), {}),
        KnobRange("optimizer.nesterov", Choices((True, False)), {}),
    )
    values: dict[str, KnobValue] = {
        "method.base": "proxy_anchor",
        "method.fine_margin": 0.3,
        "batch.per_class": 4,
    }
    assert space.start == (StartPoint("a paper", values),)
    assert len(space.distributions()) == 7


WRONG_KNOBS = {
    "method.fine_scal: {low: 1.0, high: 2.0}": "Did you mean 'method.fine_scale'",
    "methd.fine_scale: {low: 1.0, high: 2.0}": "unknown knob 'methd.fine_scale'; valid names: "
    "batch",
    "optimizer.lr.proxy: {low: 1.0, high: 2.0}": "Did you mean 'optimizer.lr.proxies'",
    "schedule: {low: 1, high: 2}": "unknown knob 'schedule'",
    "method.base: {choices: [proxy_anchor, proxy_nca], min_levels: 0}": "must be 1, 2, 3 or so",
    "method.base: {choices: [proxy_anchor, proxy_nca], min_levels: x}": "must be a number",
    "image.scale: {low: 0.1, high: 0.2}": "unknown knob 'image.scale'",
    "method.fine_scale: {lo: 1.0, high: 2.0}": "unknown key 'lo'; valid names",
    "method.fine_scale: {low: 1.0, high: 2.0, choices: [1.0]}": "unknown key 'low'; valid names: "
    "choices, min_levels, when",
    "method.fine_scale: {low: 2.0, high: 1.0}": "`low` must be below `high`, but got 2.0 and 1.0",
    "method.fine_scale: {low: 2.0, high: 2.0}": "is empty",
    "method.fine_scale: {low: 2.0}": "needs `low` and `high`, or `choices`",
    "method.fine_scale: {log: true}": "needs `low` and `high`, or `choices`",
    "method.fine_scale: 2.0": "must be a mapping",
    "method.fine_scale: {}": "must be a mapping that is not empty",
    "method.fine_scale: {low: one, high: 2.0}": "`low` of 'method.fine_scale' must be a number, "
    "not 'one'",
    "method.fine_scale: {low: true, high: 2.0}": "must be a number, not True",
    "method.fine_scale: {low: 1.0, high: .inf}": "must be a number, not inf",
    "method.fine_scale: {low: 1e-3, high: 1.0}": "YAML reads `1e-3` as text",
    "method.fine_scale: {low: 0.0, high: 1.0, log: true}": "needs `low` above 0",
    "method.fine_scale: {low: 1.0, high: 2.0, log: maybe}": "must be true or false, not 'maybe'",
    "method.fine_scale: {low: 1.0, high: 4.0, log: true, step: 1.0}": "both `log` and `step`",
    "method.fine_scale: {low: 1.0, high: 2.0, step: 0.3}": "whole number of steps",
    "method.fine_scale: {low: 1.0, high: 2.0, step: 0}": "whole number of steps",
    "method.fine_scale: {low: 1.0, high: 2.0, high_per_class: 0.5}": "limit a count",
    "method.num_coarse: {low: 2.5, high: 9}": "must be of type int, but got 2.5",
    "method.num_coarse: {low: 2.0, high: 9.0}": "must be of type int, but got 2.0",
    "method.num_coarse: {low: 2, high: 8, step: 1.5}": "whole number of steps",
    "method.num_coarse: {low: 2, high: 8, high_per_class: -1}": "must be above 0",
    "method.num_coarse: {low: 2, high: 8, high_per_class: half}": "must be a number, not 'half'",
    "method.base: {low: 1, high: 2}": "'method.base' is no number, so it needs `choices`",
    "method.base: {choices: [proxy_anchor, proxy_ncb]}": "must be one of proxy_anchor, proxy_nca",
    "method.base: {choices: [proxy_anchor]}": "two or more different values",
    "method.base: {choices: [proxy_nca, proxy_nca]}": "two or more different values",
    "method.base: {choices: [proxy_nca, [x]]}": "a single value is needed here",
    "method.base: {choices: [proxy_nca, null]}": "a single value is needed here",
    "method.fine_scale: {choices: [1.0, wide]}": "must be of type float, but got 'wide'",
    "optimizer.momentum: {low: 0.5, high: 1.5}": "'optimizer.momentum' cannot be 1.5",
    "model.pooling: {choices: [avg, sum]}": "'model.pooling' cannot be 'sum'",
    "batch.size: {low: 8.5, high: 64}": "'batch.size' cannot be 8.5",
    "method.fine_margin: {low: 0.0, high: 0.4, when: proxy_nca}": ".when` must be a mapping",
    "method.fine_margin: {low: 0.0, high: 0.4, when: {method.bas: proxy_nca}}": "Did you mean "
    "'method.base'",
    "method.fine_margin: {low: 0.0, high: 0.4, when: {method.base: nca}}": "must be one of "
    "proxy_anchor",
    "method.fine_margin: {low: 0.0, high: 0.4, when: {optimizer.name: sgd}}": "must name a knob "
    "that stands above it, but 'optimizer.name' does not",
    "method.fine_margin: {low: 0.0, high: 0.4, when: {method.fine_margin: 0.1}}": "stands above",
    "method.fine_margin: {low: 0.0, high: 0.4, when: {method.coarse_weight: 1.0}}": "stands above",
    "method.coarse_scale: {low: 0.0, high: 0.4}": "the key 'method.coarse_scale' stands twice",
}


@pytest.mark.parametrize(("knob", "message"), WRONG_KNOBS.items())
def test_a_wrong_knob_is_named_with_its_line(tmp_path, knob, message):
    above = "knobs:\n  method.coarse_scale: {low: 1.0, high: 2.0}\n"
    below = "\n  method.coarse_weight: {low: 1.0, high: 2.0}\n"
    with pytest.raises(ConfigError) as caught:
        load_space("hpl", write(tmp_path, f"{above}  {knob}{below}"))
    assert str(caught.value).startswith("mine/hpl.yaml:3: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


START = """
knobs:
  method.base: {choices: [proxy_anchor, proxy_nca]}
  method.fine_margin: {low: 0.0, high: 0.4, when: {method.base: proxy_anchor}}
start:
"""


@pytest.mark.parametrize(
    ("start", "line", "message"),
    [
        ("  nothing", 5, "`start` must be a list"),
        ("  - 3", 6, "must be a mapping"),
        ("  - {values: {method.fine_margin: 0.1}}", 6, "needs a `source`"),
        ("  - {source: 7, values: {method.fine_margin: 0.1}}", 6, "needs a `source`"),
        ("  - source: x", 6, "`start.0.values` must be a mapping"),
        ("  - source: x\n    values: {}", 7, "`start.0.values` must be a mapping"),
        ("  - source: x\n    value: {}", 7, "Did you mean 'values'"),
        (
            "  - source: x\n    values:\n      method.fine_margn: 0.1",
            8,
            "Did you mean 'method.fine_margin'",
        ),
        (
            "  - source: x\n    values:\n      method.fine_scale: 9.0",
            8,
            "'method.fine_scale' is not searched",
        ),
        (
            "  - source: x\n    values:\n      method.fine_margin: 0.5",
            8,
            "is 0.5, but its range is 0 to 0.4",
        ),
        (
            "  - source: x\n    values:\n      method.fine_margin: wide",
            8,
            "must be of type float, but got 'wide'",
        ),
        (
            "  - source: x\n    values: {method.fine_margin: 0.1, method.base: proxy_nca}",
            7,
            "sets 'method.fine_margin', whose condition it does not meet",
        ),
    ],
)
def test_a_wrong_start_point_is_named_with_its_line(tmp_path, start, line, message):
    with pytest.raises(ConfigError) as caught:
        load_space("hpl", write(tmp_path, START + start + "\n"))
    assert str(caught.value).startswith(f"mine/hpl.yaml:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hpl.yaml:1: `knobs` must be a mapping"),
        ("knobs:\n", "hpl.yaml:1: `knobs` must be a mapping"),
        ("knob: {}\n", "hpl.yaml:1: unknown key 'knob'; valid names: knobs, start. Did you mean"),
    ],
)
def test_a_file_without_knobs_says_so(tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        load_space("hpl", write(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_space("hpl", tmp_path / "gone.yaml")
