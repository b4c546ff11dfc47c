"""What a search costs beyond its trainings, against Ray's own way and against a bare process pool.

(a) No-op jobs through the whole of a search (board, worker group, Tune, study on SQLite, MLflow) on
    one group: seconds per job after warm-up. The peer is Ray's documented way: a Tune trial that
    starts one TorchTrainer per fold, with a training function that does nothing.
(b) A real search of 6 trials x 4 folds without a race on two groups of one rank: seconds between
    the end of the warm-up folds and the last fold, against two plain processes that train the same
    jobs one after the other with no Ray, Optuna or MLflow; both warm up on 4 folds more.
(c) What passes from the command to the first training step, once per search, by parts.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hsearch.cluster.run import SearchOptions, run_search
from hsearch.folds import NUM_FOLDS
from hsearch.results import EpochRecord, FoldResult
from hsearch.search.plan import StudyPlan, plan_study
from hsearch.search.record import TrialRecord
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.spec import FoldJob
from hsearch.tracking.tracker import Tracker
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report, train_fold

MOST_SECONDS_PER_JOB = 0.25
LEAST_TIMES_FASTER = 40
MOST_RATIO = 1.10
MOST_START_SECONDS = 45

WARM_UP_FOLDS = NUM_FOLDS
TURNS = 3


def train_nothing(job: FoldJob, report: Report, folder: RunFolder) -> FoldResult:
    """A training that takes no time; its score follows from the knobs."""
    score = 0.5 + (int(job.digest(), 16) % 1000) / 1e5
    metrics = {"map_at_r": score}
    epoch = EpochRecord(
        epoch=1, loss=1.0, seconds=0.0, images_per_second=1.0, lr={}, validation=metrics
    )
    return FoldResult(
        job=job,
        score=score,
        best_epoch=1,
        validation=metrics,
        untrained=metrics,
        history=(epoch, epoch),
        stopped="epochs",
        versions={},
    )


class Times(Watch):
    """When things happened, in seconds since the process began."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.folds: list[float] = []
        self.known: dict[int, int] = {}
        self.jobs: list[FoldJob] = []

    def note(self, part: str) -> None:
        self.parts.setdefault(part, since_start())

    def said(self, sentence: str) -> None:
        self.note("Ray stands")

    def groups(self, alive: int, wanted: int) -> None:
        if alive:
            self.note("first worker group stands")

    def epoch(self, number: int, fold: int, record: EpochRecord) -> None:
        self.note("first training step (data, network, validation of the untrained network)")

    def trial(self, record: TrialRecord) -> None:
        if len(record.folds) > self.known.get(record.number, 0):
            self.known[record.number] = len(record.folds)
            self.folds.append(since_start())


