"""What networks of a job see: images, or the cached output of their backbone."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import hsearch.distributed as distributed
from hsearch.data.batches import Inputs, prepared_images
from hsearch.data.decoding import decoder_name
from hsearch.data.features import FeatureCache, Features
from hsearch.data.library import features_folder, shared_features
from hsearch.data.pixels import Pixels, open_pixels
from hsearch.data.store import Store
from hsearch.data.transforms import normalise
from hsearch.data.views import EVALUATED, FixedViews
from hsearch.methods import load_method
from hsearch.models.embedder import Embedder
from hsearch.seeds import seed_for
from hsearch.spec import FoldJob, ImageSpec
from hsearch.training.pretrained import local_weights

Output = Literal["pooled", "map"]
Progress = Callable[[int, int], None]
IntArray = NDArray[np.int64]

_BATCH = 64
_KEPT_NETWORKS = 2
_AUGMENTATION = {
    *("scale", "ratio", "flip", "cropping", "color_jitter", "color_jitter_chance"),
    *("grayscale", "cutout", "randaugment"),
}


def training_inputs(
    job: FoldJob, store: Store, rows: IntArray, progress: Progress | None = None
) -> Inputs:
    """Returns what a job learns from, and is validated on.

    In the frozen regime that is the cached output of the backbone for a few fixed views of every
    image, or these views themselves where there is no room for a cache. In other regimes it is the
    images. Ranks do not wait for each other here.

    Args:
        job: What is trained.
        store: The job's data.
        rows: All images that the folds of the job train and validate on.
        progress: Told how many views, of how many, all processes have computed together.
    """
    image = job.training.image
    if job.training.model.regime != "frozen":
        return open_job_pixels(store, rows, image)
    views = (EVALUATED, *range(1, image.cached_views + 1))
    output: Output = "map" if load_method(job.method.name).features == "map" else "pooled"
    features = _open(job, store, rows, output, views, progress)
    return fixed_views(store, rows, image) if features is None else features


def fixed_views(store: Store, rows: IntArray, image: ImageSpec) -> FixedViews:
    """Returns the views of images that a frozen backbone sees, where they are not cached."""
    return FixedViews(open_job_pixels(store, rows, image), image)


def evaluation_features(
    job: FoldJob,
    store: Store,
    rows: IntArray,
    output: Output | None = None,
    progress: Progress | None = None,
) -> Features | None:
    """Returns the output of the job's backbone before any training, for images as evaluated.

    Args:
        job: Whose backbone it is.
        store: The job's data.
        rows: Of the images.
        output: By default what the method takes.
        progress: Told how many images, of how many, all processes have computed together.

    Returns:
        None, on every rank, where there is no room for it.
    """
    if output is None:
        output = "map" if load_method(job.method.name).features == "map" else "pooled"
    features = _open(job, store, rows, output, (EVALUATED,), progress)
    return features if all(distributed.gather_objects(features is not None)) else None


def backbone_shape(job: FoldJob, output: Output) -> tuple[int, ...]:
    """Returns the shape of what the job's backbone makes of one image."""
    return _network(job, output).shape


def open_job_pixels(
    store: Store, rows: IntArray, image: ImageSpec, within: IntArray | None = None
) -> Pixels:
    """Opens images at the size that a job takes them; `within` as in `open_pixels`."""
    return open_pixels(store, rows, image.resize, image.interpolation, within=within)


def _open(
    job: FoldJob,
    store: Store,
    rows: IntArray,
    output: Output,
    views: Sequence[int],
    progress: Progress | None,
) -> Features | None:
    """Opens cached features; in the frozen regime they take the place of the decoded images."""
    model, image = job.training.model, job.training.image
    rows = np.unique(rows)
    compute = _Compute(_network(job, output), store, rows, image)
    features = _cache(job, store, output, compute).open(views, len(views) - 1, progress)
    if features is not None and model.regime == "frozen":
        compute.remove_pixels()
    return features


def _cache(job: FoldJob, store: Store, output: Output, compute: "_Compute") -> FeatureCache:
    network = compute.network
    model, image = job.training.model, job.training.image
    changed = image.model_dump(mode="json", include=_AUGMENTATION)
    seen = image.model_dump(mode="json", exclude={*_AUGMENTATION, "cached_views"})
    return FeatureCache(
        folder=features_folder(),
        name=store.name,
        made_from={
            "store": store.digest,
            "decoder": decoder_name(),
            "backbone": f"{model.backbone} {model.backbone_args}",
            "weights": network.digest,
            "output": "map" if output == "map" else model.pooling,
            "image": str(seen),
        },
        augmented_by=str(changed),
        rows=compute.rows,
        shape=network.shape,
        compute=compute,
        shared=shared_features(),
    )


class _Network:
    """A backbone before any training, which gives features.

    Attributes:
        digest: Of its weights.
        shape: Of the features of one image.
    """

    def __init__(self, job: FoldJob, output: Output) -> None:
        spec = local_weights(job.training.model)
        if spec.regime == "lora":  # adapters give nothing before they are trained
            spec = spec.model_copy(update={"regime": "full"})
        self.embedder = Embedder(spec, seed=seed_for(job.seed, "model", 0), features=output).eval()
        self.digest = _digest(self.embedder)
        self.shape = self.embedder.feature_shape(job.training.image.crop)

    def features(self, images: Tensor, image: ImageSpec) -> Tensor:
        """Maps (B, 3, S, S) uint8 images to features on the CPU."""
        device = distributed.pick_device()
        inputs = normalise(images.to(device), image)
        return self.embedder.to(device).features(inputs).float().cpu()


_networks: OrderedDict[tuple[str, int, int, str], _Network] = OrderedDict()


def _network(job: FoldJob, output: Output) -> _Network:
    """The backbone of a job; a process keeps the last ones, as a search asks for every fold."""
    spec = local_weights(job.training.model)
    fields = {"backbone", "backbone_args", "weights", "pooling", "regime"}
    seed = seed_for(job.seed, "model", 0) if spec.weights == "random" else 0
    key = spec.model_dump_json(include=fields), seed, job.training.image.crop, output
    if key not in _networks:
        _networks[key] = _Network(job, output)
    _networks.move_to_end(key)
    while len(_networks) > _KEPT_NETWORKS:
        _networks.popitem(last=False)
    return _networks[key]


def _digest(embedder: Embedder) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(embedder.state_dict().items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


class _Compute:
    """Computes features of some images; they are opened when the first ones are wanted."""

    def __init__(self, network: _Network, store: Store, rows: IntArray, image: ImageSpec) -> None:
        self.network, self.store, self.rows, self.image = network, store, rows, image
        self._views: FixedViews | None = None

    def __call__(self, view: int, positions: IntArray) -> Tensor:
        if self._views is None:
            pixels = open_job_pixels(self.store, self.rows, self.image)
            self._views = FixedViews(pixels, self.image)
        one = self._views.image
        parts = [positions[start : start + _BATCH] for start in range(0, len(positions), _BATCH)]
        tasks: list[list[Callable[[], Tensor]]] = [
            [partial(one, int(self.rows[p]), view) for p in part] for part in parts
        ]
        with torch.inference_mode():
            found = [self.network.features(i, self.image) for i in prepared_images(tasks)]
        return torch.cat(found)

    def remove_pixels(self) -> None:
        """Removes the decoded images from the cache, where features were computed from them."""
        if self._views is not None:
            self._views.pixels.remove_cache()
            self._views = None
