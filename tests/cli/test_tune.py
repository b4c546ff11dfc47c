"""`hsearch tune` up to the cluster: here a stand-in for it that records made scores at once."""

import json
import socket
import sqlite3
import subprocess
import sys
import types
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import hsearch.search.lease as lease_module
from hsearch.cli.last_words import final_words
from hsearch.cli.main import main
from hsearch.cluster.options import check_options
from hsearch.cluster.run import SearchOptions as RealOptions
from hsearch.errors import ClusterError, ConfigError
from hsearch.folds import NUM_FOLDS
from hsearch.search.driver import Driver
from hsearch.search.lease import ask_to_stop
from hsearch.search.study import Study, study_names
from tests.cli.made_studies import made_record, made_trial
from tests.search.made_results import made_result


@dataclass(frozen=True)
class SearchOptions:
    trials: int
    address: str | None
    workers_per_fold: int
    cpus_per_worker: int | None
    groups: int | None
    folder: Path
    gpus_per_worker: float | None = None


def search_at_once(study, tracker, options, watch, halted=None, stopping=None):
    """Every trial does a little worse than the one before, so that the race ends it early."""
    watch.said("1 group of 1 worker")
    while len(study.record().trials) < options.trials:
        trial = study.propose()
        watch.trial(trial)
        for fold in range(NUM_FOLDS):
            job = trial.job.model_copy(update={"fold": fold})
            score = 0.6 + 0.01 * fold - 0.2 * trial.number
            trial = study.record_fold(trial.number, made_result(job, score))
            watch.trial(trial)
            if trial.state != "running":
                break
        if tracker is not None:
            tracker.wake()
    return study.record()


@pytest.fixture
def tune(toy_store, tmp_path, monkeypatch):
    """Runs `hsearch tune` on the toy data in a folder of its own, without MLflow."""
    cluster = types.ModuleType("hsearch.cluster.run")
    cluster.SearchOptions = SearchOptions  # type: ignore[attr-defined]
    cluster.run_search = search_at_once  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hsearch.cluster.run", cluster)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(*arguments: str, method: str = "proxy_nca", data: str = str(toy_store.path)):
        given = ["tune", "--method", method, "--data", data]
        quiet = [] if "--tracking-uri" in arguments else ["--tracking-uri", "none"]
        return CliRunner().invoke(main, [*given, *quiet, *arguments])

    return run


def test_a_search_is_told_and_recorded(tune):
    result = tune("--trials", "3", "--study", "mine")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "Recipe small (a network from scratch), because most images of toy are smaller than 64 "
        "pixels; --recipe changes it."
    )
    assert lines[1].startswith("Study mine: proxy_nca on ")
    assert lines[2] == "1 group of 1 worker"
    assert lines[3].startswith("trial 0  fold 0  MAP@R 0.6000")
    assert any(line.startswith("trial 1  lost in the race after fold 0: ") for line in lines)
    assert "Best: trial 0 (published), MAP@R 0.6150 +- 0.0065" in result.stdout
    assert "the race saved 6" in result.stdout
    assert "hsearch train --like mine/best\n" in result.stdout
    assert "optuna-dashboard sqlite:///hsearch.db\n" in result.stdout
    assert "MLflow" not in result.stdout
    assert study_names("hsearch.db") == ["mine"]


def test_the_same_command_continues_and_more_trials_extend(tune):
    first = tune("--trials", "2")
    (name,) = study_names("hsearch.db")
    assert name.startswith("toy-proxy_nca-")
    again = tune("--trials", "2")
    assert f"Study {name} has 2 trials; nothing is left to train." in again.stdout
    assert "Best: trial 0" in again.stdout
    more = tune("--trials", "4")
    assert (first.exit_code, again.exit_code, more.exit_code) == (0, 0, 0)
    assert "Recorded so far: 1 done, 1 lost in the race, with 5 finished fold" in more.stdout
    assert "trial 0  fold" not in more.stdout
    assert len(Study.load(name, "hsearch.db").record().trials) == 4
    assert study_names("hsearch.db") == [name]


def test_other_settings_under_the_same_name_are_refused(tune):
    tune("--trials", "1", "--study", "mine")
    result = tune("--trials", "1", "--study", "mine", "--seed", "7")
    assert result.exit_code == 2
    assert "seed" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_objective_is_shown_and_belongs_to_the_study(tune):
    first = tune("--trials", "1", "--study", "mine", "--objective", "r_precision")
    assert first.exit_code == 0, first.output
    assert "trial 0  fold 0  R-precision 0.6000" in first.stdout
    assert "Best: trial 0 (published), R-precision 0.6150 +- 0.0065" in first.stdout
    assert "MAP@R" not in first.stdout
    record = Study.load("mine", "hsearch.db").record()
    assert record.spec.job.objective == record.trials[0].job.objective == "r_precision"
    other = tune("--trials", "2", "--study", "mine")
    assert other.exit_code == 2
    assert "(job.objective: 'r_precision', now 'map_at_r'); repeat those" in other.stderr
    assert other.stderr.count("\n") == 1
    assert len(Study.load("mine", "hsearch.db").record().trials) == 1


