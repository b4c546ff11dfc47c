"""`hsearch studies`: what is recorded, in tables and as JSON."""

import json
import os
import shlex
import socket
from contextlib import closing

import pytest
from click.testing import CliRunner

from hsearch.cli.last_words import final_words
from hsearch.cli.main import main
from hsearch.search.lease import Lease
from hsearch.search.plan import plan_study
from hsearch.search.record import StudyRecord
from hsearch.search.reproduction import Reproduction
from hsearch.search.study import Study
from tests.search.made_reproduction import finish_run, made_plan, made_spec_on
from tests.search.made_results import made_result
from tests.search.made_study import SPACE, made_spec, search


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)


@pytest.fixture
def recorded(toy_store):
    """Two studies: `a` with a trial done, one lost, one failed and one running; `b` is better."""

    def record(name, method, scores, objective="map_at_r"):
        plan = plan_study(
            method=method,
            data=str(toy_store.path),
            recipe="small",
            settings={},
            objective=objective,
        )
        with closing(Study.open(name, "hsearch.db", plan.spec, plan.space)) as study:
            for folds in scores:
                trial = study.propose()
                for fold, score in enumerate(folds):
                    job = trial.job.model_copy(update={"fold": fold})
                    study.record_fold(trial.number, made_result(job, score))
                if not folds:
                    study.fail(trial.number, "The loss was nan.")

    record("a", "proxy_nca", [[0.5, 0.6, 0.5, 0.6], [0.1], [], [0.55]])
    record("b", "hpl", [[0.6, 0.7, 0.6, 0.7]])
    return record


def run(*arguments):
    return CliRunner().invoke(main, ["studies", *arguments])


def table(*arguments) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_the_list_is_a_leaderboard(recorded):
    lines = table()
    first, second = (line.split() for line in lines[1:3])
    assert (first[0], first[1]) == ("b", "hpl")
    assert lines[1].endswith("0.6500 +- 0.0289 1 done 4 / 0")
    assert (second[0], second[1]) == ("a", "proxy_nca")
    assert lines[2].endswith(
        "0.5500 +- 0.0289 1 done, 1 interrupted, 1 lost in the race, 1 failed 6 / 3"
    )


def test_scores_of_another_objective_stand_apart(recorded):
    recorded("c", "hpl", [[0.9, 0.9, 0.9, 0.9]], objective="r_precision")
    lines = table()
    assert [line.split()[0] for line in lines[1:4]] == ["b", "a", "c"]
    assert lines[3].endswith("R-precision 0.9000 +- 0.0000 1 done 4 / 0")
    lines = table("c")
    assert "objective R-precision" in lines
    assert "TRIAL R-PRECISION FOLDS STATE SOURCE" in lines
    assert not any("MAP@R" in line for line in lines)


def test_levels_are_shown_by_their_names(recorded):
    recorded("c", "hpl", [[0.9, 0.9, 0.9, 0.9]], objective="level_1/map_at_r")
    assert "objective MAP@R at level_1" in table("c")
    with closing(Study.load("c", "hsearch.db")) as study:
        study.set_attribute("level_names", ["order", "family", "species"])
    lines = table("c")
    assert "levels order > family > species" in lines
    assert "objective MAP@R at family" in lines
    assert "TRIAL MAP@R AT FAMILY FOLDS STATE SOURCE" in lines
    assert any(line.endswith(", MAP@R at family 0.9000 +- 0.0000") for line in lines)
    assert any("MAP@R at family" in line for line in table() if line.startswith("c "))


def test_one_study_shows_spec_best_and_trials(recorded):
    lines = table("a")
    assert lines[0] == "Study a"
    assert "sampler tpe, with race" in lines
    assert "searched method.scale 1 to 64, log" in lines
    assert "Best: trial 0 (published), MAP@R 0.5500 +- 0.0289" in lines
    assert "0.5000 0.6000 0.5000 0.6000 0.5500 0.0289" in lines
    assert any("the race saved 3" in line for line in lines)
    assert "Trial 2 failed: The loss was nan." in lines
    assert "0 0.5500 +- 0.0289 0.5000 0.6000 0.5000 0.6000 done published" in lines
    assert any(line.startswith("1 - 0.1000 lost in the race after fold 0: 0.4") for line in lines)
    assert any(line.startswith("2 - failed: The loss was nan.") for line in lines)
    assert any(line.startswith("3 - 0.5500 interrupted") for line in lines)
    assert lines[-1] == "Knobs of one of them: hsearch studies a/TRIAL"


