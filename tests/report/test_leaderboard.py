"""Leaderboards from made records: numbers, order, groups, floors and refusals."""

import numpy as np
import pytest
from scipy import stats

from hsearch.errors import ConfigError
from hsearch.report.entrant import Entrant
from hsearch.report.leaderboard import leaderboards
from hsearch.report.page import page_html
from hsearch.report.statistics import holm
from hsearch.report.telling import columns
from hsearch.report.values import Comparison, Leaderboard
from hsearch.words import FLOORS
from tests.report.made_reproductions import made_entrant, made_metrics, made_study, on_data
from tests.search.made_results import made_job

FLOOR = FLOORS["retrieval"].row
GOOD = [0.70, 0.71, 0.72, 0.70, 0.71]
FAIR = [0.69, 0.71, 0.71, 0.71, 0.70]
BAD = [0.50, 0.52, 0.51, 0.50, 0.52]


def three(floor: float | None = 0.2) -> list[Entrant]:
    return [
        made_entrant("proxy_nca", BAD, floor=floor),
        made_entrant("hpl", GOOD, floor=floor),
        made_entrant("proxy_anchor", FAIR, liking=0.02, floor=floor),
    ]


def test_rows_stand_in_order_with_mean_interval_and_group():
    (board,) = leaderboards(three())
    assert [table.kind for table in board.tables] == ["separated", "concatenated"]
    separated, concatenated = board.tables
    assert [row.name for row in separated.rows] == ["hpl", "proxy_anchor", "proxy_nca"]
    assert [row.group for row in separated.rows] == ["a", "a", "b"]
    best = separated.rows[0]
    assert best.score.mean == pytest.approx(np.mean(GOOD))
    expected = stats.ttest_1samp(GOOD, 0).confidence_interval(0.95)
    assert (best.score.low, best.score.high) == pytest.approx((expected.low, expected.high))
    assert best.metrics["precision_at_1"].mean == pytest.approx(np.mean(GOOD) + 0.1)
    assert concatenated.rows[0].score.mean == pytest.approx(np.mean(GOOD) + 0.05)
    assert best.runs == pytest.approx(dict(enumerate(GOOD)))
    assert separated.queries == 40


def test_the_difference_to_the_best_is_paired():
    (board,) = leaderboards(three())
    table = board.tables[0]
    assert table.to_best(table.rows[0]) is None
    found = table.to_best(table.rows[2])
    assert found is not None
    assert found.different
    assert found.difference is not None
    assert found.difference.mean == pytest.approx(np.mean(GOOD) - np.mean(BAD))
    assert found.runs == 5
    assert len(table.contrasts) == 3


def test_it_survives_json():
    (board,) = leaderboards(three())
    assert Leaderboard.from_dict(board.to_dict()) == board


def test_runs_that_only_one_has_decide_nothing_against_those_that_both_have():
    """Ten runs, of which the later ones are good; on the three shared seeds it is behind."""
    much = made_entrant("hpl", [0.50, 0.51, 0.50, *[0.90] * 7])
    little = made_entrant("proxy_nca", [0.60, 0.61, 0.60])
    (board,) = leaderboards([much, little])
    table = board.tables[0]
    assert [row.name for row in table.rows] == ["hpl", "proxy_nca"]
    (pair,) = table.contrasts
    assert pair.difference is not None
    assert pair.difference.mean < 0
    assert not pair.different
    assert {row.group for row in table.rows} == {"a"}


def test_the_floor_is_a_row_without_interval_and_every_method_is_tested_against_it():
    (board,) = leaderboards([*three(), made_entrant("triplet", [0.18, 0.21, 0.2, 0.22, 0.18])])
    for table in board.tables:
        (floor,) = table.floors
        assert (floor.name, floor.score, floor.metrics) == (FLOOR, 0.2, made_metrics(0.2))
        assert set(floor.rows) == {row.name for row in table.rows}
    table = board.tables[0]
    found = {row.name: row.against_floor for row in table.rows}
    assert {name: each.better for name, each in found.items()} == {
        "hpl": "yes",
        "proxy_anchor": "yes",
        "proxy_nca": "yes",
        "triplet": "cannot be told",
    }
    raw = [stats.ttest_1samp(list(row.runs.values()), 0.2).pvalue for row in table.rows]
    assert [row.against_floor.p_runs for row in table.rows] == pytest.approx(holm(raw))
    assert found["hpl"].difference is not None
    assert found["hpl"].difference.mean == pytest.approx(np.mean(GOOD) - 0.2)
    assert all(each.p_queries is not None and each.reason is None for each in found.values())


def test_the_letters_and_pairs_are_the_same_with_and_without_a_floor():
    (board,), (without,) = leaderboards(three()), leaderboards(three(floor=None))
    assert board.tables[0].contrasts == without.tables[0].contrasts
    assert [r.group for r in board.tables[0].rows] == [r.group for r in without.tables[0].rows]


