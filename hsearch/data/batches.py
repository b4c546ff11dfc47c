"""Batches of images, or of their cached features, prepared while the network computes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.data.features import Features
from hsearch.data.pixels import Pixels
from hsearch.data.samplers import check_batches, draw_epoch
from hsearch.data.views import Augmentation, FixedViews, draw_views, evaluated_image
from hsearch.distributed import rank, world_size
from hsearch.errors import ConfigError
from hsearch.seeds import rng_for
from hsearch.spec import BatchSpec, ImageSpec

PREFETCH = 3

IntArray = NDArray[np.int64]
Plan = tuple[IntArray, list[Callable[[], Tensor]]]

Inputs = Pixels | FixedViews | Features
"""What a network learns from: images, of which every draw makes a new view; fixed views of them;
or what a frozen backbone makes of these views."""


@dataclass(frozen=True)
class Batch:
    """One training step's input on this rank.

    Attributes:
        images: (V * b, 3, S, S) uint8: this rank's b images, all first views first; or their
            cached features, (V * b, ...) float32.
        labels: (V * B, L): the labels of the whole batch over all ranks, all first views first.
    """

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class TrainingBatches:
    """The batches of every epoch of a job; each draw follows from seed, epoch and iteration.

    Attributes:
        inputs: Where images, or their features, come from.
        rows: (N,) rows of the training images.
        paths: (N, L) their label paths, by which the sampler draws.
        labels: (N, L) their label paths, or (N, C) multi-hot.
        image: How to augment.
        batch: How to sample.
        seed: Root of all draws.
        views: Augmented copies V of each image.
    """

    inputs: Inputs
    rows: IntArray
    paths: IntArray
    labels: Tensor
    image: ImageSpec
    batch: BatchSpec
    seed: int
    views: int = 1

    def __post_init__(self) -> None:
        if self.batch.size % world_size():
            raise ConfigError(
                "`batch.size` must be a multiple of the number of workers, so that every one gets "
                f"an equal part, but got {self.batch.size} and {world_size()}."
            )
        check_batches(self.paths, self.batch)
        fixed = self.inputs.num_views if isinstance(self.inputs, FixedViews | Features) else None
        if fixed is not None and 1 < self.views > fixed:
            raise ConfigError(
                f"Batches have {self.views} views of each image, so in the frozen regime "
                f"`image.cached_views` must be at least {self.views}, but got {fixed}."
            )

    def epoch(self, epoch: int, iterations: int | None) -> "Epoch":
        """Returns the batches of one epoch; without a number of them an epoch of the sampler."""
        order = draw_epoch(
            self.paths, self.batch, seed=self.seed, epoch=epoch, iterations=iterations
        )
        return Epoch(self, epoch, order)

    def plan(self, chosen: IntArray, epoch: int, iteration: int) -> list[Callable[[], Tensor]]:
        """Returns this rank's work for one batch; its draws are those of the whole batch."""
        assert not isinstance(self.inputs, Features), "features need no work"
        rows = np.tile(self.rows[chosen], self.views)
        part = self._own_part(rows.size)
        if isinstance(self.inputs, FixedViews):
            views, fixed = self._draw_views(len(chosen), epoch, iteration), self.inputs
            return [partial(fixed.image, int(rows[i]), int(views[i])) for i in part]
        rng = rng_for(self.seed, "augmentation", epoch, iteration)
        drawn = Augmentation.draw(rng, self.inputs, rows, self.image)
        return [partial(drawn.image, int(i)) for i in part]

    def features(self, chosen: IntArray, epoch: int, iteration: int) -> Tensor:
        """Returns this rank's part of one batch, from the cache."""
        assert isinstance(self.inputs, Features), "images are prepared by a plan"
        rows = np.tile(self.rows[chosen], self.views)
        views, part = self._draw_views(len(chosen), epoch, iteration), self._own_part(rows.size)
        return self.inputs.of_views(rows[part], views[part])

    def _own_part(self, count: int) -> IntArray:
        return np.arange(count).reshape(self.views, world_size(), -1)[:, rank()].ravel()

    def _draw_views(self, count: int, epoch: int, iteration: int) -> IntArray:
        assert not isinstance(self.inputs, Pixels), "every draw of an image is a new view"
        rng = rng_for(self.seed, "views", epoch, iteration)
        return draw_views(rng, count, self.views, self.inputs.num_views)


