"""A search, its reproduction and a comparison on images with several labels, on real Ray."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hsearch.folds import NUM_FOLDS
from hsearch.search.plan import plan_study
from hsearch.search.reproduced import run_name, runs_folder
from hsearch.search.reproduction import Reproduction, load_reproduction
from hsearch.search.study import Study
from hsearch.spec import FoldJob
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.testing import score_floor, score_run
from tests.cluster.searches import (
    LIMIT_SECONDS,
    QUICK,
    Command,
    Search,
    kill,
    processes_of,
    scores,
)
from tests.search.made_reproduction import made_plan
from tests.search.made_results import made_result

PICTURES = {"attention.png", "label-neighbors.png", "label-gallery.png", "label-scores.png"}
MLFLOW = ("--tracking-uri", "sqlite:///mlflow.db")


@pytest.fixture(scope="module")
def searched(tmp_path_factory, label_store):
    """A finished search of two trials; every fold is trained by two ranks, one of which dies."""
    folder = tmp_path_factory.mktemp("searched")
    options = ("--trials=2", "--groups=1", "--workers-per-fold=2")
    search = Search(folder, label_store, *options, method="mulcon")
    search.breakpoint.set(fold=1, epoch=2, step=1)
    with search.started() as driver:
        search.wait_for("2 per fold: 1 fold training at once", driver)
        search.wait_for_breakpoint(driver)
        ranks = processes_of(driver.pid, "RayTrainWorker")
        assert len(ranks) == 2
        kill(ranks[1])
        search.wait_for("A worker was lost while training fold 1 of trial 0", driver)
        search.breakpoint.clear()
        driver.wait(LIMIT_SECONDS)
    assert driver.returncode == 0, search.printed()
    return search


@pytest.fixture(scope="module")
def reproduced(searched):
    """What was printed when the search was reproduced."""
    return Command(searched.folder, "reproduce", "toy", "--runs=2").run()


@pytest.fixture(scope="module")
def plain(searched, label_store):
    """A study of bce in the same record, whose runs were trained and tested here, without Ray."""
    storage, folder = str(searched.folder / "hsearch.db"), searched.folder / "studies"
    plan = plan_study(method="bce", data=str(label_store.path), settings=QUICK.copy())
    with closing(Study.open("plain", storage, plan.spec, plan.space)) as study:
        study.take_over()
        trial = study.propose()
        for fold in range(NUM_FOLDS):
            job = trial.job.model_copy(update={"fold": fold})
            study.record_fold(trial.number, made_result(job, 0.3))
        spec = made_plan(study.record())
    with closing(Reproduction.open(spec, storage)) as found:
        found.take_over()
        found.begin(2)
        for number in range(2):
            place = runs_folder(folder, spec) / run_name(number)
            for fold in range(NUM_FOLDS):
                job = spec.job_of(number, fold)
                found.record_fold(number, train_locally(job, Report(), place / f"fold-{fold}"))
            found.record_tested(number, score_run(place, range(NUM_FOLDS)))
        found.record_floor(score_floor(spec.job, runs_folder(folder, spec)))
    return "plain"


def artifacts(folder: Path, run: str) -> Path:
    """Where MLflow keeps the files of a run."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        ((place,),) = database.execute(
            "select artifact_uri from runs where name = ?", (run,)
        ).fetchall()
    return Path(place.removeprefix("file://"))


def latest(folder: Path, run: str) -> dict[str, float]:
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        rows = database.execute(
            "select m.key, m.value from latest_metrics m join runs r using (run_uuid) "
            "where r.name = ?",
            (run,),
        ).fetchall()
    return dict(rows)


def test_trials_are_scored_by_the_mean_average_precision_of_labels(searched):
    record = searched.record()
    for trial in record["trials"]:
        assert trial["state"] in ("complete", "lost")
        assert (trial["state"] == "complete") == (len(trial["folds"]) == NUM_FOLDS)
        for result in trial["folds"].values():
            assert result["score"] == result["validation"]["map"]
            assert result["ranks"] == 2
            assert "label_precision_at_3" in result["validation"]
    complete = [trial for trial in record["trials"] if trial["state"] == "complete"]
    best = max(complete, key=lambda trial: sum(scores(trial)))
    printed = searched.printed()
    assert f"Best: trial {best['number']}" in printed
    assert "trial 0  fold 0  mAP 0." in printed
    assert "Traceback" not in printed


