"""Which knobs mattered: known from how the scores were made."""

import numpy as np
import pytest

from hsearch.search.importance import FEWEST_TRIALS, expected_scores, knob_importances
from hsearch.search.space import load_space
from tests.report.made_trials import DIFFICULTY, made_record, made_trial


def test_the_knob_that_decides_the_score_is_the_most_important():
    importances = knob_importances(made_record(40))
    assert next(iter(importances)) == "optimizer.lr.proxies"
    assert importances["optimizer.lr.proxies"] > 2 * importances["method.num_coarse"]
    assert sum(importances.values()) == pytest.approx(1.0)


def test_a_knob_that_few_trials_have_is_left_out():
    record = made_record(40)
    some = [t for t in record.trials if "method.fine_margin" in t.knobs]
    assert len(some) >= FEWEST_TRIALS
    assert "method.fine_margin" in knob_importances(record)
    fewer = {t.number for t in some[: FEWEST_TRIALS - 1]}
    kept = tuple(t for t in record.trials if t.number in fewer or t not in some)
    assert "method.fine_margin" not in knob_importances(record.model_copy(update={"trials": kept}))


def test_a_small_study_has_no_importances():
    assert knob_importances(made_record(FEWEST_TRIALS - 1)) == {}
    assert knob_importances(made_record(0)) == {}


def test_a_trial_that_lost_is_expected_as_far_behind_as_it_was():
    best = made_trial(0, "complete", 0.5 + np.array(DIFFICULTY))
    lost = made_trial(1, "lost", (0.5 + np.array(DIFFICULTY) - [0.1, 0.2, 0, 0])[:2])
    failed = made_trial(2, "failed", [0.9])
    record = made_record(0).model_copy(update={"trials": (best, lost, failed)})
    mean = 0.5 + np.mean(DIFFICULTY)
    assert expected_scores(record) == pytest.approx({0: mean, 1: mean - 0.15})


@pytest.mark.parametrize("method", ["hpl", "hier", "happier", "proxy_anchor"])
def test_the_record_knows_which_ranges_are_logarithmic(method):
    space = load_space(method)
    texts = {knob.name: f"{knob.domain}; when x = 1, log" for knob in space.knobs}
    spec = made_record(0).spec.model_copy(update={"space": texts})
    ours = {knob.name: getattr(knob.domain, "log", False) for knob in space.knobs}
    assert {name: spec.is_log(name) for name in texts} == ours
    assert any(ours.values())
