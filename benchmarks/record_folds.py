"""Records real fold scores of random configurations, for `fold_race.py` to replay.

    python benchmarks/record_folds.py --data glyphs --reproduce 6
    python benchmarks/record_folds.py --data omniglot --images FOLDER_OF_THE_TWO_SMALL_ZIPS

Every configuration is a random draw from the search space of hpl, trained on all four folds with
the same seed. `--reproduce N` trains the first N again with two other seeds, which shows how much
of a score is chance. The table is written after every training: the same command goes on with it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import optuna
import torch
from short_trainings import (
    METHOD,
    SETTINGS,
    Outcome,
    Trainers,
    all_folds,
    pretrained_backbone,
    short_study,
)

from hsearch.data.library import prepare
from hsearch.files import write_whole
from hsearch.folds import NUM_FOLDS
from hsearch.search.space import SearchSpace
from hsearch.spec import FoldJob, KnobValue
from hsearch.training.resolve import with_knobs

TABLES = Path(__file__).parent / "fold_race"
SEED = 0
OTHER_SEEDS = (1, 2)
Table = dict[str, Any]
Place = tuple[str, int, int]  # list of the table, entry, fold


@contextmanager
def data_at_hand(images: Path | None) -> Iterator[Path]:
    """Prepared data live in a folder that vanishes; zips are unpacked as alphabet/character."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HSEARCH_DATA"] = folder
        if images is not None:
            tree = Path(folder) / "tree"
            for path in sorted(images.glob("*.zip")):
                _unpack(path, tree)
            prepare("omniglot", tree)
        yield Path(folder)


def _unpack(path: Path, tree: Path) -> None:
    """Leaves out the outermost folder, so that the alphabets of all zips stand together."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            _, _, inner = member.filename.partition("/")
            if inner.endswith(".png") and ".." not in inner:
                member.filename = inner
                archive.extract(member, tree)


def draw_configurations(space: SearchSpace, count: int) -> list[dict[str, KnobValue]]:
    """Random knobs; the first ones are the same for every count."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=SEED))
    return [space.suggest(study.ask()) for _ in range(count)]


def new_table(data: str, configurations: list[dict[str, KnobValue]]) -> Table:
    packages = ("hsearch", "torch", "timm", "optuna")
    return {
        "data": data,
        "method": METHOD,
        "settings": {"recipe": "small"} | SETTINGS,
        "versions": {package: version(package) for package in packages},
        "untrained": [None] * NUM_FOLDS,
        "configurations": [_entry(knobs=knobs) for knobs in configurations],
        "reproductions": [],
    }


def _entry(**first: object) -> Table:
    return first | {"scores": [None] * NUM_FOLDS, "seconds": [None] * NUM_FOLDS}


def extend(table: Table, configurations: list[dict[str, KnobValue]], reproduce: int) -> None:
    """Adds the entries that the table lacks."""
    recorded = [entry["knobs"] for entry in table["configurations"]]
    if configurations[: len(recorded)] != recorded[: len(configurations)]:
        sys.exit("The table holds other configurations; give another file with --out.")
    if table["settings"] != {"recipe": "small"} | SETTINGS:
        sys.exit("The table was recorded with other settings; give another file with --out.")
    table["configurations"] += [_entry(knobs=k) for k in configurations[len(recorded) :]]
    done = {(entry["configuration"], entry["seed"]) for entry in table["reproductions"]}
    wanted = [(number, seed) for number in range(reproduce) for seed in OTHER_SEEDS]
    table["reproductions"] += [
        _entry(configuration=number, seed=seed)
        for number, seed in wanted
        if (number, seed) not in done
    ]


def missing_jobs(table: Table, base: FoldJob) -> dict[str, tuple[FoldJob, Place]]:
    """Every training that the table lacks, by digest, in the order to do them."""
    found = {}
    for name in ("configurations", "reproductions"):
        for index, entry in enumerate(table[name]):
            knobs = table["configurations"][entry.get("configuration", index)]["knobs"]
            job = with_knobs(base, knobs).model_copy(update={"seed": entry.get("seed", SEED)})
            for fold_job in all_folds(job):
                if entry["seconds"][fold_job.fold] is None:
                    found[fold_job.digest()] = (fold_job, (name, index, fold_job.fold))
    return found


def keep(table: Table, place: Place, outcome: Outcome) -> None:
    """A diverged training has no score, and the table says why."""
    name, index, fold = place
    entry = table[name][index]
    entry["seconds"][fold] = round(outcome.seconds, 2)
    if outcome.result is None:
        entry["diverged"] = outcome.reason
        return
    entry["scores"][fold] = round(outcome.result.validation["map_at_r"], 6)
    table["untrained"][fold] = round(outcome.result.untrained["map_at_r"], 6)


def write_table(path: Path, table: Table) -> None:
    """JSON with one line per entry, so that a difference is readable."""
    parts = []
    for key, value in table.items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(json.dumps(entry) for entry in value) + "\n]"
        parts.append(f"{json.dumps(key)}: {text}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def record(table: Table, base: FoldJob, path: Path, trainers: Trainers) -> None:
    jobs = missing_jobs(table, base)
    print(f"{path.name}: {len(jobs)} trainings to do", flush=True)
    began = time.perf_counter()
    ended = trainers.in_order_of_end(job for job, _ in jobs.values())
    for count, (job, outcome) in enumerate(ended, start=1):
        place = jobs[job.digest()][1]
        keep(table, place, outcome)
        write_table(path, table)
        left = (time.perf_counter() - began) / count * (len(jobs) - count)
        score = "diverged" if outcome.result is None else f"{outcome.result.score:.4f}"
        print(
            f"{place[0]} {place[1]:>3} fold {job.fold}: {score:>8}  {outcome.seconds:5.1f} s"
            f"  {left / 60:5.1f} min left",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="glyphs", help="glyphs, or omniglot with --images")
    parser.add_argument("--images", type=Path, help="folder of Omniglot's two small zips")
    parser.add_argument("--configurations", type=int, default=64)
    parser.add_argument("--reproduce", type=int, default=0, help="configurations with more seeds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="by default fold_race/DATA.json beside this file")
    options = parser.parse_args()
    path = options.out or TABLES / f"{options.data}.json"
    torch.set_num_threads(1)
    with data_at_hand(options.images) as folder:
        plan = short_study(options.data, pretrained_backbone(folder))
        configurations = draw_configurations(plan.space, options.configurations)
        table = new_table(options.data, configurations)
        if path.exists():
            table = json.loads(path.read_text(encoding="utf-8"))
        extend(table, configurations, options.reproduce)
        with Trainers(options.processes, folder / "runs") as trainers:
            record(table, plan.spec.job, path, trainers)


if __name__ == "__main__":
    main()
