"""A trained run on multi-label data as pictures need it."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.data.batches import evaluation_batches
from hsearch.data.pixels import open_pixels
from hsearch.data.progress import Progress, silent
from hsearch.data.store import Store
from hsearch.data.transforms import normalise
from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.report.looking import LookPart, shown_rows
from hsearch.seeds import rng_for
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.score import job_network, see_labels
from hsearch.training.step import TrainingStep

SHOWN_LABELS = 5
"""How many labels of an image have their attention drawn."""

MOST_LOOKED_AT = 5000
"""Among how many images those worth showing are chosen."""

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AttendedImage:
    """Where a network looks in one image.

    Attributes:
        image: Its position in `LabelLook.rows`.
        pixels: (3, S, S) uint8, exactly what the network saw.
        weights: (T, heads, h, w) float32, which sum to 1 over the places of a head.
    """

    image: int
    pixels: NDArray[np.uint8]
    weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LabelLook:
    """A run on multi-label data that is looked at.

    Attributes:
        job: What was trained.
        store: Its data.
        part: Whose images are shown.
        rows: (N,) their rows in the store; all else is in this order.
        before: By the network before training.
        after: By that of the best epoch.
        label_vectors: (T, K) what the trained method has learned about every label, if it has.
        attended: Chosen images, for methods that say where they look.
    """

    job: FoldJob
    store: Store
    part: str
    rows: IntArray
    before: LabelEmbedded
    after: LabelEmbedded
    label_vectors: NDArray[np.float32] | None = None
    attended: tuple[AttendedImage, ...] = ()

    @property
    def title(self) -> str:
        """What was trained and what is shown, in a few words."""
        return f"{self.job.method.name} on {self.job.data_name}, {self.part} images"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all labels."""
        return self.after.label_names

    def short_id(self, image: int) -> str:
        """Returns the last part of an image's id."""
        return self.store.ids[int(self.rows[image])].rpartition("/")[2]


def look_at_labels(run: Path, part: LookPart, progress: Progress = silent) -> LabelLook:
    """Shows the images of a run to its network twice: as before training, and by its best epoch.

    Arguments and errors are those of `look_at`.
    """
    job, store, shown = shown_rows(run, part)
    untrained = job_network(job, store)
    before = see_labels(
        untrained, job, store, shown, partial(progress, "embedding, before training")
    )
    step = job_network(job, store, RunFolder(run).best)
    after = see_labels(step, job, store, shown, partial(progress, "embedding, trained"))
    vectors = step.method.label_vectors()
    chosen = choose_images(after.labels, after.scores, rng_for(job.seed, "attention"))
    return LabelLook(
        job=job,
        store=store,
        part=part,
        rows=shown.rows,
        before=before,
        after=after,
        label_vectors=None if vectors is None else vectors.float().cpu().numpy(),
        attended=_attended(step, job, store, shown.rows, chosen),
    )


@torch.inference_mode()
def _attended(
    step: TrainingStep, job: FoldJob, store: Store, rows: IntArray, chosen: IntArray
) -> tuple[AttendedImage, ...]:
    """Where a network looks in some images; nothing for a method that does not say."""
    if not len(chosen):
        return ()
    image = job.training.image
    few = rows[chosen]
    pixels = open_pixels(store, few, image.resize, image.interpolation, within=few)
    (seen,) = evaluation_batches(pixels, rows[chosen], image, batch_size=len(chosen))
    device = next(step.parameters()).device
    features = step.eval().embedder(normalise(seen.to(device), image))
    weights = step.method.attention(features.float())
    if weights is None:
        return ()
    return tuple(
        AttendedImage(int(position), seen[i].numpy(), weights[i].float().cpu().numpy())
        for i, position in enumerate(chosen)
    )


def shown_labels(has: BoolArray, scores: NDArray[Any]) -> IntArray:
    """Returns the labels of an image that are drawn: most confident first, at most SHOWN_LABELS.

    Args:
        has: (T,) which labels it has.
        scores: (T,) logits.
    """
    labels = np.flatnonzero(has)
    return labels[np.argsort(-scores[labels], kind="stable")][:SHOWN_LABELS]


def choose_images(
    labels: BoolArray, scores: NDArray[Any], rng: np.random.Generator, count: int = 6
) -> IntArray:
    """Returns (count,) positions of images whose drawn labels are many different ones.

    One after the other, the image that adds the most labels to those already drawn is taken; of
    several the one with the most labels, then a random one. Once all labels are drawn, they are
    counted anew. Images without a label are left out, so that there may be fewer than `count`.

    Args:
        labels: (N, T) which labels each image has.
        scores: (N, T) logits, which decide which of an image's labels are drawn.
        rng: Of all draws; of very many images it also draws those that are considered.
        count: At most so many.
    """
    pool = rng.permutation(len(labels))[:MOST_LOOKED_AT]
    pool = pool[labels[pool].any(axis=1)]
    drawn = np.zeros((len(pool), labels.shape[1]), dtype=np.bool_)
    for place, image in enumerate(pool):
        drawn[place, shown_labels(labels[image], scores[image])] = True
    sizes = drawn.sum(axis=1)
    missing, left = drawn.any(axis=0), np.ones(len(pool), dtype=np.bool_)
    chosen: list[int] = []
    while len(chosen) < min(count, len(pool)):
        if not (drawn[left] & missing).any():
            missing = drawn[left].any(axis=0)
        gains = (drawn & missing).sum(axis=1)
        best = int(np.lexsort((sizes, gains, left))[-1])
        chosen.append(int(pool[best]))
        left[best] = False
        missing = missing & ~drawn[best]
    return np.array(chosen, dtype=np.int64)
