import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag
from scipy import stats

from hsearch.tracking.points import Point, legal_key, points_of, study_points, trial_points
from tests.tracking.made_records import START, growing, made_study, made_trial

SCORES = (0.5, 0.6, 0.55, 0.62)


def by_key(points: Iterable[Point]) -> dict[str, dict[int, Point]]:
    found: dict[str, dict[int, Point]] = {}
    for point in points:
        found.setdefault(point.key, {})[point.step] = point
    return found


def test_folds_are_curves_over_epochs():
    found = by_key(trial_points(made_trial(3, "running", SCORES[:2], epochs=2)))
    values = {step: point.value for step, point in found["fold1/val/map_at_r"].items()}
    assert values == pytest.approx({0: 0.0, 1: 0.3, 2: 0.6})
    assert set(found["fold0/train/loss"]) == {1, 2}
    assert found["fold0/best/map_at_r"][2].value == 0.5
    assert found["fold0/lr/proxies"][1].value == 0.03
    times = [found["fold1/val/map_at_r"][step].time for step in (0, 1, 2)]
    assert times == [1000 * (START + 300) + 500 * epoch for epoch in (1, 2, 3)]


def test_a_complete_trial_has_mean_error_and_interval_of_every_metric():
    found = by_key(trial_points(made_trial(0, "complete", SCORES)))
    mean, sem = sum(SCORES) / 4, stats.sem(SCORES)
    low, high = stats.t.interval(0.95, 3, mean, sem)
    expected = {"mean": mean, "sem": sem, "ci95_low": low, "ci95_high": high}
    for name in ("map_at_r", "r_precision"):
        for prefix, value in expected.items():
            shown = found[f"{prefix}/val/{name}"][0].value
            assert shown == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("state", ["running", "lost", "failed"])
def test_no_other_trial_has_a_mean(state):
    keys = {point.key for point in trial_points(made_trial(0, state, SCORES[:3]))}
    assert not [key for key in keys if not key.startswith("fold")]


def test_values_that_are_no_numbers_are_left_out():
    trial = made_trial(0, "complete", SCORES)
    bad = trial.folds[2].model_copy(
        update={"validation": {"map_at_r": 0.5, "r_precision": math.nan}}
    )
    found = by_key(trial_points(trial.model_copy(update={"folds": {**trial.folds, 2: bad}})))
    assert "mean/val/map_at_r" in found
    assert "mean/val/r_precision" not in found
    assert "fold2/best/r_precision" not in found


def test_the_study_shows_the_best_trial_so_far_and_what_was_spent():
    record = growing(5)[-1]  # complete, lost, failed, complete, lost
    assert (best := record.best)
    found = by_key(study_points(record))
    last = {key: points[max(points)] for key, points in found.items()}
    assert last["search/best_trial"].value == best.number
    assert last["score/val"].value == pytest.approx(best.score, rel=1e-5)
    assert last["score/val_sem"].value == pytest.approx(best.sem, rel=1e-5)
    assert last["search/folds_trained"].value == record.folds_trained == 12
    assert last["search/folds_saved"].value == record.folds_saved == 6
    assert [found["search/trials"][step].value for step in (1, 2, 3, 4, 5)] == [1, 2, 3, 4, 5]
    assert len(found) <= 12, "a run with hundreds of metrics shows none"


def test_what_decides_comes_first_in_the_alphabet_and_in_the_order_of_writing():
    keys = list(by_key(study_points(growing(3)[-1])))
    assert keys[0] == sorted(keys)[0] == "score/val"
    scores = [key.startswith("score/") for key in sorted(keys)]
    assert scores == sorted(scores, reverse=True)


def test_the_floor_stands_beside_the_score_once_it_is_recorded():
    trial = made_trial(0, "complete", SCORES)
    assert "score/val_floor" not in by_key(study_points(made_study(trial)))
    folds = {
        fold: result.model_copy(update={"floor": {"map_at_r": 0.2 + 0.01 * fold}})
        for fold, result in trial.folds.items()
    }
    record = made_study(trial.model_copy(update={"folds": folds}))
    points = list(study_points(record))
    assert by_key(points)["score/val_floor"][0].value == pytest.approx(0.215)
    assert points[0].key == "score/val", "MLflow's comparison plots what was written first"


def test_a_trial_has_its_score_under_the_name_of_the_study_s():
    trial = made_trial(0, "complete", SCORES)
    found = by_key(trial_points(trial))
    assert found["score/val"][0].value == pytest.approx(trial.score)
    assert found["score/val_sem"][0].value == pytest.approx(trial.sem, rel=1e-5)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.26451234567, 0.264512), (-1 / 3, -0.333333), (12345.678, 12345.7), (3.0, 3.0)],
)
def test_numbers_have_six_digits(value, shown):
    (point,) = points_of({"x": value}, step=0, time=0)
    assert point.value == shown


@given(st.permutations([0.3, 0.5, 0.5, 0.7, 0.1]))
def test_the_best_so_far_is_the_record_s_own_best(scores):
    trials = [made_trial(n, "complete", (score,) * 4, epochs=1) for n, score in enumerate(scores)]
    best = by_key(study_points(made_study(*trials)))["search/best_trial"]
    for step in best:
        assert (expected := made_study(*trials[:step]).best)
        assert best[step].value == expected.number


def test_points_that_were_shown_stay_as_they_are_while_a_study_grows():
    shown: set[Point] = set()
    for record in growing(6):
        points = set(study_points(record))
        assert shown <= points
        shown = points


@given(st.text(max_size=300))
def test_every_name_becomes_one_that_mlflow_accepts(name):
    key = legal_key(name)
    _validate_metric(key, 1.0, 0, 0)
    _validate_param(key, "x")
    _validate_tag(key, "x")


def test_good_names_stay():
    for name in ("fold0/val/map_at_r", "optimizer.lr.proxies", "mean/val/level0/recall_at_1"):
        assert legal_key(name) == name
