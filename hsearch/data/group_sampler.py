"""HiMulCon's batches: groups of an anchor with one relative of every degree.

References:
    Zhang, Xu, Xiong, Ramaiah, Use All The Labels: A Hierarchical Multi-Label Contrastive Learning
    Framework, CVPR 2022, arXiv:2204.13207.
"""

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

TRIES = 10
UNSEEN, SEEN, IN_BATCH = range(3)


def draw_groups(rng: np.random.Generator, paths: IntArray, size: int, count: int) -> IntArray:
    """Returns (count, size) positions into `paths`.

    A group begins with a random anchor. Then comes an image of its class, one that shares all
    levels but the finest with it, and so on to one of another coarsest class: five images where
    there are three levels. Images that were not seen since the last pass through the data began
    are preferred; where no unseen one has the degree, a seen one serves, if possible one that is
    not yet in the batch, and where the hierarchy has none at all, any unseen image. (The original
    takes any unseen image in both cases, and has batches that exceed the size to complete a group;
    here the last group of a batch is cut.) `size` must not exceed the number of images.
    """
    groups = _Groups(rng, paths)
    return groups.order[[groups.batch(size) for _ in range(count)]]


class _Groups:
    """A pass through the images, sorted so that all relatives of a degree lie side by side."""

    def __init__(self, rng: np.random.Generator, paths: IntArray) -> None:
        self.rng = rng
        self.order: IntArray = np.lexsort(paths.T[::-1])
        self.levels = paths.shape[1]
        self.low, self.high = _ranges(paths[self.order])
        self.marks = bytearray(len(paths))
        self.queue: list[int] = []
        self.chosen: list[int] = []

    def batch(self, size: int) -> list[int]:
        """Sorted positions of the images of the next batch."""
        degrees = range(self.levels, -1, -1)
        self._mark(SEEN)
        self.chosen = []
        numbers = self.rng.random((-(-size // (self.levels + 2)), len(degrees), TRIES + 1))
        for of_group in numbers.tolist():
            anchor = self._unseen()
            self._choose(anchor)
            for degree, of_image in zip(degrees, of_group, strict=True):
                if len(self.chosen) < size:
                    self._choose(self._relative(anchor, degree, of_image))
        return self.chosen

    def _choose(self, position: int) -> None:
        self.chosen.append(position)
        self.marks[position] = IN_BATCH

    def _mark(self, mark: int) -> None:
        """Marks the images of the batch."""
        for position in self.chosen:
            self.marks[position] = mark

    def _unseen(self) -> int:
        """Any image that was not seen; if there is none, a new pass begins with the batch seen."""
        while True:
            while self.queue:
                position = self.queue.pop()
                if self.marks[position] == UNSEEN:
                    return position
            self.marks = bytearray(len(self.marks))
            self._mark(IN_BATCH)
            self.queue = self.rng.permutation(len(self.marks)).tolist()

    def _relative(self, anchor: int, degree: int, numbers: list[float]) -> int:
        """An image that shares exactly `degree` levels with the anchor, if there is one."""
        low, high = self.low[degree][anchor], self.high[degree][anchor]
        near, far = self.low[degree + 1][anchor], self.high[degree + 1][anchor]  # too close
        total = high - low - (far - near)
        if not total:
            return self._unseen()
        for number in numbers[:-1]:
            position = low + int(number * total)
            position += far - near if position >= near else 0
            if self.marks[position] == UNSEEN:
                return position
        marks = np.frombuffer(self.marks[low:near] + self.marks[far:high], dtype=np.uint8)
        best = np.flatnonzero(marks == marks.min())
        position = low + int(best[int(numbers[-1] * len(best))])
        return position + (far - near if position >= near else 0)


def _ranges(paths: IntArray) -> tuple[list[list[int]], list[list[int]]]:
    """Where the images begin and end that share at least d levels, by d and position.

    The last d, one more than there are levels, is the image alone.
    """
    count, levels = paths.shape
    low, high = [[0] * count], [[count] * count]
    for depth in range(1, levels + 1):
        changes = np.flatnonzero((paths[1:, :depth] != paths[:-1, :depth]).any(axis=1)) + 1
        edges = np.concatenate([[0], changes, [count]])
        low.append(np.repeat(edges[:-1], np.diff(edges)).tolist())
        high.append(np.repeat(edges[1:], np.diff(edges)).tolist())
    low.append(list(range(count)))
    high.append(list(range(1, count + 1)))
    return low, high