def test_a_fold_that_loses_a_rank_is_trained_as_one_process_trains_it(searched, tmp_path):
    lost = re.search(
        r"A worker was lost while training fold (\d) of trial (\d)", searched.printed()
    )
    assert lost is not None
    fold, trial = lost[1], searched.record()["trials"][int(lost[2])]
    job = FoldJob.from_dict({**trial["job"], "fold": int(fold)})
    alone = train_locally(job, Report(), tmp_path / "alone")
    assert trial["folds"][fold]["score"] == pytest.approx(alone.score, abs=0.05)


def test_mlflow_has_the_metrics_and_the_pictures_of_the_study(searched):
    best = max(searched.record()["trials"], key=lambda trial: sum(scores(trial)))
    found = latest(searched.folder, f"trial-{best['number']:03d} of toy")
    assert {"mean/val/map", "mean/val/cf1", "mean/val/of1_top_3"} <= found.keys()
    assert not any("map_at_r" in name for name in found)
    assert latest(searched.folder, "toy")["score/val"] == found["score/val"]
    tables = artifacts(searched.folder, "toy") / "metrics"
    assert "of1_top_3" in (tables / "validation.json").read_text()
    pictures = {path.name for path in (artifacts(searched.folder, "toy") / "pictures").iterdir()}
    assert pictures >= {"history.png", "race.png", "parallel.png", "slices.png"}


def test_runs_are_tested_and_told_beside_the_frequencies_of_labels(searched, reproduced):
    folder, printed = searched.folder, reproduced
    record = load_reproduction("toy", "cross-validated", str(folder / "hsearch.db"))
    assert record is not None
    assert [run.state for run in record.runs] == ["complete"] * 2
    place = folder / "studies" / "toy" / "reproduce-cross-validated" / "run-001"
    tested = record.runs[1].tested
    assert score_run(place, range(NUM_FOLDS)) == tested
    assert tested is not None
    assert tested.queries == 40
    assert record.floor is not None
    assert "FLOOR (LABEL FREQUENCIES)" in printed
    assert "The floor is tested: label frequencies alone." in printed
    line = next(line for line in printed.splitlines() if line.startswith("mAP "))
    assert line.split()[-1] == f"{record.floor['map']:.4f}"
    assert "is not drawn" not in printed
    shown = latest(folder, "toy")["score/test_floor"]
    assert shown == pytest.approx(record.floor["map"], rel=1e-5)


@pytest.mark.usefixtures("reproduced")
def test_mlflow_has_pictures_of_a_network_of_the_first_run(searched):
    place = artifacts(searched.folder, "run-000 of toy (cross-validated)")
    assert {path.name for path in (place / "pictures").iterdir()} == PICTURES


def test_the_study_and_its_best_network_are_drawn(searched):
    printed = Command(searched.folder, "look", "toy").run()
    looks = searched.folder / "looks" / "toy"
    assert "Fold 0 of the best trial, studies/toy/trial-000" in printed
    assert {path.name for path in (looks / "best").iterdir()} == PICTURES
    assert (looks / "history.png").exists()


@pytest.mark.usefixtures("reproduced")
def test_two_methods_are_compared(searched, plain):
    command = ("compare", "toy", plain, "--write", "report", *MLFLOW)
    printed = " ".join(Command(searched.folder, *command).run().split())
    assert "METHOD MAP 95 % CI" in printed
    assert "label frequencies, no image seen 0." in printed
    assert "Labels are scored over all images at once" in printed
    assert "backbone" not in printed.replace("The same for all: regime, backbone", "")
    (board,) = json.loads((searched.folder / "report" / "compare.json").read_text())["leaderboards"]
    assert board["metric"] == "map"
    assert {row["method"] for row in board["tables"][0]["rows"]} == {"mulcon", "bce"}
    assert len(board["tables"][0]["floors"]) == 1