@dataclass(frozen=True)
class Epoch:
    """The batches of one epoch, prepared while they are iterated over.

    Attributes:
        batches: Of the job.
        number: Of the epoch.
        order: (iterations, B) which images form each batch.
        first: How many batches of the epoch come before these.
    """

    batches: TrainingBatches
    number: int
    order: IntArray
    first: int = 0

    def __len__(self) -> int:
        return len(self.order)

    def after(self, batches: int) -> "Epoch":
        """Returns the rest after so many batches, the same as if they had been iterated over."""
        return replace(self, order=self.order[batches:], first=self.first + batches)

    def __iter__(self) -> Iterator[Batch]:
        labels, views = self.batches.labels, self.batches.views
        rows = enumerate(self.order, start=self.first)
        if isinstance(self.batches.inputs, Features):
            for i, row in rows:
                features = self.batches.features(row, self.number, i)
                yield Batch(features, labels[torch.from_numpy(np.tile(row, views))])
            return
        plans = (self.batches.plan(row, self.number, i) for i, row in rows)
        for row, images in _prepare_ahead(zip(self.order, plans, strict=True)):
            yield Batch(images, labels[torch.from_numpy(np.tile(row, views))])


def evaluation_batches(
    inputs: Inputs, rows: IntArray, image: ImageSpec, batch_size: int = 64
) -> Iterator[Tensor]:
    """Yields batches of the rows in order, as they are evaluated.

    They are (b, 3, S, S) uint8 images, or (b, ...) float32 features where these are cached.
    """
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    if isinstance(inputs, Features):
        for part in parts:
            yield inputs.evaluated(part)
        return
    pixels = inputs.pixels if isinstance(inputs, FixedViews) else inputs
    one = partial(evaluated_image, pixels, image)
    yield from prepared_images([partial(one, int(row)) for row in part] for part in parts)


def prepared_images(batches: Iterable[list[Callable[[], Tensor]]]) -> Iterator[Tensor]:
    """Makes images on threads, a few batches ahead; yields a stack of each batch in order."""
    plans: Iterator[Plan] = ((np.arange(len(tasks)), tasks) for tasks in batches)
    for _, images in _prepare_ahead(plans):
        yield images


def _prepare_ahead(
    plans: Iterator[Plan],
) -> Iterator[tuple[IntArray, Tensor]]:
    """Runs the tasks of every plan on threads, a few plans ahead; yields stacks in order."""
    threads = max(1, (os.cpu_count() or 1) // world_size())
    pending: deque[tuple[IntArray, list[Future[list[Tensor]]]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="hsearch-batches") as pool:
        try:
            for key, tasks in plans:
                chunks = [tasks[i::threads] for i in range(threads)]
                pending.append((key, [pool.submit(_run_all, chunk) for chunk in chunks]))
                if len(pending) > PREFETCH:
                    yield _collect(*pending.popleft())
            while pending:
                yield _collect(*pending.popleft())
        finally:
            pool.shutdown(cancel_futures=True)


def _run_all(tasks: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
    return [task() for task in tasks]


def _collect(key: IntArray, futures: list[Future[list[Tensor]]]) -> tuple[IntArray, Tensor]:
    """Puts the interleaved chunks back into order."""
    chunks = [future.result() for future in futures]
    total = sum(len(chunk) for chunk in chunks)
    return key, torch.stack([chunks[i % len(chunks)][i // len(chunks)] for i in range(total)])