def test_another_objective_is_another_study_by_default(tune):
    names = {
        json.loads(tune("--dry-run", "--objective", objective).stdout)["study"]
        for objective in ("map_at_r", "h_ap", "level_0/map_at_r")
    }
    assert len(names) == 3


def test_a_knob_that_is_set_is_fixed(tune):
    tune("--trials", "2", "--study", "mine", "--set", "method.scale=5")
    record = Study.load("mine", "hsearch.db").record()
    assert {trial.job.method.knobs["scale"] for trial in record.trials} == {5.0}
    assert all("method.scale" not in trial.knobs for trial in record.trials)


def test_an_own_space_is_the_whole_space(tune, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("knobs:\n  method.scale: {low: 1.0, high: 2.0}\n")
    result = tune("--space", str(file), "--dry-run")
    page = json.loads(result.stdout)
    assert page["space"] == {"method.scale": "1 to 2"}
    assert page["first"]["values"] == {"method.scale": 2.0}, "the nearest to the published value"


def test_dry_run_tells_everything_and_touches_nothing(tune, tmp_path):
    result = tune("--dry-run", "--epochs", "3", "--sampler", "random", "--no-race", method="hpl")
    assert result.exit_code == 0, result.output
    page = json.loads(result.stdout)
    assert (page["trials"], page["folds"], page["sampler"], page["race"]) == (
        50,
        4,
        "random",
        False,
    )
    assert page["job"]["training"]["schedule"]["epochs"] == 3
    assert page["space"]["method.fine_margin"].endswith("when method.base = proxy_anchor")
    assert page["first"]["values"].keys() <= page["space"].keys()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "method.scal=3"], "Did you mean 'scale'"),
        (["--set", "method.scale=3", "--set", "optimizer.lr.proxies=1"], "all knobs of proxy_nca"),
        (["--workers-per-fold", "3"], "multiple of --workers-per-fold"),
        (["--objective", "h_app"], "did you mean 'h_ap'?"),
        (["--objective", "level_2/ap"], "Unknown objective 'level_2/ap'"),
        (["--recipe", "smal"], "Unknown recipe 'smal'"),
        (["--space", "no.yaml"], "'no.yaml' does not exist"),
        (["--study", "a/b"], "letters, digits"),
        (["--sampler", "grid"], "'grid' is not one of"),
        (["--tracking-uri", "file:///x"], "MLflow's address cannot be"),
        (["--storage", "no/such/folder.db"], "does not exist"),
        (["--epochs", "2", "--set", "schedule.epochs=3"], "given twice"),
    ],
)
def test_wrong_input_is_a_sentence_before_anything_starts(tune, tmp_path, arguments, sentence):
    result = tune(*arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("further", [[], ["--dry-run"]])
@pytest.mark.parametrize(("method", "knob"), [("happier", "alpha=-1"), ("hier", "num_lcas=0")])
def test_a_fixed_knob_out_of_range_is_a_sentence(tune, tmp_path, method, knob, further):
    result = tune("--set", f"method.{knob}", *further, method=method)
    assert result.exit_code == 2
    name, value = knob.split("=")
    assert result.output.startswith(f"hsearch: error: `{name}` of {method} must be ")
    assert result.output.endswith(f", but got {value}.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_knobs_of_the_recipe_as_trial_0(tune):
    result = tune("--recipe", "happier/inat", "--dry-run", method="happier")
    page = json.loads(result.stdout)
    assert page["first"]["source"] == "published"
    assert page["first"]["values"]["method.start"] == 0.0
    assert page["first"]["values"]["method.offset"] == 1.0


def test_unknown_methods_and_data_are_answered_with_the_nearest(tune):
    assert "Did you mean 'proxy_nca'?" in tune(method="proxy_nc").stderr
    assert "glyphs" in tune(data="glyph").stderr


def test_an_interrupt_keeps_the_record_and_says_so(tune, monkeypatch):
    def interrupted(study, tracker, options, watch, halted, stopping=None):
        search_at_once(study, tracker, SearchOptions(1, None, 1, None, None, Path()), watch)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", interrupted)
    result = tune("--trials", "2", "--study", "mine")
    assert result.exit_code == 130
    assert "Run the same command again to go on" in " ".join(result.stdout.split())
    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", search_at_once)
    again = tune("--trials", "2", "--study", "mine")
    assert "Recorded so far: 1 done, with 4 finished fold trainings" in again.stdout


def test_a_search_that_never_began_leaves_nothing(tune, tmp_path, monkeypatch):
    def refused(study, tracker, options, watch, halted, stopping=None):
        raise ConfigError("No cluster there; start one.")

    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", refused)
    assert tune("--trials", "1", "--study", "mine").exit_code == 2
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", search_at_once)
    tune("--trials", "1", "--study", "good")
    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", refused)
    assert tune("--trials", "2", "--study", "good").exit_code == 2
    assert tune("--trials", "1", "--study", "mine").exit_code == 2
    assert study_names("hsearch.db") == ["good"]


def test_a_search_in_which_everything_failed_is_no_success(tune, monkeypatch):
    def failing(study, tracker, options, watch, halted, stopping=None):
        watch.trial(study.fail(study.propose().number, "The loss was nan."))

    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", failing)
    result = tune("--trials", "1", "--study", "mine")
    assert result.exit_code == 1
    assert "No trial has finished all folds, so there is no best one." in result.stdout
    assert "Trial 0 failed: The loss was nan." in result.stdout


@pytest.mark.parametrize("out", ["/proc/x", "file/x", "file"])
def test_an_out_folder_that_cannot_be_is_a_sentence(tmp_path, out):
    (tmp_path / "file").write_text("")
    folder = tmp_path / out
    with pytest.raises(ConfigError, match="`--out` must be a folder that can be written to"):
        check_options(RealOptions(trials=1, folder=folder))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "storage",
    [
        "postgresql://me:s3cret@db/studies",
        "postgresql://db/studies?user=me&password=s3cret",
        "postgresql+psycopg://me@db/studies?sslpassword=s3cret&sslpassword=s3cret2",
    ],
)
def test_a_storage_with_a_password_is_named_by_its_variable(capsys, storage):
    final_words(made_record(made_trial(0, [0.5] * 4, "complete")), storage, "none")
    printed = capsys.readouterr().out
    assert "s3cret" not in printed
    assert "***" not in printed
    lines = printed.splitlines()
    assert "Train it again: hsearch train --like made-study/best" in lines
    assert "All trials:     hsearch studies made-study" in lines
    assert lines[-1].startswith("These commands need HSEARCH_STORAGE to hold")
    (record,) = [line for line in lines if line.startswith("Record:")]
    command = record.partition(":")[2].replace("optuna-dashboard", "printf %s")
    environment = {"HSEARCH_STORAGE": storage}
    shown = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert shown.stdout == f"postgresql+psycopg://{storage.partition('://')[2]}"


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        (
            "postgresql://me@db/studies?sslmode=on",
            "'postgresql+psycopg://me@db/studies?sslmode=on'",
        ),
        ("/a folder/x.db", "'sqlite:////a folder/x.db'"),
    ],
)
def test_another_storage_is_part_of_the_commands(capsys, storage, shown):
    final_words(made_record(), storage, "none")
    lines = capsys.readouterr().out.splitlines()
    assert f"All trials:     hsearch studies made-study --storage {shown}" in lines
    assert f"Record:         optuna-dashboard {shown}" in lines
    assert not any("--like" in line or "HSEARCH_STORAGE" in line for line in lines)