def since_start() -> float:
    """Seconds since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - started / os.sysconf("SC_CLK_TCK")


def search(plan: StudyPlan, trials: int, groups: int, folder: Path, **arguments: object) -> Times:
    """Runs a search as `hsearch tune` does, in a folder of its own."""
    times = Times()
    study = Study.open("benchmark", str(folder / "hsearch.db"), plan.spec, plan.space)
    tracker = Tracker(study.record, study.note_run, f"sqlite:///{folder}/mlflow.db")
    times.note("imports and study")
    options = SearchOptions(trials=trials, groups=groups, folder=folder / "studies")
    run_search(study, tracker, options, times, **arguments)  # type: ignore[arg-type]
    tracker.close(60, over=True)
    times.jobs = jobs_of(study)
    study.close()
    return times


def jobs_of(study: Study) -> list[FoldJob]:
    """All jobs of a study in the order of trials and folds."""
    trials = study.record().trials
    return [t.job.model_copy(update={"fold": f}) for t in trials for f in range(NUM_FOLDS)]


def seconds_per_job(quick: bool) -> float:
    """Seconds per no-op job on one group after warm-up, through the whole of a search."""
    plan = plan_study(
        method="proxy_nca", data="glyphs", recipe="small", settings={}, sampler="tpe", race=False
    )
    with tempfile.TemporaryDirectory() as folder:
        times = search(plan, 8 if quick else 30, 1, Path(folder), train=train_nothing)
    after = times.folds[WARM_UP_FOLDS - 1 :]
    return (after[-1] - after[0]) / (len(after) - 1)


def seconds_per_fold_of_rays_own_way(folds: int) -> float:
    """Seconds per fold of a Tune trial that starts one TorchTrainer for each fold."""
    import ray
    from ray import train, tune
    from ray.train.torch import TorchTrainer

    with tempfile.TemporaryDirectory() as folder:

        def trial(config: dict[str, object]) -> None:
            for fold in range(folds):
                began = time.perf_counter()
                TorchTrainer(
                    lambda: None,
                    scaling_config=train.ScalingConfig(
                        num_workers=1, resources_per_worker={"CPU": 1}
                    ),
                    run_config=train.RunConfig(name=f"fold-{fold}", storage_path=folder),
                ).fit()
                tune.report({"seconds": time.perf_counter() - began})

        seconds: list[float] = []

        class Seconds(tune.Callback):  # type: ignore[misc]
            def on_trial_result(self, result: dict[str, float], **info: object) -> None:
                seconds.append(result["seconds"])

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            tune.Tuner(
                tune.with_resources(trial, {"CPU": 1}),
                run_config=tune.RunConfig(
                    name="trial", storage_path=folder, verbose=0, callbacks=[Seconds()]
                ),
            ).fit()
        finally:
            ray.shutdown()
    return statistics.median(seconds)


def start_process() -> None:
    import torch

    torch.set_num_threads(1)


def train_barely(job: FoldJob, folder: str) -> float:
    """Trains a job in this process and returns when it was done."""
    run = RunFolder(Path(folder) / f"{job.digest()}")
    with run.claimed(job):
        train_fold(job, Report(), run)
    return time.time()


def bare_seconds(jobs: list[FoldJob]) -> float:
    """Seconds that two plain processes need for the jobs after the warm-up folds."""
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(2, mp_context=context, initializer=start_process) as pool,
    ):
        ends = sorted(pool.map(train_barely, jobs, [folder] * len(jobs)))
    return ends[-1] - ends[WARM_UP_FOLDS - 1]


def real_searches(quick: bool) -> list[tuple[float, float, Times]]:
    """Seconds of our search and of the bare pool after the warm-up folds, by turns, and the times.

    The turns take the drift of a shared machine out of the ratio.
    """
    trials = 3 if quick else 7
    settings = {
        "schedule.epochs": 1 if quick else 2,
        "schedule.iterations_per_epoch": 10 if quick else 25,
    }
    plan = plan_study(
        method="proxy_nca",
        data="glyphs",
        recipe="small",
        settings=settings,
        race=False,
    )
    turns = []
    for _ in range(1 if quick else TURNS):
        with tempfile.TemporaryDirectory() as folder:
            times = search(plan, trials, 2, Path(folder))
        ours = times.folds[-1] - times.folds[WARM_UP_FOLDS - 1]
        turns.append((ours, bare_seconds(times.jobs), times))
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter trainings")
    options = parser.parse_args()
    turns = real_searches(options.quick)
    ratio = sum(ours for ours, _, _ in turns) / sum(bare for _, bare, _ in turns)
    times = turns[0][2]
    print("(c) from the start of the process, seconds")
    before = 0.0
    for part, moment in times.parts.items():
        print(f"    {moment - before:6.1f}  {part}")
        before = moment
    folds = len(times.folds) - WARM_UP_FOLDS
    for ours, bare, _ in turns:
        print(f"(b) {folds} real folds on two groups: {ours:.1f} s; bare pool {bare:.1f} s")
    job = seconds_per_job(options.quick)
    peer = seconds_per_fold_of_rays_own_way(2 if options.quick else 3)
    print(f"(a) no-op job: {job:.3f} s; Ray's own way {peer:.1f} s per fold")
    print(
        f"search_overhead: {job:.3f} s per job (target {MOST_SECONDS_PER_JOB}), "
        f"{peer / job:.0f} x less than Ray's own way (target {LEAST_TIMES_FASTER}), "
        f"{ratio:.3f} of the bare pool (target {MOST_RATIO}), "
        f"start {before:.0f} s (target {MOST_START_SECONDS})"
    )
    good = (
        job <= MOST_SECONDS_PER_JOB
        and peer / job >= LEAST_TIMES_FASTER
        and ratio <= MOST_RATIO
        and before <= MOST_START_SECONDS
    )
    if options.check and not good:
        sys.exit(1)


if __name__ == "__main__":
    main()
