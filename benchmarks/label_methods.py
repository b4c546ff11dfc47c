"""The rows of MulCon's ablation study on the embedded `scenes`, over several seeds.

    python benchmarks/label_methods.py [--quick] [--check]

As in the paper, a backbone that has learned on other images (classes of `glyphs`) is fine-tuned,
more slowly than the heads learn. All rows have the same recipe, images, folds and
epochs; nothing is searched. `scratch` repeats the two ends of the list with a backbone from random
weights that learns at the recipe's own rate. Scores are on the validation images of fold 0.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from hsearch.results import FoldResult
from hsearch.training.folder import RunFolder
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import resolve_job
from hsearch.yaml_file import Value

ROWS: dict[str, tuple[str, dict[str, Value]]] = {
    "BCE": ("bce", {}),
    "BCE + SupCon of images": ("bce", {"method.gamma": 0.1, "batch.views": 2}),
    "LLEN + BCE": ("mulcon", {"stages": None, "method.gamma": 0.0, "batch.views": 1}),
    "LLEN + BCE + LLCL": ("mulcon", {"stages": None}),
    "MulCon, two stages": ("mulcon", {}),
}
FINE_TUNED: dict[str, Value] = {"optimizer.lr.backbone": 0.0005}
ATTENTION: dict[str, Value] = {"optimizer.lr.attention": 0.003}  # of the rows that have it
SCRATCH = ("BCE", "MulCon, two stages")
BACKBONE = "model.embedder.backbone.network."
TARGET = 0.01


def pretrain(folder: Path, epochs: int) -> str:
    """Trains a classifier of glyphs and returns the file of its backbone."""
    settings: dict[str, Value] = {"schedule.epochs": epochs, "schedule.eval_every": epochs}
    job = resolve_job(method="cross_entropy", data="glyphs", settings=settings)
    train_locally(job, Report(), folder / "glyphs")
    tensors = load_file(RunFolder(folder / "glyphs").best)
    own = {n.removeprefix(BACKBONE): t for n, t in tensors.items() if n.startswith(BACKBONE)}
    save_file(own, folder / "backbone.safetensors")
    return str(folder / "backbone.safetensors")


def train(
    folder: Path, row: str, settings: dict[str, Value], seed: int
) -> tuple[FoldResult, float]:
    """Trains one row with one seed; returns the result and how long it took."""
    torch.set_num_threads(1)
    method, own = ROWS[row]
    if method == "mulcon":
        own = ATTENTION | own
    job = resolve_job(method=method, data="scenes", settings={**settings, **own}, seed=seed)
    began = time.perf_counter()
    result = train_locally(job, Report(), folder)
    return result, time.perf_counter() - began


def report(name: str, runs: list[tuple[FoldResult, float]], unit: float) -> float:
    """Prints a line of the table and returns the mean mAP."""
    scores = [result.validation["map"] for result, _ in runs]
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    found = [result.validation.get("label_precision_at_3") for result, _ in runs]
    retrieval = statistics.fmean(f for f in found if f is not None) if None not in found else None
    shown = "     -" if retrieval is None else f"{retrieval:6.3f}"
    ratio = statistics.fmean(seconds for _, seconds in runs) / unit
    print(
        f"{name:28} {statistics.fmean(scores):.4f} +- {spread:.4f}  {shown}  {ratio:5.2f}"
        f"   {' '.join(f'{score:.4f}' for score in scores)}",
        flush=True,
    )
    return statistics.fmean(scores)


def main() -> int:
    """Runs all rows and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, one row, few steps")
    parser.add_argument("--check", action="store_true", help="exit 1 if the target is missed")
    options = parser.parse_args()
    seeds = range(1 if options.quick else 3)
    length: dict[str, Value] = {"schedule.epochs": 2 if options.quick else 8}
    if options.quick:
        length["schedule.iterations_per_epoch"] = 2
    rows = SCRATCH if options.quick else tuple(ROWS)
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(multiprocessing.cpu_count(), mp_context=spawn) as pool,
    ):
        folder = Path(scratch)
        weights = pretrain(folder, 1 if options.quick else 4)
        tuned = {**length, **FINE_TUNED, "model.weights": weights}
        plans = [(row, row, tuned) for row in rows]
        plans += [(f"{row}, scratch", row, length) for row in SCRATCH]
        futures = {
            name: [
                pool.submit(train, folder / f"{name}-{seed}".replace(" ", "-"), row, given, seed)
                for seed in seeds
            ]
            for name, row, given in plans
        }
        print(f"{'row':28} {'mAP':16}  {'P@3':6}  {'time':5}   of every seed")
        means, unit = {}, 0.0
        for name, waiting in futures.items():
            runs = [future.result() for future in waiting]
            unit = unit or statistics.fmean(seconds for _, seconds in runs)
            means[name] = report(name, runs, unit)
    gain = means["MulCon, two stages"] - means["BCE"]
    print("P@3: retrieval by label embeddings. time: relative to BCE, two trainings side by side.")
    print(f"mAP of MulCon above BCE, fine-tuned: {gain:.4f} (target {TARGET})")
    return int(options.check and gain < TARGET)


if __name__ == "__main__":
    sys.exit(main())
