"""Which images form the batches of an epoch: pure functions of seed and epoch."""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsearch.data.group_sampler import draw_groups
from hsearch.errors import ConfigError
from hsearch.seeds import rng_for
from hsearch.spec import BatchSpec

IntArray = NDArray[np.int64]

MOST_BATCHES = 1_000_000
"""An epoch of more is a mistake."""


def draw_epoch(
    paths: IntArray, batch: BatchSpec, *, seed: int, epoch: int, iterations: int | None = None
) -> IntArray:
    """Returns the batches of an epoch: (iterations, batch.size) positions into `paths`.

    Args:
        paths: (N, L) label path of every image, coarsest level first.
        batch: Its sampler decides; see `BatchSpec`.
        seed: Root of the draws.
        epoch: From 1; every epoch differs.
        iterations: How many batches. By default the sampler's own epoch, which may differ from
            epoch to epoch; a longer one goes on with the next own epoch.
    """
    check_batches(paths, batch)
    rng = rng_for(seed, "sampler", epoch)
    images = _Images(paths, members_of(paths[:, -1]))
    draw = _SAMPLERS[batch.sampler]
    parts = [draw(rng, images, batch, iterations)]
    while iterations is not None and (missing := iterations - sum(map(len, parts))) > 0:
        parts.append(draw(rng, images, batch, missing))
    return np.concatenate(parts)


def check_batches(paths: IntArray, batch: BatchSpec) -> None:
    """Raises a ConfigError if the sampler cannot make a single batch of these images."""
    usable = len(paths)
    rule = f"`batch.size` must not exceed the {usable} training images of the fold"
    found, other = f"got {batch.size}", ""
    if batch.sampler == "m_per_class_once":
        sizes = np.unique(paths[:, -1], return_counts=True)[1]
        have, need = int((sizes >= batch.per_class).sum()), batch.size // batch.per_class
        usable = have * batch.per_class
        rule = (
            f"`batch.sampler: m_per_class_once` needs {need} classes with at least "
            f"{batch.per_class} images each"
        )
        found, other = f"there are {have}", " or `--set batch.sampler=m_per_class`"
    if batch.size > usable:
        largest = usable - usable % batch.multiple_of
        remedy = f"add `--set batch.size={largest}`" if largest else "lower `batch.per_class`"
        raise ConfigError(f"{rule}, but {found}; {remedy}{other}.")


