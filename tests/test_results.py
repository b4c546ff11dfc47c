"""What a search maximises: which metrics there are, which way is up, and how they are called."""

from typing import Any

import numpy as np
import pytest

from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.results import metric_names, score_of, score_title

FLAT = {
    "map_at_r",
    "r_precision",
    "precision_at_1",
    "recall_at_1",
    "recall_at_2",
    "recall_at_4",
    "recall_at_8",
    "ap",
    "asi",
}
HIERARCHICAL = {"h_ap", "h_ap_map", "h_asi", "h_ndcg", "h_violations"}


def test_every_level_has_the_flat_metrics_and_all_together_the_hierarchical_ones():
    assert set(metric_names(1)) == FLAT | HIERARCHICAL
    coarser = {f"level_{level}/{name}" for level in (0, 1) for name in FLAT}
    assert set(metric_names(3)) == FLAT | coarser | HIERARCHICAL
    assert len(metric_names(3)) == len(set(metric_names(3)))


@pytest.mark.parametrize("num_levels", [1, 2, 3])
def test_an_evaluation_gives_exactly_these_metrics(num_levels):
    rng = np.random.default_rng(0)
    classes = np.arange(32) % 8
    labels = np.stack([classes // 2 ** (num_levels - 1 - n) for n in range(num_levels)], axis=1)
    whole: dict[str, Any] = {"whole_list": True}
    found = retrieval_metrics(rng.normal(size=(32, 5)), labels, **whole)
    assert set(found) == set(metric_names(num_levels))


def test_fewer_violations_are_better_and_more_of_everything_else():
    for objective in metric_names(3):
        better, worse = (
            score_of({objective: 0.75}, objective),
            score_of({objective: 0.5}, objective),
        )
        assert (better < worse) == (objective == "h_violations"), objective
        assert 0 <= better <= 1
    assert score_of({"h_violations": 0.25, "map_at_r": 0.5}, "h_violations") == 0.75


@pytest.mark.parametrize(
    ("objective", "title"),
    [
        ("map_at_r", "MAP@R"),
        ("precision_at_1", "P@1"),
        ("recall_at_4", "R@4"),
        ("h_ap", "H-AP"),
        ("h_violations", "1 - violations"),
        ("level_0/map_at_r", "MAP@R at level_0"),
        ("level_1/recall_at_8", "R@8 at level_1"),
    ],
)
def test_a_score_is_called_what_it_is(objective, title):
    assert score_title(objective) == title


@pytest.mark.parametrize(
    ("objective", "title"),
    [
        ("map_at_r", "MAP@R"),
        ("h_violations", "1 - violations"),
        ("level_0/map_at_r", "MAP@R at order"),
        ("level_1/recall_at_8", "R@8 at family"),
        ("level_3/ap", "AP at level_3"),
        ("coarse/ap", "AP at coarse"),
    ],
)
def test_levels_are_called_by_their_names(objective, title):
    assert score_title(objective, ("order", "family", "species")) == title


def test_no_two_objectives_are_called_the_same():
    names = metric_names(4)
    assert len({score_title(name) for name in names}) == len(names)
