"""Scoring a trained run on its validation classes or on the test classes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hsearch.data.pixels import open_pixels
from hsearch.data.splits import store_splits
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.results import Metrics
from hsearch.training.checkpoint import load_checkpoint
from hsearch.training.embedding import embed_rows
from hsearch.training.folder import RunFolder, read_job
from hsearch.training.setup import build_step, open_job_store, pick_device

Part = Literal["validation", "test"]


@dataclass(frozen=True)
class RunScore:
    """Metrics of a run at every level; `level_names` are the data set's, coarsest first."""

    metrics: Metrics
    level_names: tuple[str, ...]


def score_run(path: Path, part: Part) -> RunScore:
    """Returns all metrics of a run's best network, at every level of the labels.

    Args:
        path: A folder that `hsearch train` has written.
        part: The validation classes of the run's fold, or the test classes.
    """
    job = read_job(path)
    store = open_job_store(job)
    splits = store_splits(store, job.splits)
    fold = splits.folds[job.fold]
    step = build_step(job, store.hierarchy.restrict(fold.train), pick_device(), restored=True)
    load_checkpoint(RunFolder(path).best, step)
    rows = store.rows(fold.validation if part == "validation" else splits.test)
    image = job.training.image
    embeddings = embed_rows(step, open_pixels(store, rows, image.resize), rows, image)
    queries, gallery = store.is_query[rows], store.is_gallery[rows]
    masked = part == "test" and not (np.all(queries) and np.all(gallery))
    metrics = retrieval_metrics(
        embeddings.numpy(),
        store.hierarchy.paths[store.classes[rows]],
        geometry=step.method.geometry,
        curvature=step.method.curvature,
        queries=queries if masked else None,
        gallery=gallery if masked else None,
    )
    return RunScore(metrics, store.hierarchy.level_names)