def test_each_method_is_tested_against_the_floor_of_its_own_backbone():
    """One is far above its floor; the other is below its own, though above the other's."""
    entrants = [made_entrant("hpl", GOOD), made_entrant("proxy_nca", BAD, floor=0.6)]
    (board,) = leaderboards(entrants)
    high, low = (row.against_floor for row in board.tables[0].rows)
    assert (high.better, high.floor) == ("yes", f"{FLOOR} (of hpl)")
    assert (low.better, low.floor) == ("no", f"{FLOOR} (of proxy_nca)")
    notes = [note for note in board.notes if note.startswith("No better than")]
    assert [note.split(". ")[0] for note in notes] == [
        "No better than the backbone's own features (separated): proxy_nca",
        "No better than the backbone's own features (concatenated): proxy_nca",
    ]


def test_what_an_older_hsearch_has_reproduced_is_still_compared():
    (board,) = leaderboards(
        [made_entrant("hpl", GOOD), made_entrant("hier", BAD, floor_queries=False)]
    )
    new, old = (row.against_floor for row in board.tables[0].rows)
    assert (new.better, old.better) == ("yes", "cannot be told")
    assert old.reason == (
        "what every query scores without training is not recorded; `hsearch reproduce made-hier` "
        "adds it"
    )
    assert old.p_runs is not None
    assert [p.different for p in board.tables[0].contrasts] == [True]


def test_floors_of_different_backbones_are_told_apart():
    entrants = [made_entrant("hpl", GOOD), made_entrant("proxy_nca", BAD, floor=0.3)]
    (board,) = leaderboards(entrants)
    assert [floor.name for floor in board.tables[0].floors] == [
        f"{FLOOR} (of hpl)",
        f"{FLOOR} (of proxy_nca)",
    ]
    (board,) = leaderboards([made_entrant("hpl", GOOD, floor=None)])
    assert board.tables[0].floors == ()
    against = board.tables[0].rows[0].against_floor
    assert (against.better, against.reason) == ("cannot be told", "its floor is not recorded")
    assert "The floor of made-hpl is not recorded." in board.notes


def test_one_study_alone_has_a_leaderboard():
    (board,) = leaderboards([made_entrant("hpl", GOOD)])
    table = board.tables[0]
    assert [row.group for row in table.rows] == ["a"]
    assert table.contrasts == ()
    assert table.rows[0].against_floor.better == "yes"
    assert table.queries == 40


def test_one_run_has_no_interval_and_no_verdict():
    (board,) = leaderboards([made_entrant("hpl", GOOD[:1]), made_entrant("proxy_nca", BAD[:1])])
    table = board.tables[0]
    assert (table.rows[0].score.low, table.rows[0].score.high) == (None, None)
    assert [row.group for row in table.rows] == ["a", "a"]
    assert board.notes[0] == (
        "Fewer than two shared seeds (separated), so they cannot be told apart: hpl and proxy_nca."
    )


def test_without_scores_per_query_the_runs_decide_and_it_is_said():
    entrants = [*three()[1:], made_entrant("proxy_nca", BAD, queries=False)]
    (board,) = leaderboards(entrants)
    alike, without, other = board.tables[0].contrasts
    assert (alike.p_queries is None, alike.different) == (False, False)
    assert (without.p_queries, without.different) == (None, True)
    assert (other.p_queries, other.different) == (None, True)
    assert board.notes[0] == (
        "Scores query by query are missing (separated), so runs alone decide, and the verdict is "
        "about these very queries: hpl and proxy_nca; proxy_anchor and proxy_nca; proxy_nca and "
        "its floor."
    )


def test_other_metrics_may_decide_and_less_may_be_better():
    (board,) = leaderboards(three(), "h_violations")
    table = board.tables[0]
    assert [row.name for row in table.rows] == ["hpl", "proxy_anchor", "proxy_nca"]
    assert table.rows[0].score.mean == pytest.approx(np.mean(GOOD)), "1 - violations"
    assert table.rows[0].metrics["h_violations"].mean == pytest.approx(1 - np.mean(GOOD))
    assert table.queries is None, "the tables do not have it"
    with pytest.raises(ConfigError, match=r"not tested by 'map_at'; valid names: .* 'map_at_r'"):
        leaderboards(three(), "map_at")


def test_studies_of_one_method_are_called_by_their_names():
    other = made_study("hpl", name="hpl-again")
    entrants = [made_entrant("hpl", GOOD), made_entrant("hpl", BAD, study=other)]
    (board,) = leaderboards([*entrants, made_entrant("proxy_nca", FAIR)])
    assert [row.name for row in board.tables[0].rows] == ["made-hpl", "proxy_nca", "hpl-again"]


def test_every_data_set_has_its_leaderboard():
    boards = leaderboards([made_entrant("hpl", GOOD), on("birds", "proxy_nca")])
    assert [(board.data, len(board.tables[0].rows)) for board in boards] == [
        ("made", 1),
        ("birds", 1),
    ]