def test_a_study_lost_to_another_driver_is_left_to_it(tune, monkeypatch):
    def lose(study, tracker, options, watch, halted, stopping=None):
        halted.set()
        search_at_once(study, tracker, options, watch)
        raise ClusterError("Another driver has taken over.")

    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", lose)
    result = tune("--trials", "1", "--study", "mine", "--tracking-uri", "sqlite:///mlflow.db")
    assert result.exit_code == 1, result.output
    assert result.stderr == "hsearch: error: Another driver has taken over.\n"
    assert Study.load("mine", "hsearch.db").record().run_id is None


def test_the_study_appears_in_mlflow(tune, tmp_path):
    result = tune("--trials", "2", "--study", "mine", "--tracking-uri", "sqlite:///mlflow.db")
    assert result.exit_code == 0, result.output
    assert "warning" not in result.stderr
    assert "hsearch ui" in result.stdout
    record = Study.load("mine", "hsearch.db").record()
    assert record.run_id is not None
    assert all(trial.run_id for trial in record.trials)
    (artifacts,) = tmp_path.glob(f"mlruns/*/*/{record.run_id}/artifacts")
    pictures = {path.name for path in (artifacts / "pictures").iterdir()}
    assert pictures >= {"history.png", "race.png", "parallel.png", "slices.png"}


