"""A training is reproducible bit for bit, also when it is killed and resumed."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from safetensors.torch import load_file

from hsearch.data.splits import store_splits
from hsearch.data.store import Store
from hsearch.errors import ClusterError, ConfigError, DivergedError
from hsearch.results import FoldResult, metric_names
from hsearch.training.checkpoint import read_notes
from hsearch.training.folder import RunFolder
from hsearch.training.launch import train_locally
from hsearch.training.loop import PausedError, Report
from tests.processes import ready_processes
from tests.training.runs import outcome


class Killer(Report):
    """Kills its process at an iteration of an epoch."""

    def __init__(self, epoch, iteration):
        self.moment = (epoch, iteration)

    def iteration(self, epoch, done, total):
        if (epoch, done) == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)


class Recorder(Report):
    def __init__(self):
        self.epochs = []
        self.iterations = 0

    def iteration(self, epoch, done, total):
        self.iterations += 1

    def epoch(self, record):
        self.epochs.append(record.epoch)


def weights_of_two_epochs(job, path):
    """Trains the job; returns its weights after the first epoch and after the second."""
    weights = {}

    class Keeper(Report):
        def epoch(self, record):
            weights[record.epoch] = load_file(path / "last.safetensors")

    train_locally(job, Keeper(), path)
    return weights[1], weights[2]


@pytest.fixture
def finished(toy_job, tmp_path):
    job = toy_job("hpl", method__update_period=3, schedule__epochs=3)
    recorder = Recorder()
    result = train_locally(job, recorder, tmp_path / "whole")
    return job, tmp_path / "whole", recorder, result


def test_reports_every_epoch_and_keeps_the_best(finished):
    job, path, recorder, result = finished
    assert recorder.epochs == [0, 1, 2, 3]
    assert recorder.iterations == 3 * job.training.schedule.iterations_per_epoch
    scores = [record.validation["map_at_r"] for record in result.history]
    assert max(scores) < 0.95  # not so easy that ranking faults would not show
    assert len(set(scores)) == len(scores)
    assert result.score == max(scores[1:]) == scores[result.best_epoch]
    assert result.untrained["map_at_r"] == scores[0]
    assert FoldResult.from_dict(json.loads((path / "result.json").read_text())) == result


def test_every_metric_that_may_be_the_objective_is_validated(finished):
    _, _, _, result = finished
    assert set(result.validation) == set(metric_names(3))


# An untrained network and three epochs: every metric is at its best in another one.
MADE = [
    {"map_at_r": 0.1, "r_precision": 0.9, "h_violations": 0.1},
    {"map_at_r": 0.6, "r_precision": 0.2, "h_violations": 0.7},
    {"map_at_r": 0.5, "r_precision": 0.3, "h_violations": 0.25},
    {"map_at_r": 0.4, "r_precision": 0.4, "h_violations": 0.75},
]


@pytest.mark.parametrize(
    ("objective", "best", "score", "stopped", "epochs"),
    [
        ("map_at_r", 1, 0.6, "patience", 2),
        ("r_precision", 3, 0.4, "epochs", 3),
        ("h_violations", 2, 0.75, "epochs", 3),
    ],
)
def test_the_objective_decides_best_epoch_patience_and_score(
    toy_job, tmp_path, monkeypatch, objective, best, score, stopped, epochs
):
    made = iter(MADE)
    monkeypatch.setattr(
        "hsearch.training.validation.retrieval_metrics", lambda *_, **__: next(made)
    )
    settings = {"schedule__epochs": 3, "schedule__iterations_per_epoch": 1, "schedule__patience": 1}
    job = toy_job("proxy_nca", **settings).model_copy(update={"objective": objective})
    result = train_locally(job, Report(), tmp_path / "run")
    assert (result.best_epoch, result.score, result.stopped) == (best, score, stopped)
    assert len(result.history) == 1 + epochs
    assert result.validation == MADE[best]
    (kept,) = read_notes(tmp_path / "run" / "best.safetensors")["history"]
    assert kept["epoch"] == best


def test_two_runs_are_bit_identical(finished, tmp_path):
    job, path, _, _ = finished
    train_locally(job, Report(), tmp_path / "again")
    assert outcome(tmp_path / "again") == outcome(path)


def test_another_seed_is_another_run(finished, tmp_path, toy_job):
    _, path, _, _ = finished
    other = toy_job("hpl", method__update_period=3, schedule__epochs=3, seed=1)
    train_locally(other, Report(), tmp_path / "other")
    assert outcome(tmp_path / "other")[1] != outcome(path)[1]


@pytest.mark.parametrize(("epoch", "iteration"), [(1, 2), (3, 1)])
def test_killed_and_resumed_equals_uninterrupted(finished, tmp_path, epoch, iteration):
    job, path, _, _ = finished
    broken = tmp_path / "broken"
    assert run_killed(job, broken, epoch, iteration) == -signal.SIGKILL
    assert not (broken / "result.json").exists()
    recorder = Recorder()
    train_locally(job, recorder, broken)
    assert recorder.epochs == list(range(epoch, 4))
    assert outcome(broken) == outcome(path)


def test_paused_and_resumed_equals_uninterrupted(finished, tmp_path):
    class Pauses(Recorder):
        def must_pause(self):
            return self.epochs[-1] == 1

    job, whole, _, _ = finished
    path, report = tmp_path / "paused", Pauses()
    with pytest.raises(PausedError):
        train_locally(job, report, path)
    assert report.epochs == [0, 1]
    train_locally(job, Report(), path)
    assert outcome(path) == outcome(whole)


def test_epochs_of_the_samplers_own_length_resume_with_the_right_count_of_steps(toy_job, tmp_path):
    settings = {"method__update_period": 4, "batch__sampler": "m_per_class_once"}
    job = toy_job(
        "hpl", **settings, batch__size=12, schedule__epochs=3, schedule__iterations_per_epoch=None
    )
    recorder = Recorder()
    train_locally(job, recorder, tmp_path / "whole")
    assert recorder.iterations % 3 == 0
    assert (recorder.iterations // 3) % 4 != 0  # else a count from 0 would not be noticed
    assert run_killed(job, tmp_path / "broken", 2, 1) == -signal.SIGKILL
    train_locally(job, Report(), tmp_path / "broken")
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


def test_frozen_parts_keep_their_weights_also_after_the_warm_up(toy_job, tmp_path):
    job = toy_job("hpl", model__frozen="conv1,layer1", schedule__warmup_epochs=1)
    warm, last = weights_of_two_epochs(job, tmp_path / "run")
    moved = {
        name.split(".")[4]
        for name, tensor in warm.items()
        if name.startswith("model.embedder.backbone.network.") and name.endswith("weight")
        if not tensor.equal(last[name])
    }
    assert moved == {"bn1", "layer2", "layer3", "layer4"}


def test_killed_while_a_checkpoint_is_written(finished, tmp_path):
    """A torn temporary file beside whole checkpoints does no harm."""
    job, path, _, _ = finished
    broken = tmp_path / "broken"
    run_killed(job, broken, 2, 1)
    (broken / ".last.safetensors.tmp").write_bytes(b"torn")
    train_locally(job, Report(), broken)
    assert outcome(broken) == outcome(path)


def run_killed(job, path, epoch, iteration, workers=1):
    arguments = (job, Killer(epoch, iteration), path, workers)
    process = ready_processes().Process(target=train_in_own_scratch, args=arguments)
    process.start()
    process.join(120)
    code = process.exitcode
    process.kill()
    process.join()
    return code


def train_in_own_scratch(job, report, path, workers):
    tempfile.tempdir = str(path.parent)  # who is killed leaves its scratch folder
    train_locally(job, report, path, workers)


def test_finished_run_is_not_trained_again(finished):
    job, path, _, result = finished
    recorder = Recorder()
    assert train_locally(job, recorder, path) == result
    assert recorder.epochs == []


def test_other_settings_are_refused_with_their_names(finished, toy_job):
    job, path, _, _ = finished
    other = toy_job("hpl", method__update_period=4, schedule__epochs=3)
    with pytest.raises(ConfigError, match=r"other settings \(method.knobs.update_period\)"):
        train_locally(other, Report(), path)
    judged = job.model_copy(update={"objective": "r_precision"})
    with pytest.raises(ConfigError, match=r"other settings \(objective\)"):
        train_locally(judged, Report(), path)


def test_folder_with_other_files_is_refused(toy_job, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        train_locally(toy_job(), Report(), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_second_writer_is_refused(toy_job, tmp_path):
    job = toy_job()
    refused = pytest.raises(ConfigError, match=f"process {os.getpid()}")
    with RunFolder(tmp_path / "run").claimed(job), refused:
        train_locally(job, Report(), tmp_path / "run")


def test_killed_before_the_job_was_written(toy_job, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".job.json.tmp").write_text("{")
    result = train_locally(toy_job("proxy_nca"), Report(), tmp_path / "run")
    assert result.best_epoch > 0


def test_killed_between_the_last_and_the_best_checkpoint(finished, tmp_path):
    job, path, _, result = finished
    broken = tmp_path / "broken"
    shutil.copytree(path, broken)
    (broken / "result.json").unlink()
    whole = outcome(path)
    if result.best_epoch == 3:
        (broken / "best.safetensors").unlink()
    train_locally(job, Report(), broken)
    assert outcome(broken) == whole


def test_changed_data_are_named_as_such(finished):
    job, path, _, _ = finished
    other = job.model_copy(update={"data_digest": "0" * 64})
    with pytest.raises(ConfigError, match="has changed since the run"):
        train_locally(other, Report(), path)


def test_training_reads_no_test_image(toy_store, toy_job, tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path))  # no decoded cache yet
    read = set()
    whole = Store.encoded

    def watched(self, row):
        read.add(int(row))
        return whole(self, row)

    monkeypatch.setattr(Store, "encoded", watched)
    train_locally(toy_job("proxy_nca"), Report(), tmp_path / "run")
    splits = store_splits(toy_store)
    assert read == set(toy_store.rows(splits.trainval).tolist())
    assert not read & set(toy_store.rows(splits.test).tolist())


def test_patience_stops_early_and_keeps_the_best(toy_job, tmp_path):
    job = toy_job(
        "proxy_nca",
        schedule__epochs=30,
        schedule__patience=1,
        optimizer__lr__backbone=0.0,
        optimizer__lr__proxies=0.0,
        model__batch_norm="frozen",
    )
    result = train_locally(job, Report(), tmp_path / "run")
    assert result.stopped == "patience"
    assert (result.best_epoch, len(result.history)) == (1, 3)


def test_evaluates_only_when_due_and_at_the_end(toy_job, tmp_path):
    job = toy_job("proxy_nca", schedule__epochs=3, schedule__eval_every=2)
    result = train_locally(job, Report(), tmp_path / "run")
    assert [r.validation is not None for r in result.history] == [True, False, True, True]


def test_warm_up_leaves_the_backbone_alone(toy_job, tmp_path):
    job = toy_job("proxy_nca", schedule__warmup_epochs=1, seed=2)
    weights, _ = weights_of_two_epochs(job, tmp_path / "warm")
    job = toy_job("proxy_nca", schedule__epochs=1, optimizer__lr__backbone=0.0, seed=2)
    train_locally(job, Report(), tmp_path / "still")
    still = load_file(tmp_path / "still" / "last.safetensors")
    parameters = [k for k in weights if "backbone" in k and k.endswith(("weight", "bias"))]
    assert parameters
    assert all((weights[k] == still[k]).all() for k in parameters)
    assert (weights["model.embedder.head.0.weight"] != still["model.embedder.head.0.weight"]).any()


def test_divergence_is_an_error_that_says_where(toy_job, tmp_path):
    job = toy_job("proxy_nca", optimizer__lr__backbone=1e30, optimizer__name="sgd")
    with pytest.raises(DivergedError, match=r"iteration \d+ of epoch 1"):
        train_locally(job, Report(), tmp_path / "run")


def test_a_loss_beyond_all_bounds_ends_it_too(toy_job, tmp_path):
    job = toy_job("proxy_nca", method__scale=1e9)
    with pytest.raises(DivergedError, match=r"below 1e\+06, but was .* in iteration 1 of epoch 1"):
        train_locally(job, Report(), tmp_path / "run")


def test_two_workers_train_a_whole_fold_and_leave_no_process(toy_job, tmp_path):
    job = toy_job("hpl", method__update_period=3, optimizer__name="sgd")
    one = train_locally(job, Report(), tmp_path / "one")
    two = train_locally(job, Report(), tmp_path / "two", workers=2)
    for a, b in zip(one.history[1:], two.history[1:], strict=True):
        assert b.loss == pytest.approx(a.loss, rel=2e-3)  # rounding grows from step to step
    assert children() == []


def test_two_workers_killed_and_resumed(toy_job, tmp_path):
    job = toy_job("hpl", method__update_period=3)
    train_locally(job, Report(), tmp_path / "whole", workers=2)
    run_killed(job, tmp_path / "broken", 2, 2, workers=2)
    train_locally(job, Report(), tmp_path / "broken", workers=2)
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


def test_a_lost_worker_is_a_sentence_and_the_run_goes_on_later(toy_job, tmp_path):
    job = toy_job("proxy_nca", schedule__epochs=4)

    class KillOther(Report):
        def iteration(self, epoch, done, total):
            if (epoch, done) == (2, 2):
                for process in multiprocessing.active_children():
                    process.kill()

    with pytest.raises(ClusterError, match="worker was lost"):
        train_locally(job, KillOther(), tmp_path / "run", workers=2)
    assert children() == []
    recorder = Recorder()
    train_locally(job, recorder, tmp_path / "run", workers=2)
    assert recorder.epochs == [2, 3, 4]


def test_an_error_of_this_process_is_not_blamed_on_a_worker(toy_job, tmp_path):
    class Broken(Report):
        def iteration(self, epoch, done, total):
            raise RuntimeError("a bug of the caller")

    with pytest.raises(RuntimeError, match="a bug of the caller"):
        train_locally(toy_job("proxy_nca"), Broken(), tmp_path / "run", workers=2)
    assert children() == []


def test_batch_must_divide_among_the_workers(toy_job, tmp_path):
    with pytest.raises(ConfigError, match="multiple of the number of workers"):
        train_locally(toy_job(), Report(), tmp_path / "run", workers=3)
    assert not (tmp_path / "run").exists()


def children() -> list[int]:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = subprocess.run(
            ["pgrep", "-P", str(os.getpid()), "-f", "spawn_main"], capture_output=True, text=True
        ).stdout.split()
        if not found:
            return []
        time.sleep(0.1)
    return [int(pid) for pid in found]