def test_a_study_that_is_being_searched_has_running_trials(recorded):
    with closing(Study.load("a", "hsearch.db")) as study, Lease(study):
        lines = table("a")
        assert any(line.startswith("3 - 0.5500 running") for line in lines)
        driver = f"process {os.getpid()} on {socket.gethostname()}"
        assert f"driver {driver}" in lines
        assert f"a is driven by {driver}." in table()
    assert not any("driver" in line or "driven" in line for line in (*table("a"), *table()))


def test_one_trial_shows_its_knobs_and_folds(recorded):
    lines = table("a/1")
    assert lines[0].startswith("Trial 1 of a (")
    assert "lost in the race after fold 0" in lines[0]
    assert any(line.startswith("method.scale ") for line in lines)
    assert lines[-2:] == ["FOLD 0", "0.1000"]
    assert table("b/best")[-2:] == [
        "FOLD 0 FOLD 1 FOLD 2 FOLD 3 MEAN SEM",
        "0.6000 0.7000 0.6000 0.7000 0.6500 0.0289",
    ]
    assert json.loads(run("a/1", "--json").stdout)["number"] == 1
    assert "Did you mean" in run("a/11").stderr
    assert run("nope/1").exit_code == 2


def test_studies_without_a_best_trial_and_with_odd_names_are_shown(capsys):
    name = "a b/[red]c'é"
    with closing(Study.open("empty", "hsearch.db", made_spec(), SPACE)):
        pass
    with closing(Study.open(name, "hsearch.db", made_spec(), SPACE)) as study:
        study.fail(study.propose().number, "The loss [x] was nan.")
        final_words(study.record(), "hsearch.db", "none")
    command = next(line for line in capsys.readouterr().out.splitlines() if "All trials" in line)
    assert shlex.split(command)[:5] == ["All", "trials:", "hsearch", "studies", name]
    assert table()[1:3] == [
        f"{name} hpl made MAP@R - 1 failed 0 / 0",
        "empty hpl made MAP@R - none 0 / 0",
    ]
    for which in ("empty", name):
        assert "No trial has finished all folds, so there is no best one." in table(which)
    assert "Trial 0 failed: The loss [x] was nan." in table(name)


def test_json_is_the_record(recorded):
    record = StudyRecord.from_dict(json.loads(run("a", "--json").stdout))
    with closing(Study.load("a", "hsearch.db")) as study:
        assert record == study.record()
    assert [page["name"] for page in json.loads(run("--json").stdout)] == ["a", "b"]


def test_an_unknown_study_is_answered_with_the_nearest(recorded):
    result = run("aa")
    assert result.exit_code == 2
    assert "Did you mean 'a'?" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["a"]])
def test_a_missing_storage_is_a_sentence_and_not_made(tmp_path, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("hsearch: error: There is no storage ")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_storage_comes_from_the_environment_too(recorded, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("HSEARCH_STORAGE", str(tmp_path / "hsearch.db"))
    assert len(table()) >= 3


def test_a_reproduction_is_told_with_its_study(tmp_path, toy_store):
    storage = str(tmp_path / "studies.db")
    with closing(Study.open("s", storage, made_spec_on(toy_store), SPACE)) as study:
        study.take_over()
        record = search(study, 2)
    before = CliRunner().invoke(main, ["studies", "s", "--storage", storage]).output
    assert "Reproduced" not in before
    with closing(Reproduction.open(made_plan(record), storage)) as reproduction:
        reproduction.begin(2)
        finish_run(reproduction, 0, 0.5)
        finish_run(reproduction, 1, 0.6)
        mean = reproduction.record().means("separated")["map_at_r"]
    shown = CliRunner().invoke(main, ["studies", "s", "--storage", storage]).output
    assert f"2 runs): MAP@R {mean} on the test images, separated" in shown
