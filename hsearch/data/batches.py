"""Batches of images, prepared by threads while the network computes."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.data.colors import draw_colors, recolor
from hsearch.data.cutout import cut_out, draw_holes
from hsearch.data.pixels import Pixels
from hsearch.data.randaugment import draw_operations, operate
from hsearch.data.samplers import check_batches, draw_epoch
from hsearch.data.transforms import draw_crops, eval_image, resize, train_image
from hsearch.distributed import rank, world_size
from hsearch.errors import ConfigError
from hsearch.seeds import rng_for
from hsearch.spec import BatchSpec, ImageSpec

PREFETCH = 3

IntArray = NDArray[np.int64]
Plan = tuple[IntArray, list[Callable[[], Tensor]]]


@dataclass(frozen=True)
class Batch:
    """One training step's input on this rank.

    Attributes:
        images: (V * b, 3, S, S) uint8: this rank's b images, all first views first.
        labels: (V * B, L): the labels of the whole batch over all ranks, all first views first.
    """

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class TrainingBatches:
    """The batches of every epoch of a job; each draw follows from seed, epoch and iteration.

    Attributes:
        pixels: Where images come from.
        rows: (N,) rows of the training images.
        paths: (N, L) their label paths, by which the sampler draws.
        labels: (N, L) their label paths, or (N, C) multi-hot.
        image: How to augment.
        batch: How to sample.
        seed: Root of all draws.
        views: Augmented copies V of each image.
    """

    pixels: Pixels
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

    def epoch(self, epoch: int, iterations: int | None) -> "Epoch":
        """Returns the batches of one epoch; without a number of them an epoch of the sampler."""
        order = draw_epoch(
            self.paths, self.batch, seed=self.seed, epoch=epoch, iterations=iterations
        )
        return Epoch(self, epoch, order)

    def plan(self, chosen: IntArray, epoch: int, iteration: int) -> list[Callable[[], Tensor]]:
        """Returns this rank's work for one batch; its draws are those of the whole batch."""
        rows = np.tile(self.rows[chosen], self.views)
        rng = rng_for(self.seed, "augmentation", epoch, iteration)
        crops = draw_crops(rng, *self.pixels.sizes(rows), self.image)
        colors = draw_colors(rng, rows.size, self.image)
        holes = draw_holes(rng, rows.size, self.image)
        operations = draw_operations(rng, rows.size, self.image)
        part = np.arange(rows.size).reshape(self.views, world_size(), -1)[:, rank()].ravel()

        def one(position: int) -> Tensor:
            pixels = self.pixels[int(rows[position])]
            image = train_image(pixels, crops, position, self.image.crop)
            image = image if colors is None else recolor(image, colors, position)
            image = image if holes is None else cut_out(image, holes, position)
            return image if operations is None else operate(image, operations, position)

        return [partial(one, int(position)) for position in part]


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
        plans = (self.batches.plan(row, self.number, i) for i, row in rows)
        for row, images in _prepare_ahead(zip(self.order, plans, strict=True)):
            yield Batch(images, labels[torch.from_numpy(np.tile(row, views))])


def evaluation_batches(
    pixels: Pixels, rows: IntArray, image: ImageSpec, batch_size: int = 64
) -> Iterator[Tensor]:
    """Yields (b, 3, S, S) uint8 batches of the rows in order, as they are evaluated."""

    def one(row: int) -> Tensor:
        if image.evaluated == "squeezed":
            return resize(pixels[row], image.crop, image.crop)
        return eval_image(pixels[row], image.crop)

    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    plans: Iterator[Plan] = ((part, [partial(one, int(row)) for row in part]) for part in parts)
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
