"""Best validation score against fold trainings spent: hsearch's default beside plainer searches.

    python benchmarks/search_quality.py [--quick] [--check] [--runs FOLDER] [--out PICTURE]

Real trainings of seconds on glyphs (see `short_trainings.py`), proposed and judged by the record of
a study as `hsearch tune` does it, one trial after the other, without Ray. All searches of a seed
begin with the published values and the start points; a training that two of them want is done once
and counted for both. Only trials with all folds count. The figure: how many times fewer fold
trainings the default needs to reach 99 % of what TPE without a race reaches with all of them.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import short_trainings
import torch
from optuna.exceptions import ExperimentalWarning
from short_trainings import Outcome, Trainers, pretrained_backbone, short_study

from hsearch.folds import NUM_FOLDS
from hsearch.search.record import Sampler
from hsearch.search.study import Study
from hsearch.spec import FoldJob

DATA = "glyphs"
SEEDS, BUDGET = 5, 48
SHARE, TARGET = 0.99, 2.0
OURS, TPE = "TPE with the fold race (default)", "TPE without race"
STRATEGIES: dict[str, tuple[Sampler, bool]] = {
    OURS: ("tpe", True),
    TPE: ("tpe", False),
    "random search without race": ("random", False),
}
Curve = list[float]  # best complete score after 1, 2, ... fold trainings; NaN before the first


class Once:
    """Every training is done once, whoever asks for it."""

    def __init__(self, trainers: Trainers) -> None:
        self._trainers = trainers
        self._known: dict[str, Future[Outcome]] = {}
        self._lock = threading.Lock()

    def __call__(self, job: FoldJob) -> Outcome:
        with self._lock:
            if job.digest() not in self._known:
                self._known[job.digest()] = self._trainers.submit(job)
                if len(self._known) % 20 == 0:
                    print(f"{len(self._known)} trainings begun", file=sys.stderr, flush=True)
        return self._known[job.digest()].result()


def search(study: Study, train: Callable[[FoldJob], Outcome], budget: int) -> Curve:
    """Runs a study until so many fold trainings are spent."""
    curve: Curve = []
    best = math.nan
    while len(curve) < budget:
        trial = study.propose()
        for fold in range(NUM_FOLDS):
            outcome = train(trial.job.model_copy(update={"fold": fold}))
            if outcome.result is None:
                trial = study.fail(trial.number, outcome.reason or "")
            else:
                trial = study.record_fold(trial.number, outcome.result)
            if trial.score is not None:
                best = trial.score if math.isnan(best) else max(best, trial.score)
            curve.append(best)
            if trial.state != "running":
                break
    return curve[:budget]


def run_all(folder: Path, seeds: int, budget: int, weights: str) -> dict[str, list[Curve]]:
    """All strategies with all seeds side by side, on two processes."""

    def one(name: str, seed: int) -> Curve:
        sampler, race = STRATEGIES[name]
        plan = short_study(DATA, weights, seed=seed, sampler=sampler, race=race)
        with tempfile.TemporaryDirectory() as records:
            study = Study.open("search", str(Path(records) / "s.db"), plan.spec, plan.space)
            try:
                return search(study, once, budget)
            finally:
                study.close()

    with ThreadPoolExecutor(64) as threads, Trainers(2, folder / "runs") as trainers:
        once = Once(trainers)
        curves = {n: [threads.submit(one, n, seed) for seed in range(seeds)] for n in STRATEGIES}
        return {name: [run.result() for run in runs] for name, runs in curves.items()}


def needed(curve: Curve, goal: float) -> float:
    """Fold trainings until the goal; infinite if it is never reached."""
    return next((n for n, best in enumerate(curve, start=1) if best >= goal), math.inf)


def report(curves: dict[str, list[Curve]], budget: int) -> dict[str, float]:
    """Prints the table; returns how many times fewer trainings than all each search needs."""
    goals = [SHARE * curve[-1] for curve in curves[TPE]]
    head = f"{'search':<34}{'median best':>12}{'lowest':>9}{'highest':>9}"
    print(f"{head}{'folds to the goal':>19}   (of {budget}; by seed)")
    fewer = {}
    for name, runs in curves.items():
        last = [curve[-1] for curve in runs]
        counts = [needed(curve, goal) for curve, goal in zip(runs, goals, strict=True)]
        by_seed = ", ".join("never" if math.isinf(count) else f"{count}" for count in counts)
        print(
            f"{name:<34}{statistics.median(last):>12.4f}{min(last):>9.4f}{max(last):>9.4f}"
            f"{statistics.median(counts):>19}   ({by_seed})"
        )
        fewer[name] = statistics.median(budget / count for count in counts)
    return fewer


def draw(curves: dict[str, list[Curve]], path: Path) -> None:
    """Median over the seeds as a line, their range as a band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), dpi=100)
    for name, runs in curves.items():
        points = [column for column in zip(*runs, strict=True) if not any(map(math.isnan, column))]
        spent = range(len(runs[0]) - len(points) + 1, len(runs[0]) + 1)
        median = [statistics.median(column) for column in points]
        (line,) = axes.plot(spent, median, drawstyle="steps-post", label=name)
        low, high = [min(c) for c in points], [max(c) for c in points]
        axes.fill_between(spent, low, high, step="post", alpha=0.15, color=line.get_color())
    axes.set_xlabel("fold trainings spent")
    axes.set_ylabel("best mean validation MAP@R of a complete trial")
    axes.set_title(f"hpl on {DATA}: median and range over {len(runs)} seeds")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="under a minute: shows that it runs")
    parser.add_argument("--check", action="store_true", help="exit 1 if the target is missed")
    parser.add_argument("--runs", type=Path, help="keeps all results, so that a run can go on")
    parser.add_argument("--out", type=Path, help="by default search_quality.png beside this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ExperimentalWarning)
    seeds, budget = (1, 9) if options.quick else (SEEDS, BUDGET)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["HSEARCH_DATA"] = str(folder)
        weights = "random" if options.quick else pretrained_backbone(folder)
        if options.quick:
            short_trainings.SETTINGS["schedule.iterations_per_epoch"] = 1
        curves = run_all(folder, seeds, budget, weights)
    fewer = report(curves, budget)
    if options.out or not options.quick:
        draw(curves, options.out or Path(__file__).with_suffix(".png"))
    note = "; a quick run only shows that it runs" if options.quick else ""
    print(
        f"\nsearch_quality: {fewer[OURS]:.1f}x fewer fold trainings than {budget} reach the goal, "
        f"TPE without race itself {fewer[TPE]:.1f}x (target {TARGET}x{note})"
    )
    return int(options.check and not options.quick and fewer[OURS] < TARGET)


if __name__ == "__main__":
    sys.exit(main())