def test_a_stop_is_told_and_mlflow_shows_the_study_as_interrupted(tune, monkeypatch):
    def stop(study, tracker, options, watch, halted, stopping):
        trial = study.propose()
        watch.trial(trial)
        tracker.wake()
        ask_to_stop(study, Driver.from_dict(study.attribute("driver")))
        assert stopping.wait(60)

    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(sys.modules["hsearch.cluster.run"], "run_search", stop)
    result = tune("--trials", "2", "--study", "mine", "--tracking-uri", "sqlite:///mlflow.db")
    assert result.exit_code == 0, result.output
    assert f"Stopped from {socket.gethostname()}. The record of mine keeps 0 fin" in result.stdout
    assert "Run the same command again to go on" in result.stdout
    with closing(sqlite3.connect("mlflow.db")) as database:
        statuses = database.execute("SELECT status FROM runs").fetchall()
    assert statuses == [("KILLED",), ("KILLED",)]
    record = Study.load("mine", "hsearch.db").record()
    assert (record.driver, record.trials[0].state) == (None, "running")


def test_a_recipe_of_ones_own_is_used_and_recorded_whole(tune, tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: small\ntrials: 2\nschedule: {epochs: 3}\n")
    result = tune("--recipe", "mine.yaml", "--study", "mine")
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert first == "Recipe mine.yaml (a network from scratch), as --recipe says."
    record = Study.load("mine", "hsearch.db").record()
    assert len(record.trials) == 2
    training = record.spec.job.training
    assert (training.recipe, training.schedule.epochs) == ("mine.yaml", 3)


def test_an_unknown_key_of_an_own_recipe_is_a_sentence_and_leaves_nothing(tune, tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: small\nmodel:\n  bakbone: resnet18\n")
    result = tune("--recipe", "mine.yaml", "--study", "mine")
    assert result.exit_code == 2
    assert "mine.yaml:3: unknown key 'bakbone'" in result.stderr
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_weights_that_do_not_fit_end_before_the_search_and_leave_nothing(tune, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"no weights")
    settings = ["--set", "model.weights=x.safetensors", "--study", "mine"]
    result = tune(*settings)
    assert result.exit_code == 2
    assert "x.safetensors cannot be read as weights" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]
    (tmp_path / "x.safetensors").unlink()
    assert tune("--trials", "1", "--study", "mine").exit_code == 0


def test_the_regime_is_a_setting(tune):
    page = json.loads(tune("--dry-run", "--regime", "frozen").stdout)
    assert page["job"]["training"]["model"]["regime"] == "frozen"
    assert page["why"].startswith("Recipe small (")
    twice = tune("--dry-run", "--regime", "full", "--set", "model.regime=lora")
    assert twice.exit_code == 2
    assert "'model.regime' is given twice" in twice.stderr
    assert tune("--regime", "half").exit_code == 2


def test_a_search_starts_from_another_study(tune):
    tune("--trials", "4", "--study", "first")
    page = json.loads(tune("--dry-run", "--start-from", "first", "--seed", "5").stdout)
    assert page["start_from"] == "first"
    result = tune("--start-from", "first", "--study", "second", "--trials", "2", "--seed", "5")
    assert result.exit_code == 0, result.output
    first = Study.load("first", "hsearch.db").record()
    second = Study.load("second", "hsearch.db").record()
    best = first.best
    assert best is not None
    assert best.source == "published", "which the new study tries anyway"
    assert second.trials[0].knobs == best.knobs
    again = tune("--start-from", "first", "--study", "second", "--trials", "3", "--seed", "5")
    assert again.exit_code == 0, again.output
    without = tune("--study", "second", "--trials", "4", "--seed", "5")
    assert without.exit_code == 2
    assert "start_from: 'first', now None" in without.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--start-from", "frist"], "There is no study 'frist'"),
        (["--start-from", "other"], "of the same method, but 'other' is of hpl"),
    ],
)
def test_a_study_that_cannot_be_started_from_is_a_sentence(tune, arguments, sentence):
    tune("--trials", "1", "--study", "other", method="hpl")
    result = tune(*arguments, "--study", "mine")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert study_names("hsearch.db") == ["other"]


def test_start_points_that_are_left_out_are_listed(tune):
    result = tune("--set", "method.base=proxy_nca", "--trials", "1", method="hpl")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.startswith("Left out: ")]
    assert any("HPL-PA" in line and "method.base is proxy_nca" in line for line in lines)
    page = json.loads(tune("--dry-run", "--set", "method.base=proxy_nca", method="hpl").stdout)
    assert page["notes"] == lines
