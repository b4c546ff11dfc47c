"""What a job needs to run: its data, split into classes, and its network."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.data.batches import TrainingBatches
from hsearch.data.library import data_folder, open_data
from hsearch.data.pixels import Pixels, open_pixels
from hsearch.data.splits import Labels, StoreSplits, labels_of, split_store
from hsearch.data.store import Store
from hsearch.errors import ConfigError, DatasetError
from hsearch.folds import Splits
from hsearch.hierarchy import Hierarchy
from hsearch.methods import Method, Setting, check_knobs, load_method
from hsearch.models.embedder import Embedder
from hsearch.seeds import seed_for
from hsearch.spec import FoldJob
from hsearch.training.pretrained import local_weights
from hsearch.training.step import TrainingStep

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FoldData:
    """The images of one fold.

    Attributes:
        pixels: Of all trainval images, shared by the folds; test images are never opened.
        hierarchy: Of the fold's training classes, numbered 0..C-1, or of all labels.
        train_rows: (N,) rows of the training images.
        train_paths: (N, L) their label paths, by which batches are drawn.
        train_labels: (N, L) their label paths in `hierarchy`, or (N, T) which labels they have.
        validation_rows: (M,) rows of the validation images.
        validation_labels: (M, L) their label paths in the whole data set's numbering, or (M, T).
    """

    pixels: Pixels
    hierarchy: Hierarchy
    train_rows: IntArray
    train_paths: IntArray
    train_labels: Labels
    validation_rows: IntArray
    validation_labels: Labels


def open_job_store(job: FoldJob) -> Store:
    """Returns the job's store, which must still be the one that the job was made for."""
    return _open_checked(job.data, job.data_digest)


def _open_checked(data: str, digest: str) -> Store:
    store = open_data(data)
    if store.digest != digest:
        raise DatasetError(
            f"The data set '{data}' has changed since this run began (digest "
            f"{store.digest[:12]} instead of {digest[:12]}); start a new run."
        )
    return store


def load_fold(job: FoldJob) -> FoldData:
    """Opens the training and validation images of a job."""
    store, splits, pixels = _open_shared(
        job.data, job.data_digest, job.splits, job.training.image.resize, data_folder()
    )
    fold = splits.fold(job.fold)
    return FoldData(
        pixels=pixels,
        hierarchy=fold.hierarchy,
        train_rows=fold.train,
        train_paths=fold.train_paths,
        train_labels=fold.train_labels,
        validation_rows=fold.validation,
        validation_labels=labels_of(store, fold.validation),
    )


@lru_cache(maxsize=4)
def _open_shared(
    data: str, digest: str, splits: Splits, resize: int, _folder: Path
) -> tuple[Store, StoreSplits, Pixels]:
    """What all folds and trials of a study share, opened once per process and data folder."""
    store = _open_checked(data, digest)
    images = split_store(store, splits)
    return store, images, open_pixels(store, images.trainval, resize)


def build_batches(job: FoldJob, data: FoldData, views: int) -> TrainingBatches:
    """Returns the job's training batches, with `views` augmented copies of each image."""
    return TrainingBatches(
        data.pixels,
        data.train_rows,
        data.train_paths,
        torch.from_numpy(data.train_labels),
        job.training.image,
        job.training.batch,
        seed=seed_for(job.seed, "batches", job.fold),
        views=views,
    )


def check_stages(job: FoldJob, data: FoldData) -> None:
    """Raises a ConfigError now if batches of a later stage cannot be drawn."""
    names = [f"In the stage `{name}`: " for name in job.training.stages]
    for name, stage in zip([*names, ""], job.stages(), strict=True):
        try:
            build_batches(stage.job, data, views=1)
        except ConfigError as error:
            raise ConfigError(f"{name}{error}") from None


def build_step(
    job: FoldJob, hierarchy: Hierarchy, device: torch.device, *, restored: bool = False
) -> TrainingStep:
    """Returns the job's network with its method; initial weights follow from seed and fold.

    Args:
        job: What is trained.
        hierarchy: Of the fold's training classes.
        device: Where the network goes.
        restored: Whether a checkpoint will replace all weights, so that none need be found.
    """
    model = job.training.model
    model = model.model_copy(update={"weights": "random"}) if restored else local_weights(model)
    features = load_method(job.method.name).features
    embedder = Embedder(model, seed=seed_for(job.seed, "model", job.fold), features=features)
    return TrainingStep(embedder, build_method(job, hierarchy, embedder)).to(device)


def build_method(job: FoldJob, hierarchy: Hierarchy, embedder: Embedder) -> Method:
    """Returns the job's method for an embedder; its initial weights follow from seed and fold."""
    setting = Setting(
        hierarchy=hierarchy,
        feature_shape=embedder.feature_shape(job.training.image.crop),
        embedding_dim=job.training.model.embedding_dim,
        generator=torch.Generator().manual_seed(seed_for(job.seed, "method", job.fold)),
        views=job.training.batch.views,
    )
    knobs = check_knobs(job.method.name, job.method.knobs)
    return load_method(job.method.name)(setting, **knobs)


def pick_device() -> torch.device:
    """Returns this rank's GPU where there is one, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
