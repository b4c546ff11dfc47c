"""Images per second of `train_fold` against a bare PyTorch loop.

Both train the same network on the same batches with the same augmentation and optimiser; the bare
loop has no schedule, clipping, method state, progress or divergence check. The two take turns; the
best epoch of each turn counts, since others measure what else the machine was doing; the figure is
the median ratio over the turns.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from hsearch.data.transforms import normalise
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report, train_fold
from hsearch.training.optimizer import build_optimizer
from hsearch.training.resolve import resolve_job
from hsearch.training.setup import build_batches, build_step, load_fold

TARGET = 0.95


def bare_loop(job: FoldJob, epochs: int) -> float:
    """Returns images per second of the plainest loop that trains the same network."""
    data = load_fold(job)
    step = build_step(job, data.hierarchy, torch.device("cpu"))
    optimizer = build_optimizer(job.training.optimizer, step.embedder, step.method)
    batches = build_batches(job, data, step.method.views)
    step.train()
    seconds = []
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        order = batches.epoch(epoch, job.training.schedule.iterations_per_epoch)
        for batch in order:
            loss = step(normalise(batch.images, job.training.image), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds.append(time.perf_counter() - began)
    return len(order) * job.training.batch.size / min(seconds)


def our_loop(job: FoldJob, folder: Path) -> float:
    """Returns the most images per second of an epoch, as `train_fold` itself reports."""
    run = RunFolder(folder)
    with run.claimed(job):
        result = train_fold(job, Report(), run)
    return max(record.images_per_second or 0.0 for record in result.history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 below the target")
    parser.add_argument("--quick", action="store_true", help="under a minute")
    options = parser.parse_args()
    rounds, epochs, iterations = (3, 3, 15) if options.quick else (7, 4, 40)
    settings = {"schedule.epochs": epochs, "schedule.iterations_per_epoch": iterations}
    print(f"hpl on glyphs, recipe small, {epochs} epochs of {iterations} iterations per turn")
    print(f"{'turn':>4}  {'bare images/s':>13}  {'train_fold images/s':>19}  {'ratio':>5}")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            job = resolve_job(
                method="hpl", data="glyphs", recipe="small", settings=settings, seed=turn
            )
            bare = bare_loop(job, epochs)
            ours = our_loop(job, Path(folder) / str(turn))
            ratios.append(ours / bare)
            print(f"{turn:>4}  {bare:>13.0f}  {ours:>19.0f}  {ours / bare:>5.2f}")
    figure = statistics.median(ratios)
    print(f"train_loop: {figure:.3f} of the bare loop (target {TARGET})")
    if options.check and figure < TARGET:
        sys.exit(1)


if __name__ == "__main__":
    main()
