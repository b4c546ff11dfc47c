"""`hsearch reproduce` as a user runs it, on a real Ray session, killed and continued."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch

from hsearch.evaluation.query_table import QUERIES
from hsearch.folds import NUM_FOLDS
from hsearch.search.plan import plan_study
from hsearch.search.reproduction import load_reproduction
from hsearch.search.study import Study
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.score import embed_runs
from hsearch.training.testing import score_floor, score_run
from tests.cluster.searches import LIMIT_SECONDS, Command, is_alive, kill, processes_of, wait_until
from tests.conftest import TINY
from tests.search.made_results import made_result


@pytest.fixture(scope="module")
def searched(tmp_path_factory, toy_store):
    """A folder with the study `toy`, whose one trial was recorded without training."""
    folder = tmp_path_factory.mktemp("searched")
    plan = plan_study(
        method="proxy_nca", data=str(toy_store.path), recipe="small", settings=TINY.copy()
    )
    name = str(folder / "hsearch.db")
    with closing(Study.open("toy", name, plan.spec, plan.space)) as study:
        study.take_over()
        trial = study.propose()
        for fold in range(NUM_FOLDS):
            job = trial.job.model_copy(update={"fold": fold})
            study.record_fold(trial.number, made_result(job, 0.3))
    return folder


def reproduce(folder, *options):
    return Command(folder, "reproduce", "toy", "--runs=2", *options)


def read(folder, protocol="cross-validated"):
    return load_reproduction("toy", protocol, str(folder / "hsearch.db"))


@pytest.fixture(scope="module")
def reproduced(searched, tmp_path_factory):
    """The folder of a reproduction that was stopped, killed and finished, and its last output."""
    folder = tmp_path_factory.mktemp("reproduced") / "here"
    shutil.copytree(searched, folder)
    command = reproduce(folder)
    command.breakpoint.set(epoch=2)
    with command.started() as driver:
        command.wait_for_breakpoint(driver)
        stop = Command(folder, "stop", "toy").run()
        driver.wait(LIMIT_SECONDS)
    assert driver.returncode == 0, command.printed()
    assert "Stopped from " in command.printed()
    assert "Stopped toy/reproduce-cross-validated: the record keeps" in stop
    command.breakpoint.set(fold=3, epoch=2, step=1)
    with command.started() as driver:
        command.wait_for("  trained", driver, times=3)
        command.wait_for_breakpoint(driver)
        command.processes = processes_of(driver.pid)
        kill(driver.pid)
        driver.wait()
    assert [sorted(run.folds) for run in read(folder).runs] == [[0, 1, 2], []]
    command.breakpoint.clear()
    printed = command.run()
    wait_until(lambda: not any(map(is_alive, command.processes)), "Ray ends with its driver")
    return folder, printed


def test_every_run_is_trained_with_its_seed_and_tested(reproduced):
    folder, printed = reproduced
    record = read(folder)
    assert [(run.seed, run.state) for run in record.runs] == [
        (1000, "complete"),
        (1001, "complete"),
    ]
    first, second = (run.tested for run in record.runs)
    assert first.models != second.models
    runs = folder / "studies" / "toy" / "reproduce-cross-validated"
    assert score_run(runs / "run-000", range(NUM_FOLDS)) == first
    assert record.floor is not None
    assert record.level_names == ("level_0", "level_1", "level_2")
    mean = record.means("concatenated")["map_at_r"]
    assert f"{mean.mean:.4f} +- {mean.std:.4f} [{mean.low:.4f}, {mean.high:.4f}]" in printed
    assert f"{record.floor['map_at_r']:.4f}" in printed


def test_mlflow_shows_the_runs_below_the_study_with_their_networks(reproduced):
    folder, _ = reproduced
    record = read(folder)
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        rows = database.execute(
            "select r.name, t.value, r.artifact_uri from runs r join tags t "
            "on t.run_uuid = r.run_uuid where t.key = 'mlflow.parentRunId'"
        ).fetchall()
        means = dict(
            database.execute(
                "select m.key, m.value from latest_metrics m join runs r using (run_uuid) "
                "where r.name = 'toy'"
            ).fetchall()
        )
    places = {name: artifacts for name, _, artifacts in rows if "cross-validated" in name}
    assert places.keys() == {"run-000 of toy (cross-validated)", "run-001 of toy (cross-validated)"}
    assert len({parent for _, parent, _ in rows}) == 1
    separated, joined = (record.means(k)["map_at_r"] for k in ("separated", "concatenated"))
    expected = {
        "score/test": separated.mean,
        "score/test_low": separated.low,
        "score/test_high": separated.high,
        "score/test_concatenated": joined.mean,
        "score/test_floor": record.floor["map_at_r"],
    }
    assert {name: means[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    # The logged files are all that it takes to use a network again.
    logged = places["run-000 of toy (cross-validated)"].removeprefix("file://")
    assert (Path(logged) / "pictures" / "gallery.png").stat().st_size > 0
    copies = folder / "logged"
    shutil.copytree(f"{logged}/model", copies)
    assert sorted(path.name for path in copies.rglob("*") if path.is_file()) == sorted(
        ["best.safetensors", "job.json"] * NUM_FOLDS
    )
    assert score_run(copies, range(NUM_FOLDS)) == record.runs[0].tested


def test_the_same_command_again_trains_nothing_and_prints_the_same(reproduced):
    folder, printed = reproduced
    before = read(folder)
    again = reproduce(folder).run()
    assert "Nothing is left to train: 8 finished fold trainings, 2 tested runs." in again
    assert again.splitlines()[-20:] == printed.splitlines()[-20:]
    assert read(folder) == before


@pytest.fixture
def one_thread():
    """As many as a worker with one CPU has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_after_a_stop_and_a_kill_its_numbers_are_those_of_trainings_without_ray(
    reproduced, tmp_path
):
    record = read(reproduced[0])
    tested = score_floor(record.spec.job_of(0, 0), tmp_path / "floor")
    assert (record.floor, record.floor_queries) == (tested.metrics, tested.queries)
    kept = reproduced[0] / "studies" / "toy" / "reproduce-cross-validated" / "floor" / QUERIES
    assert kept.read_bytes() == (tmp_path / "floor" / QUERIES).read_bytes()
    for run in record.runs:
        for fold, result in run.folds.items():
            place = tmp_path / f"{run.seed}" / f"fold-{fold}"
            alone = train_locally(result.job, Report(), place)
            assert (alone.job.seed, alone.score) == (run.seed, result.score)
            assert (alone.best_epoch, alone.validation) == (result.best_epoch, result.validation)
        assert score_run(tmp_path / f"{run.seed}", range(NUM_FOLDS)) == run.tested


def test_the_classic_protocol_trains_one_network_on_all_classes(searched, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(searched, folder)
    settings = [f"--set={key}={value}" for key, value in TINY.items()]
    classic = ("--protocol=classic", "--recipe=small", *settings, "--tracking-uri=none")
    printed = reproduce(folder, *classic).run("--workers-per-fold=2")
    record = read(folder, "classic")
    assert read(folder) is None
    assert [run.state for run in record.runs] == ["complete"] * 2
    for run in record.runs:
        (result,) = run.folds.values()
        assert (result.score, result.ranks) == (None, 2)
        assert len(run.tested.models) == 1
    assert "concatenated" not in printed.lower()
    network = folder / "studies" / "toy" / "reproduce-classic" / "run-001" / "fold-4"
    (embedded,) = embed_runs([network], "test")
    assert len(embedded.labels) == record.runs[1].tested.queries == 72
