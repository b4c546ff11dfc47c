"""`hsearch compare`: tables, files, and what is refused in one sentence."""

import json

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.evaluation.query_table import write_query_tables
from hsearch.report.entrant import Entrant
from tests.report.made_reproductions import made_entrant
from tests.report.test_comparison import many

GOOD = [0.70, 0.71, 0.72, 0.70, 0.71]
BAD = [0.50, 0.52, 0.51, 0.50, 0.52]


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Puts entrants into a record, and their scores by query into files."""
    monkeypatch.chdir(tmp_path)
    records: dict[str, Entrant] = {}
    reproductions = {}

    def put(*entrants: Entrant, reproduced: bool = True) -> None:
        for entrant in entrants:
            name, protocol = entrant.study.name, entrant.reproduction.spec.protocol
            records[name] = entrant
            reproductions[name, protocol] = entrant.reproduction if reproduced else None
            for run, tables in entrant.queries.items():
                folder = tmp_path / "studies" / name / f"reproduce-{protocol}" / f"run-{run:03d}"
                write_query_tables(folder / "queries.npz", tables)
            if entrant.floor is not None:
                folder = tmp_path / "studies" / name / f"reproduce-{protocol}" / "floor"
                write_query_tables(folder / "queries.npz", {"floor": entrant.floor})

    monkeypatch.setattr("hsearch.cli.studies.read_record", lambda name, _: records[name].study)
    monkeypatch.setattr(
        "hsearch.search.reproduction.load_reproduction",
        lambda name, protocol, _: reproductions.get((name, protocol)),
    )
    return put


def run(*arguments: str):
    return CliRunner().invoke(main, ["compare", "--tracking-uri", "none", *arguments])


def lines(*arguments: str) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_scores_by_query_of_another_test_are_not_believed(recorded, tmp_path):
    good, bad = made_entrant("hpl", GOOD), made_entrant("proxy_nca", BAD)
    recorded(good, bad)
    for run, tables in bad.queries.items():
        place = tmp_path / "studies" / "made-hpl" / "reproduce-cross-validated" / f"run-{run:03d}"
        write_query_tables(place / "queries.npz", tables)
    shown = lines("made-proxy_nca", "made-hpl")
    assert any(line.startswith("Scores query by query are missing") for line in shown)


def test_the_leaderboard_is_printed_with_floor_verdict_and_audit(recorded):
    recorded(made_entrant("proxy_nca", BAD), made_entrant("hpl", GOOD))
    shown = lines("made-proxy_nca", "made-hpl")
    assert shown[0] == "made (cross-validated protocol, disjoint splits)"
    assert "METHOD MAP@R 95 % CI RUNS BEHIND P (RUNS) P (QUERIES) GROUP BEATS FLOOR" in shown
    assert "hpl 0.7080 0.6976 to 0.7184 5 - - - a yes" in shown
    assert "proxy_nca 0.5100 0.4976 to 0.5224 5 0.1980 < 0.001 < 0.001 b yes" in shown
    assert "frozen backbone, no training 0.2000 - - 0.5080 < 0.001 < 0.001" in shown
    assert shown.count("Better than not training at all: yes for hpl, proxy_nca.") == 2
    assert any(line.startswith("Separated: hpl is better than proxy_nca. Boot") for line in shown)
    assert any(line.startswith("The same for all: regime, backbone, weights,") for line in shown)


def test_one_study_alone_is_shown(recorded):
    recorded(made_entrant("hpl", GOOD, queries=False))
    assert "Separated: hpl stands alone: 0.7080." in lines("made-hpl")


def test_old_reproductions_are_shown_with_the_reason_why_the_floor_is_not_beaten(recorded):
    recorded(made_entrant("hpl", GOOD, floor_queries=False))
    sentence = (
        "Better than not training at all: cannot be told for hpl (what every query scores "
        "without training is not recorded; `hsearch reproduce made-hpl` adds it)."
    )
    assert lines("made-hpl").count(sentence) == 2


def test_several_data_sets_are_ranked(recorded):
    entrants = many(("birds", "cars"))
    recorded(*entrants)
    shown = lines(*(entrant.study.name for entrant in entrants))
    assert "hpl 1.00" in shown
    assert any(line.startswith("Over birds, cars, separated: Friedman's test") for line in shown)


def test_files_are_written_and_json_printed(recorded, tmp_path):
    recorded(made_entrant("proxy_nca", BAD), made_entrant("hpl", GOOD))
    result = run("made-proxy_nca", "made-hpl", "--write", "report", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["leaderboards"][0]["tables"][0]["queries"] == 40
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"compare.html", "compare.tex", "compare.csv", "compare.json"}
    assert json.loads((tmp_path / "report" / "compare.json").read_text()) == found


def test_the_protocol_is_the_one_that_all_have(recorded):
    recorded(
        made_entrant("hpl", GOOD),
        made_entrant("hpl", BAD, protocol="classic"),
        made_entrant("proxy_nca", GOOD, protocol="classic"),
    )
    assert "classic" in lines("made-hpl", "made-proxy_nca")[0]
    assert "cross-validated" in lines("made-hpl")[0]
    assert "classic" in lines("made-hpl", "--protocol", "classic")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["made-hpl", "made-hier"], "made-hier is not reproduced yet; run `hsearch reproduce "),
        (
            ["made-hpl", "--protocol", "classic"],
            "made-hpl is not reproduced yet; run `hsearch reproduce made-hpl --protocol classic`.",
        ),
        (["made-hpl", "made-triplet"], "made-triplet is reproduced by the classic protocol only"),
        (["made-hpl", "--metric", "map"], "made-hpl was not tested by 'map'; valid names:"),
        ([], "Missing argument 'STUDY...'"),
    ],
)
def test_what_cannot_be_compared_ends_in_one_sentence(recorded, arguments, message):
    recorded(made_entrant("hpl", GOOD), made_entrant("triplet", BAD, protocol="classic"))
    recorded(made_entrant("hier", GOOD), reproduced=False)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_broken_file_of_scores_is_named(recorded, tmp_path):
    recorded(made_entrant("hpl", GOOD))
    path = tmp_path / "studies/made-hpl/reproduce-cross-validated/run-001/queries.npz"
    path.write_bytes(b"nothing")
    result = run("made-hpl")
    assert result.exit_code == 2
    assert "run-001/queries.npz cannot be read" in result.stderr
