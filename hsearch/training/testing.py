"""Testing a run: its networks on the test classes, one by one and joined, and the floor beneath."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import hsearch.distributed as distributed
from hsearch.data.splits import split_store
from hsearch.evaluation.label_scoring import LabelEmbedded, guess_labels, score_labels
from hsearch.evaluation.query_table import (
    FLOOR_NAME,
    QUERIES,
    QueryTable,
    write_query_tables,
)
from hsearch.evaluation.scoring import AnyEmbedded, ScoreOptions, join, score
from hsearch.results import FloorScore, Metrics, Tested
from hsearch.spec import FoldJob
from hsearch.training.floor import embed_frozen
from hsearch.training.score import embed_runs
from hsearch.training.setup import open_job_store


def score_run(folder: Path, folds: Sequence[int]) -> Tested:
    """Scores the networks of a run on the test classes; every rank calls it and has the result.

    What every query scored goes to the file `QUERIES` of the folder, for comparisons query by
    query; DyML, whose sets have queries of their own, has none, nor have images with several
    labels, whose mean average precision is over labels.

    Args:
        folder: Holds the folder `fold-K` of every training of the run.
        folds: The K.
    """
    models = embed_runs([folder / f"fold-{fold}" for fold in folds], "test")
    tables: list[QueryTable] = []
    metrics = tuple(_score(model, tables) for model in models)
    concatenated = _score(join(models), tables) if len(models) > 1 else None
    if tables and distributed.rank() == 0:
        kept: dict[str, QueryTable] = {"separated": _mean(tables[: len(models)])}
        if concatenated:
            kept["concatenated"] = tables[-1]
        write_query_tables(folder / QUERIES, kept)
    distributed.barrier()
    return Tested(models=metrics, concatenated=concatenated, queries=_num_queries(models[0]))


def _num_queries(model: AnyEmbedded) -> int:
    queries = None if isinstance(model, LabelEmbedded) else model.queries
    return len(model.labels) if queries is None else int(np.count_nonzero(queries))


def score_floor(job: FoldJob, folder: Path) -> FloorScore:
    """Scores on the test images what needs no training; every rank calls it and has the result.

    What every query scored goes to the file `QUERIES` of the folder, where `score_run` has one.
    """
    tables: list[QueryTable] = []
    metrics = floor_metrics(job, tables)
    if tables and distributed.rank() == 0:
        write_query_tables(folder / QUERIES, {FLOOR_NAME: tables[0]})
    distributed.barrier()
    return FloorScore(metrics=metrics, queries=len(tables[0].rows) if tables else 0)


def floor_metrics(job: FoldJob, tables: list[QueryTable] | None = None) -> Metrics:
    """Returns how what needs no training scores on the test images.

    That is the job's backbone as it comes, without a head; for images with several labels it is to
    know how frequent labels are among those of the training, and not to look.

    Args:
        job: Whose backbone and data are meant.
        tables: What every query scored is added to it.
    """
    store = open_job_store(job)
    if not store.tag_names:
        return _score(embed_frozen(job, "test"), [] if tables is None else tables)
    splits = split_store(store, job.splits)
    labels = store.tags[splits.test]
    guess = guess_labels(len(labels), store.tags[splits.trainval])
    return score_labels(LabelEmbedded(guess, labels, store.tag_names))


def _score(embedded: AnyEmbedded, tables: list[QueryTable]) -> Metrics:
    """Scores embedded images; what every query scored is added to `tables`."""
    options = ScoreOptions(device=distributed.pick_device(), sharded=distributed.world_size() > 1)
    return score(embedded, options, keep=tables.append)


def _mean(tables: Sequence[QueryTable]) -> QueryTable:
    """The mean over several networks of what every query scored."""
    names = tables[0].values
    return QueryTable(
        tables[0].rows,
        {
            name: np.mean([t.values[name] for t in tables], axis=0, dtype=np.float32)
            for name in names
        },
    )
