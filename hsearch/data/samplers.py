"""Which images form the batches of an epoch: pure functions of seed and epoch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hsearch.seeds import rng_for
from hsearch.spec import BatchSpec

IntArray = NDArray[np.int64]


def draw_epoch(
    classes: IntArray, batch: BatchSpec, *, seed: int, epoch: int, iterations: int
) -> IntArray:
    """Returns (iterations, batch.size) positions into `classes`, the class of every image."""
    members = [np.flatnonzero(classes == label) for label in np.unique(classes)]
    rng = rng_for(seed, "sampler", epoch)
    draw = _m_per_class if batch.sampler == "m_per_class" else _class_balanced
    return np.stack([draw(rng, members, batch) for _ in range(iterations)])


def _m_per_class(
    rng: np.random.Generator, members: Sequence[IntArray], batch: BatchSpec
) -> IntArray:
    """`per_class` images of each of size / per_class classes.

    Classes do not repeat in a batch while there are enough of them, nor images of a class.
    """
    chosen = _distinct(rng, len(members), batch.size // batch.per_class)
    picks = [members[c][_distinct(rng, len(members[c]), batch.per_class)] for c in chosen]
    return np.concatenate(picks)


def _class_balanced(
    rng: np.random.Generator, members: Sequence[IntArray], batch: BatchSpec
) -> IntArray:
    """Every image from a class drawn uniformly, however many images the class has."""
    chosen = rng.integers(len(members), size=batch.size)
    return np.array([rng.choice(members[c]) for c in chosen])


def _distinct(rng: np.random.Generator, population: int, count: int) -> IntArray:
    """`count` numbers below `population`; each comes again only after all have come."""
    rounds = [rng.permutation(population) for _ in range(-(-count // population))]
    return np.concatenate(rounds)[:count]
