"""The floor: what a data set scores without any training.

It is the job's backbone as it comes, its pooled features compared by cosine without a head; for
images with several labels it is to know how frequent labels are, and not to look.
"""

from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import hsearch.distributed as distributed
from hsearch.data.features import Features
from hsearch.data.splits import StoreSplits, labels_of, split_store
from hsearch.data.store import Store
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.label_scoring import LabelEmbedded, guess_labels, score_labels
from hsearch.evaluation.scoring import Embedded
from hsearch.folds import NUM_FOLDS
from hsearch.geometry import l2_normalise
from hsearch.models.embedder import Embedder
from hsearch.results import Metrics
from hsearch.seeds import seed_for
from hsearch.spec import FoldJob
from hsearch.training.embedding import embed_rows
from hsearch.training.features import evaluation_features, open_job_pixels
from hsearch.training.pretrained import local_weights
from hsearch.training.score import Part, embed_part, part_rows
from hsearch.training.setup import open_job_store

IntArray = NDArray[np.int64]

_KEPT = 8
_known: OrderedDict[str, tuple[Metrics, ...]] = OrderedDict()


def fold_floors(job: FoldJob) -> tuple[Metrics, ...]:
    """Returns all metrics of the floor on the validation images of every fold.

    Every rank calls this and has the result; a process computes it once for all jobs of a study.
    """
    fields = {"backbone", "backbone_args", "weights", "pooling"}
    model = job.training.model.model_dump_json(include=fields)
    image = job.training.image.model_dump_json()
    seed = job.seed if job.training.model.weights == "random" else 0
    key = repr((job.data_digest, job.splits, model, image, seed))
    # Rank 0 alone decides what is known: ranks that have trained other jobs may know less.
    known = distributed.share_object(_known.get(key))
    _known[key] = _fold_floors(job) if known is None else known
    while len(_known) > _KEPT:
        _known.popitem(last=False)
    return _known[key]


def _fold_floors(job: FoldJob) -> tuple[Metrics, ...]:
    store = open_job_store(job)
    splits = split_store(store, job.splits)
    if store.tag_names:
        return tuple(_guessed(store, splits, fold) for fold in range(NUM_FOLDS))
    embedded = _own_features(job, store, splits)
    found = []
    for fold in range(NUM_FOLDS):
        rows = splits.fold(fold).validation
        metrics = retrieval_metrics(
            embedded[np.searchsorted(splits.trainval, rows)].to(distributed.pick_device()),
            labels_of(store, rows),
            geometry="sphere",
            curvature=1.0,
            whole_list=True,
            sharded=True,
        )
        found.append(metrics)
    return tuple(found)


def _own_features(job: FoldJob, store: Store, splits: StoreSplits) -> Tensor:
    """(N, C) features of norm 1 of all trainval images, in their order."""
    rows = splits.trainval
    features = _cached(job, store, rows)
    if features is not None:
        return l2_normalise(features.evaluated(rows))
    image = job.training.image
    network = _Backbone(job).to(distributed.pick_device())
    return embed_rows(network, open_job_pixels(store, rows, image), rows, image)


def _cached(job: FoldJob, store: Store, rows: IntArray) -> Features | None:
    """The features from the cache; random weights, as of every seed, are not worth one."""
    model = job.training.model
    if model.weights == "random" and model.regime != "frozen":
        return None
    return evaluation_features(job, store, rows, "pooled")


def _guessed(store: Store, splits: StoreSplits, fold: int) -> Metrics:
    rows = splits.fold(fold)
    labels = store.tags[rows.validation]
    guess = guess_labels(len(labels), store.tags[rows.train])
    return score_labels(LabelEmbedded(guess, labels, store.tag_names))


def embed_frozen(job: FoldJob, part: Part) -> Embedded:
    """Returns the images of a part as the job's backbone sees them before any training.

    Random weights are those with which the training of fold 0 begins.
    """
    store = open_job_store(job)
    rows = part_rows(job, store, part)
    features = _cached(job, store, rows.rows)
    if features is None:
        return embed_part(_Backbone(job).to(distributed.pick_device()), job, store, rows)
    return embed_part(_AsTheyCome(), job, store, rows, inputs=features)


class _AsTheyCome(nn.Module):
    """Cached features, normalised."""

    curvature = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("place", nn.Parameter(torch.zeros(())))

    def embed(self, features: Tensor) -> Tensor:
        """Maps (B, C) features to features of norm 1."""
        return l2_normalise(features)


class _Backbone(nn.Module):
    """The backbone of a job as it comes, with its pooling."""

    curvature = 0.0

    def __init__(self, job: FoldJob) -> None:
        super().__init__()
        spec = local_weights(job.training.model).model_copy(update={"regime": "full"})
        seed = seed_for(job.seed, "model", 0)
        self.embedder = Embedder(spec, seed=seed, features="pooled")

    def embed(self, images: Tensor) -> Tensor:
        """Maps (B, 3, S, S) images to (B, C) features of norm 1."""
        return l2_normalise(self.embedder(images))
