"""`hsearch reproduce` without Ray: what is refused, planned and told."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.cli.reproducing import ReproductionProgress, result_rows
from hsearch.cluster.reproducing import is_over
from hsearch.results import FloorScore
from hsearch.search.reproduction import Reproduction
from hsearch.search.study import Study
from tests.search.made_reproduction import finish_run, made_plan, made_spec_on
from tests.search.made_results import made_result
from tests.search.made_study import SPACE, fold_of, made_spec, search


@pytest.fixture
def study(tmp_path, monkeypatch, toy_store):
    """The record of a search in the default storage of the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)
    with closing(Study.open("s", "hsearch.db", made_spec_on(toy_store), SPACE)) as opened:
        opened.take_over()
        yield search(opened, 3)


@pytest.fixture
def reproduction(study):
    with closing(Reproduction.open(made_plan(study), "hsearch.db")) as found:
        found.take_over()
        found.begin(3)
        yield found


def run(*arguments: str):
    return CliRunner().invoke(main, ["reproduce", *arguments])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["t"], "There is no study 't' in "),
        (["s", "--trial", "77"], "s has no trial '77'"),
        (["s", "--seed", "0"], "A reproduction needs seeds that the search has not seen"),
        (["s", "--recipe", "small"], "`--recipe` and `--set` belong to `--protocol classic`"),
        (["s", "--runs", "0"], "Invalid value for '--runs'"),
        (["s", "--protocol", "mlrc"], "Invalid value for '--protocol'"),
        (["s", "--tracking-uri", "nonsense"], "MLflow's address cannot be 'nonsense'"),
        ([], "Missing argument 'STUDY'"),
    ],
)
def test_nonsense_is_one_sentence_and_exit_code_2(study, arguments, sentence):
    before = sorted(Path().iterdir())
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(Path().iterdir()) == before


def test_a_study_without_a_complete_trial_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(Study.open("s", "hsearch.db", made_spec(), SPACE)) as study:
        study.take_over()
        trial = study.propose()
        study.record_fold(0, made_result(fold_of(trial, 0), 0.5))
    result = run("s")
    assert result.exit_code == 2
    assert "No trial of s has finished all folds" in result.stderr


def test_a_dry_run_prints_what_would_be_trained(study):
    result = run("s", "--runs", "3", "--dry-run")
    assert result.exit_code == 0, result.output
    page = json.loads(result.stdout)
    assert (page["runs"], page["trial"], page["job"]["seed"]) == (3, study.best.number, 1000)
    assert not Path("studies").exists()


def test_more_than_one_driver_is_refused_by_name(study, reproduction):
    from hsearch.search.lease import Lease

    with Lease(reproduction):
        result = run("s", "--tracking-uri", "none")
    assert result.exit_code == 2
    assert "'s/reproduce-cross-validated' is in the hands of process" in result.stderr


def test_a_floor_of_an_older_hsearch_is_scored_again(reproduction):
    """Its scores query by query, by which methods are compared with it, are not kept."""
    for number in range(3):
        finish_run(reproduction, number, 0.5)
    reproduction.set_attribute("floor", {"map_at_r": 0.25})
    old = reproduction.record()
    assert (old.floor, old.floor_queries) == ({"map_at_r": 0.25}, None)
    assert not is_over(old, 3)
    reproduction.record_floor(FloorScore(metrics={"map_at_r": 0.25}, queries=0))
    assert is_over(reproduction.record(), 3)


def test_a_complete_one_is_told_again_without_training(study, reproduction):
    for number in range(3):
        finish_run(reproduction, number, 0.5 + 0.1 * number)
    reproduction.record_floor(FloorScore(metrics={"map_at_r": 0.25, "ap": 0.125}, queries=40))
    result = run("s", "--runs", "3", "--tracking-uri", "none")
    assert result.exit_code == 0, result.output
    assert "Nothing is left to train: 12 finished fold trainings, 3 tested runs." in result.stderr
    mean = reproduction.record().means("separated")["map_at_r"]
    line = next(line for line in result.stdout.splitlines() if line.startswith("MAP@R"))
    assert line.split()[1:3] == [f"{mean.mean:.4f}", "+-"]
    assert line.split()[-1] == "0.2500"
    assert "hsearch compare s ..." in result.stdout
    assert not Path("studies").exists()
    as_json = run("s", "--runs", "3", "--tracking-uri", "none", "--json")
    assert json.loads(as_json.stdout) == reproduction.record().to_dict()


class TestProgress:
    def test_folds_tests_and_failures_are_lines(self, reproduction, capsys):
        ended = []
        with ReproductionProgress(reproduction.record(), lambda: ended.append(1), "") as progress:
            finish_run(reproduction, 0, 0.5)
            reproduction.fail(1, "The loss ran away.", final=True)
            for record in reproduction.record().runs:
                progress.run(record)
            progress.floor()
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("Reproduction of s, trial ")
        assert lines[0].endswith("3 runs of 4 trainings, seeds 1000 to 1002")
        assert lines[1:5] == [f"run 0  fold {fold}  trained" for fold in range(4)]
        assert lines[5] == "run 0  tested  MAP@R 0.4950 separated, 0.6000 concatenated"
        assert lines[6] == "run 1  failed: The loss ran away."
        assert lines[7] == "The floor is tested: the backbone's own features."
        assert ended == [1, 1]

    def test_levels_are_called_by_their_names(self, reproduction, capsys):
        finish_run(reproduction, 0, 0.5)
        reproduction.set_attribute("level_names", ["order", "species"])
        record = reproduction.record()
        assert record.level_names == ("order", "species")
        floor = {"map_at_r": 0.2, "level_0/map_at_r": 0.4}
        record = record.model_copy(update={"runs": record.runs[1:], "floor": floor})
        assert [row[0] for row in result_rows(record)[1]] == ["MAP@R", "MAP@R at order"]

    def test_an_interrupt_says_what_is_kept(self, reproduction, capsys):
        finish_run(reproduction, 0)
        record = reproduction.record()
        with (
            pytest.raises(KeyboardInterrupt),
            ReproductionProgress(record, lambda: None, "hsearch reproduce s"),
        ):
            raise KeyboardInterrupt
        said = capsys.readouterr().out
        assert "Recorded so far: 4 finished fold trainings, 1 tested run" in said
        kept = "Stopped. The record keeps 4 finished fold trainings, 1 tested run. To go on, run "
        assert f"{kept}`hsearch reproduce s`" in " ".join(said.split())

    def test_rows_have_every_metric_of_both_kinds_and_the_floor(self, reproduction):
        finish_run(reproduction, 0)
        reproduction.record_floor(FloorScore(metrics={"map_at_r": 0.25}, queries=40))
        columns, rows = result_rows(reproduction.record())
        assert columns == ["metric", "separated", "concatenated", "floor (untrained features)"]
        assert rows == [["MAP@R", "0.4950", "0.6000", "0.2500"], ["AP", "0.5000", "0.9000", "-"]]
