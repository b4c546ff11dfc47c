"""What a job needs to run: its data, split into classes, and its network."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

import hsearch.distributed as distributed
from hsearch.data.batches import Inputs, TrainingBatches
from hsearch.data.features import Features, features_limit
from hsearch.data.library import data_folder, open_data
from hsearch.data.pixels import Pixels
from hsearch.data.splits import Labels, StoreSplits, labels_of, split_store
from hsearch.data.store import Store
from hsearch.errors import ConfigError, DatasetError
from hsearch.hierarchy import Hierarchy
from hsearch.methods import Method, Setting, check_knobs, load_method
from hsearch.models.embedder import Embedder
from hsearch.seeds import seed_for
from hsearch.spec import FoldJob, ImageSpec
from hsearch.training.features import fixed_views, training_inputs
from hsearch.training.pretrained import local_weights
from hsearch.training.step import TrainingStep

IntArray = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class FoldData:
    """The images of one fold.

    Attributes:
        inputs: Of all trainval images, shared by the folds; test images are never opened.
        image: How these were made.
        hierarchy: Of the fold's training classes, numbered 0..C-1, or of all labels.
        train_rows: (N,) rows of the training images.
        train_paths: (N, L) their label paths, by which batches are drawn.
        train_labels: (N, L) their label paths in `hierarchy`, or (N, T) which labels they have.
        validation_rows: (M,) rows of the validation images.
        validation_labels: (M, L) their label paths in the whole data set's numbering, or (M, T).
    """

    inputs: Inputs
    image: ImageSpec
    hierarchy: Hierarchy
    train_rows: IntArray
    train_paths: IntArray
    train_labels: Labels
    validation_rows: IntArray
    validation_labels: Labels

    @property
    def feature_shape(self) -> tuple[int, ...] | None:
        """The shape of one item of cached features; None where inputs are images."""
        return self.inputs.shape if isinstance(self.inputs, Features) else None


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


def load_fold(job: FoldJob, progress: Progress | None = None) -> FoldData:
    """Opens the training and validation images of a job, or their cached features.

    `progress` is told how many views, of how many, are computed where features are to be cached.
    """
    store, splits, inputs = _open_shared(job, progress)
    if job.training.model.regime == "frozen":
        cached = distributed.gather_objects(isinstance(inputs, Features))
        if any(cached) and not all(cached):  # another rank had no room for them
            inputs = fixed_views(store, splits.trainval, job.training.image)
    fold = splits.fold(job.fold)
    return FoldData(
        inputs=inputs,
        image=job.training.image,
        hierarchy=fold.hierarchy,
        train_rows=fold.train,
        train_paths=fold.train_paths,
        train_labels=fold.train_labels,
        validation_rows=fold.validation,
        validation_labels=labels_of(store, fold.validation),
    )


_Shared = tuple[Store, StoreSplits, Inputs]
_opened: OrderedDict[str, _Shared] = OrderedDict()
_KEPT_OPEN = 4


def _open_shared(job: FoldJob, progress: Progress | None = None) -> _Shared:
    """What all folds and trials of a study share, opened once per process and data folder."""
    model, image = job.training.model, job.training.image
    place: tuple[object, ...] = (job.data, job.data_digest, job.splits, data_folder())
    if model.regime == "frozen":
        kind = load_method(job.method.name).features
        place += (model.model_dump_json(), image.model_dump_json(), kind, features_limit())
    key = repr((*place, image.resize, image.interpolation))
    if key not in _opened:
        store = _open_checked(job.data, job.data_digest)
        splits = split_store(store, job.splits)
        _opened[key] = store, splits, training_inputs(job, store, splits.trainval, progress)
    _opened.move_to_end(key)
    while len(_opened) > _KEPT_OPEN:
        _opened.popitem(last=False)
    return _opened[key]


def build_batches(job: FoldJob, data: FoldData, views: int) -> TrainingBatches:
    """Returns the job's training batches, with `views` augmented copies of each image."""
    same = job.training.image == data.image or isinstance(data.inputs, Pixels)
    return TrainingBatches(
        data.inputs if same else _open_shared(job)[2],  # a stage may have views of its own
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
    job: FoldJob,
    hierarchy: Hierarchy,
    device: torch.device,
    *,
    restored: bool = False,
    cached: tuple[int, ...] | None = None,
) -> TrainingStep:
    """Returns the job's network with its method; initial weights follow from seed and fold.

    Args:
        job: What is trained.
        hierarchy: Of the fold's training classes.
        device: Where the network goes.
        restored: Whether a checkpoint will replace all weights that train.
        cached: Shape of one item of cached features, if the network is to take these.
    """
    model = job.training.model
    if restored and model.regime == "full":  # then the checkpoint has them all
        model = model.model_copy(update={"weights": "random"})
    elif cached is None:
        model = local_weights(model)
    features = load_method(job.method.name).features
    seed = seed_for(job.seed, "model", job.fold)
    embedder = Embedder(model, seed=seed, features=features, cached=cached)
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
