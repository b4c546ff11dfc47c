"""The words of a comparison."""

import pytest

from hsearch.report.comparison import compare
from hsearch.report.telling import (
    against_words,
    interval_words,
    p_words,
    rank_words,
    spread_words,
    verdict_words,
)
from hsearch.report.values import Estimate
from tests.report.made_reproductions import made_entrant
from tests.report.test_comparison import many
from tests.report.test_leaderboard import BAD, FAIR, GOOD, three


def test_numbers_are_short():
    assert [p_words(p) for p in (None, 0.0001, 0.0123, 1.0)] == ["-", "< 0.001", "0.012", "1.000"]
    alone, known = Estimate(mean=0.5, low=None, high=None), Estimate(mean=0.5, low=0.4, high=0.6)
    assert (interval_words(alone), spread_words(alone)) == ("-", "0.5000")
    assert (interval_words(known), spread_words(known)) == (
        "0.4000 to 0.6000",
        "0.5000 +- 0.1000",
    )


@pytest.mark.parametrize(
    ("entrants", "words"),
    [
        (lambda: [made_entrant("hpl", GOOD)], "hpl stands alone: 0.7080."),
        (
            lambda: [made_entrant("hpl", GOOD), made_entrant("hier", BAD)],
            "hpl is better than hier.",
        ),
        (
            lambda: [made_entrant("hpl", GOOD), made_entrant("hier", FAIR)],
            "hpl leads, but cannot be told apart from hier.",
        ),
        (three, "hpl leads; proxy_anchor cannot be told apart from it, the others are worse."),
    ],
)
def test_the_verdict_is_a_sentence(entrants, words):
    assert verdict_words(compare(entrants()).leaderboards[0].tables[0]) == words


def test_better_than_not_training_is_a_sentence_with_reasons():
    entrants = [
        made_entrant("hpl", GOOD),
        made_entrant("hier", FAIR, floor=None),
        made_entrant("triplet", BAD, floor_queries=False),
        made_entrant("proxy_nca", [0.2, 0.21, 0.19], floor=0.4),
        made_entrant("supcon", [0.19, 0.2, 0.21]),
    ]
    table = compare(entrants).leaderboards[0].tables[0]
    assert against_words(table) == (
        "Better than not training at all: yes for hpl; no for proxy_nca; cannot be told for hier "
        "(its floor is not recorded); cannot be told for triplet (what every query scores without "
        "training is not recorded; `hsearch reproduce made-triplet` adds it); cannot be told for "
        "supcon."
    )


def test_ranks_are_told():
    assert rank_words(compare(many()).ranks[0]) == (
        "Friedman's test over 8 data sets: p < 0.001. Mean ranks differ where they lie at least "
        "1.17 apart (Nemenyi)."
    )
    assert rank_words(compare(many(("birds", "cars"))).ranks[0]).endswith(
        "The mean ranks tell no two methods apart."
    )
