"""CSV and JSON say the same."""

import csv
import io
import json

import pytest

from hsearch.report.comparison import compare
from hsearch.report.listing import CSV_COLUMNS, csv_text, json_text
from hsearch.report.values import Comparison
from tests.report.test_leaderboard import three


def test_json_holds_everything():
    comparison = compare(three())
    assert Comparison.from_dict(json.loads(json_text(comparison))) == comparison


def test_csv_has_a_line_per_method_and_metric():
    comparison = compare(three())
    lines = list(csv.DictReader(io.StringIO(csv_text(comparison))))
    assert len(lines) == 2 * (3 + 1) * 3, "kinds, methods and floor, metrics"
    assert set(lines[0]) == set(CSV_COLUMNS)
    table = comparison.leaderboards[0].tables[0]
    pair = table.to_best(table.rows[2])
    assert pair is not None
    assert pair.difference is not None
    (line,) = [
        line
        for line in lines
        if (line["kind"], line["method"], line["decides"]) == ("separated", "proxy_nca", "1")
    ]
    assert float(line["mean"]) == table.rows[2].score.mean
    assert float(line["behind"]) == pytest.approx(pair.difference.mean)
    assert float(line["p_queries"]) == pair.p_queries
    assert line["group"] == "b"
    against = table.rows[2].against_floor
    assert against.difference is not None
    assert line["better_than_floor"] == against.better == "yes"
    assert float(line["above_floor"]) == against.difference.mean
    assert (float(line["p_runs_floor"]), float(line["p_queries_floor"])) == (
        against.p_runs,
        against.p_queries,
    )
    others = [line for line in lines if line["decides"] == "0"]
    assert {line["better_than_floor"] for line in others} == {""}
    floor = next(line for line in lines if line["method"].startswith("frozen"))
    assert (floor["study"], floor["low"], floor["runs"], floor["group"]) == ("", "", "", "")