def members_of(labels: IntArray) -> list[IntArray]:
    """Returns the positions of every label, in the order of the labels."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


@dataclass(frozen=True)
class _Images:
    """Label paths (N, L), and the positions of the images of every class."""

    paths: IntArray
    members: list[IntArray]

    def batches(self, batch: BatchSpec, most: int | None) -> int:
        """`most`, or as many as the images fill."""
        return len(self.paths) // batch.size if most is None else most


def _m_per_class(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """`per_class` images of each of size / per_class classes.

    Classes do not repeat in a batch while there are enough of them, nor images of a class.
    """
    count = batch.size // batch.per_class
    rows = []
    for _ in range(images.batches(batch, most)):
        chosen = _distinct(rng, len(images.members), count)
        rows.append(_take(rng, images, chosen, batch.per_class))
    return np.stack(rows)


def _class_balanced(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """Every image from a class drawn uniformly, however many images the class has."""
    shape = images.batches(batch, most), batch.size
    return _any_of(rng, images, rng.integers(len(images.members), size=shape))


def _unique_class(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """Different classes as in `_m_per_class`, but images of a class drawn with replacement."""
    count = batch.size // batch.per_class
    rows = range(images.batches(batch, most))
    chosen = np.stack([_distinct(rng, len(images.members), count) for _ in rows])
    return _any_of(rng, images, np.repeat(chosen, batch.per_class, axis=1))


def _hard(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """A random class with the classes that share most levels with it; ties fall at random."""
    paths = images.paths[[members[0] for members in images.members]]
    count = min(len(paths), batch.size // batch.per_class)
    rows = []
    for _ in range(images.batches(batch, most)):
        first = rng.integers(len(paths))
        shared = np.logical_and.accumulate(paths == paths[first], axis=1).sum(axis=1)
        nearest = np.argpartition(rng.random(len(paths)) - shared, count - 1)[:count]
        chosen = np.resize(nearest, batch.size // batch.per_class)
        rows.append(_take(rng, images, chosen, batch.per_class))
    return np.stack(rows)


def _shuffle(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """All images once in random order; what does not fill a batch is dropped."""
    full = len(images.paths) // batch.size
    return rng.permutation(len(images.paths))[: full * batch.size].reshape(full, -1)[:most]


def _m_per_class_once(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """`per_class` unused images of each of size / per_class classes, as HAPPIER has it.

    Every batch walks the same random order of the classes from its start and takes those that
    still have enough unused images. So a class, once it came, stays in every batch until it is
    used up, and then the next one in the order takes its place: a queue of jobs for
    size / per_class servers. When a server finds no class, no batch can be filled any more.
    """
    free = [0] * (batch.size // batch.per_class)  # from which batch on each place is free
    groups, places = [], []
    for number in rng.permutation(len(images.members)):
        members = rng.permutation(images.members[number])
        visits = len(members) // batch.per_class
        if visits:
            start = heapq.heappop(free)
            heapq.heappush(free, start + visits)
            groups.append(members[: visits * batch.per_class].reshape(visits, -1))
            places.append(np.arange(start, start + visits))
    place, full = np.concatenate(places), min(free)
    order = np.argsort(place, kind="stable")[: full * len(free)]
    batches = np.concatenate(groups)[order].reshape(full, batch.size)
    return rng.permuted(rng.permutation(batches), axis=1)[:most]


def _hierarchical(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    """`batches_per_pair` batches of every pair of coarsest classes, half of a batch from each.

    Each half is drawn like a batch of `m_per_class`, which also serves where there is no pair.
    """
    coarse = members_of(images.paths[[members[0] for members in images.members], 0])
    if len(coarse) < 2 or images.paths.shape[1] == 1:
        return _m_per_class(rng, images, batch, most)
    total = len(coarse) * (len(coarse) - 1) // 2 * batch.batches_per_pair
    if most is None and total > MOST_BATCHES:
        raise ConfigError(
            f"An epoch of all pairs of {len(coarse)} coarsest classes would have {total} batches; "
            "give `schedule.iterations_per_epoch`."
        )
    drawn = rng.choice(total, total if most is None else min(most, total), replace=False)
    pair = drawn // batch.batches_per_pair
    second = ((1 + np.sqrt(1 + 8 * pair)) / 2).astype(np.int64)
    first = pair - second * (second - 1) // 2
    count = batch.size // batch.per_class // 2
    rows = []
    for both in zip(first, second, strict=True):
        chosen = np.concatenate([coarse[c][_distinct(rng, len(coarse[c]), count)] for c in both])
        rows.append(_take(rng, images, chosen, batch.per_class))
    return rng.permuted(np.stack(rows), axis=1)


def _hierarchical_groups(
    rng: np.random.Generator, images: _Images, batch: BatchSpec, most: int | None
) -> IntArray:
    return draw_groups(rng, images.paths, batch.size, images.batches(batch, most))


_SAMPLERS: dict[str, Callable[[np.random.Generator, _Images, BatchSpec, int | None], IntArray]] = {
    "m_per_class": _m_per_class,
    "m_per_class_once": _m_per_class_once,
    "class_balanced": _class_balanced,
    "unique_class": _unique_class,
    "hierarchical": _hierarchical,
    "hierarchical_groups": _hierarchical_groups,
    "hard": _hard,
    "shuffle": _shuffle,
}


def _take(rng: np.random.Generator, images: _Images, classes: IntArray, count: int) -> IntArray:
    """`count` images each time that a class comes, different ones while the class has enough."""
    groups = []
    for number, times in Counter(classes.tolist()).items():
        members = images.members[number]
        groups.append(members[_distinct(rng, len(members), count * times)])
    return np.concatenate(groups)


def _any_of(rng: np.random.Generator, images: _Images, classes: IntArray) -> IntArray:
    """One image of every given class, each drawn by itself."""
    sizes = np.array([len(members) for members in images.members])
    starts = np.cumsum(sizes) - sizes
    chosen: IntArray = starts[classes] + rng.integers(sizes[classes])
    return np.concatenate(images.members)[chosen]


def _distinct(rng: np.random.Generator, population: int, count: int) -> IntArray:
    """`count` numbers below `population`; each comes again only after all have come."""
    rounds = [rng.permutation(population) for _ in range(-(-count // population))]
    return np.concatenate(rounds)[:count]