def on(data: str, method: str, **changes: object) -> Entrant:
    study = made_study(method, name=f"{data}-{method}", job=on_data(method, data, **changes))
    return made_entrant(method, BAD, study=study)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda: made_entrant("proxy_nca", BAD, protocol="classic"),
            "different protocols are never compared, but made-hpl is cross-validated and "
            "made-proxy_nca classic",
        ),
        (
            lambda: on("made", "proxy_nca", data_digest="0" * 64, splits="mlrc"),
            "different splits are never compared, but made-hpl has disjoint and made-proxy_nca "
            "mlrc",
        ),
        (lambda: on("made", "proxy_nca"), "have different stores called made"),
        (
            lambda: on("made", "proxy_nca", data_digest="0" * 64, objective="h_ap"),
            "made-hpl was searched for map_at_r, made-proxy_nca for h_ap; say with --metric",
        ),
        (lambda: made_entrant("hpl", GOOD), "made-hpl is named twice"),
        (lambda: made_entrant("proxy_nca", []), "made-proxy_nca has none; continue with `hsearch"),
    ],
)
def test_what_does_not_belong_into_one_table_is_refused(other, message):
    with pytest.raises(ConfigError, match=message):
        leaderboards([made_entrant("hpl", GOOD), other()])


def test_other_queries_are_refused():
    one, other = made_entrant("hpl", GOOD), made_entrant("proxy_nca", BAD)
    table = other.queries[0]["separated"]
    object.__setattr__(table, "rows", table.rows + 1)
    with pytest.raises(ConfigError, match="those of made-hpl and made-proxy_nca differ"):
        leaderboards([one, other])


def test_queries_without_relevant_images_count_in_no_test():
    entrants = [made_entrant("hpl", GOOD), made_entrant("proxy_nca", BAD)]
    for entrant in entrants:
        for tables in entrant.queries.values():
            tables["separated"].values["map_at_r"][:7] = np.nan
    (board,) = leaderboards(entrants)
    assert board.tables[0].queries == 33
    assert board.tables[0].contrasts[0].p_queries is not None


def test_a_method_that_is_no_better_than_no_training_is_named():
    (board,) = leaderboards([made_entrant("hpl", GOOD), made_entrant("proxy_nca", [0.15, 0.2])])
    (note, *_) = [note for note in board.notes if "own features" in note]
    assert note.startswith("No better than the backbone's own features (separated): proxy_nca. ")


def test_another_metric_than_that_of_the_search_and_other_seeds_are_noted():
    (board,) = leaderboards(three(), "precision_at_1")
    assert any(note.startswith("The searches maximised MAP@R, not P@1:") for note in board.notes)
    (same,) = leaderboards(three())
    assert not any("maximised" in note or "same seeds" in note for note in same.notes)
    (unequal,) = leaderboards([made_entrant("hpl", GOOD), made_entrant("proxy_nca", BAD[:3])])
    assert any(note.startswith("Not all have the same seeds") for note in unequal.notes)


def test_levels_are_called_by_their_names():
    """Also beside a study from before names were kept, which is no unfairness."""
    job = made_job("hpl").model_copy(update={"objective": "level_0/map_at_r"})
    entrants = []
    for method, names in {"hpl": ("order", "species"), "proxy_nca": ()}.items():
        own = job.model_copy(update={"method": made_job(method).method})
        study = made_study(method, job=own).model_copy(update={"level_names": names})
        entrants.append(made_entrant(method, GOOD, study=study))
    for entrant in entrants:
        for run in entrant.reproduction.runs:
            assert run.tested is not None
            assert run.tested.concatenated is not None
            for metrics in (*run.tested.models, run.tested.concatenated):
                metrics["level_0/map_at_r"] = metrics["map_at_r"]
    (board,) = leaderboards(entrants)
    assert (board.metric, board.level_names) == ("level_0/map_at_r", ("order", "species"))
    assert columns(board)[1] == "MAP@R at order"
    (objective,) = [finding for finding in board.audit if finding.topic == "objective"]
    assert (objective.same, objective.words) == (
        True,
        "All were searched with the objective MAP@R at order.",
    )
    page = page_html(Comparison(leaderboards=(board,)))
    assert "MAP@R at order" in page
    assert "at level_0" not in page
    (other,) = leaderboards(entrants, "map_at_r")
    assert any(
        note.startswith("The searches maximised MAP@R at order, not") for note in other.notes
    )


def test_labels_have_a_floor_and_a_reason_of_their_own():
    entrants = [
        made_entrant("mulcon", GOOD, queries=False),
        made_entrant("bce", BAD, queries=False, floor=0.6),
    ]
    (board,) = leaderboards(entrants)
    assert [floor.name for floor in board.tables[0].floors] == [
        "label frequencies, no image seen (of mulcon)",
        "label frequencies, no image seen (of bce)",
    ]
    assert board.notes[0] == (
        "Labels are scored over all images at once and not query by query (separated), so runs "
        "alone decide, and the verdict is about these very images: mulcon and bce; mulcon and its "
        "floor; bce and its floor."
    )
    assert board.notes[1].startswith("No better than label frequencies alone (separated): bce. ")
    (board,) = leaderboards([made_entrant("mulcon", GOOD, queries=False)])
    assert [floor.name for floor in board.tables[0].floors] == ["label frequencies, no image seen"]
