"""What takes part: metrics by seed, and scores by query from files."""

import numpy as np

from hsearch.evaluation.query_table import QueryTable, write_query_tables
from hsearch.report.entrant import Entrant, load_entrant, query_scores
from tests.report.made_reproductions import ROWS, made_entrant, made_floor

SCORES = [0.5, 0.6, 0.7]


def test_only_complete_runs_count():
    entrant = made_entrant("hpl", SCORES)
    runs = list(entrant.reproduction.runs)
    runs[1] = runs[1].model_copy(update={"state": "failed", "tested": None})
    record = entrant.reproduction.model_copy(update={"runs": tuple(runs)})
    found = Entrant(entrant.study, record, entrant.queries)
    assert sorted(found.metrics("separated")) == [0, 2]
    assert sorted(found.query_tables("separated", "map_at_r")) == [0, 2]
    assert made_entrant("hpl", SCORES, protocol="classic").metrics("concatenated") == {}


def test_files_are_read_where_they_are_and_one_metric_is_kept(tmp_path):
    entrant = made_entrant("hpl", SCORES)
    values = {name: np.full(len(ROWS), 0.5, np.float32) for name in ("map_at_r", "ap")}
    for run in (0, 2):
        folder = tmp_path / f"run-{run:03d}"
        write_query_tables(folder / "queries.npz", {"separated": QueryTable(ROWS, values)})
    found = load_entrant(entrant.study, entrant.reproduction, tmp_path)
    assert sorted(found.queries) == [0, 2]
    assert list(found.queries[0]["separated"].values) == ["map_at_r"]
    other = load_entrant(entrant.study, entrant.reproduction, tmp_path, "h_ap")
    assert other.queries == {0: {}, 2: {}}


def test_runs_stand_by_seed_and_missing_ones_are_empty():
    entrants = [made_entrant("hpl", SCORES), made_entrant("hier", SCORES[:2])]
    scores = query_scores(entrants, "separated", "map_at_r")
    assert scores is not None
    assert scores.runs.shape == (2, 3, len(ROWS))
    assert np.isnan(scores.runs[1, 2]).all()
    np.testing.assert_allclose(scores.runs[0].mean(axis=1), SCORES, atol=1e-6)
    np.testing.assert_allclose(scores.floors.mean(axis=1), [0.2, 0.2], atol=1e-6)
    without = made_entrant("hpl", SCORES, queries=False)
    assert query_scores([without], "separated", "map_at_r") is None


def test_a_floor_of_other_queries_or_of_an_older_hsearch_is_not_used():
    other = made_entrant("hier", SCORES)
    assert other.floor is not None
    shifted = Entrant(
        other.study,
        other.reproduction,
        other.queries,
        QueryTable(other.floor.rows + 1, other.floor.values),
    )
    old = made_entrant("triplet", SCORES, floor_queries=False)
    scores = query_scores([made_entrant("hpl", SCORES), shifted, old], "separated", "map_at_r")
    assert scores is not None
    assert np.isnan(scores.floors).all(axis=1).tolist() == [False, True, True]


def test_the_floors_file_is_read_if_it_is_of_the_recorded_floor(tmp_path):
    entrant = made_entrant("hpl", SCORES, floor=0.25)
    assert load_entrant(entrant.study, entrant.reproduction, tmp_path).floor is None
    for score, known in [(0.25, True), (0.3, False)]:
        write_query_tables(tmp_path / "floor" / "queries.npz", {"floor": made_floor(score)})
        found = load_entrant(entrant.study, entrant.reproduction, tmp_path)
        assert (found.floor is not None) == known
    assert found.queries == {}


def test_less_is_better_is_turned_round():
    entrants = [made_entrant("hpl", SCORES), made_entrant("hier", SCORES)]
    for entrant in entrants:
        for tables in entrant.queries.values():
            values = tables["separated"].values
            values["h_violations"] = 1 - values["map_at_r"]
        assert entrant.floor is not None
        entrant.floor.values["h_violations"] = 1 - entrant.floor.values["map_at_r"]
    turned = query_scores(entrants, "separated", "h_violations")
    straight = query_scores(entrants, "separated", "map_at_r")
    assert turned is not None
    assert straight is not None
    np.testing.assert_allclose(turned.runs, straight.runs, atol=1e-6)
    np.testing.assert_allclose(turned.floors, straight.floors, atol=1e-6)
