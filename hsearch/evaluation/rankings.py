"""The whole ranking of every query, in blocks: at which ranks the relevant images stand.

The level of a gallery image for a query is the number of labels that their paths share, 0 for a
stranger and L for the same class. The gallery is arranged by path, so that those that share the
coarsest label with a query, its relatives, lie next to each other, and queries likewise: a block of
queries of one coarsest label has one rectangle of relatives. Strangers only count in the ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.errors import DatasetError
from hsearch.evaluation.scores import ROWS, TILE, Points, Scores, sort_rows, sortable_keys
from hsearch.evaluation.task import RetrievalTask
from hsearch.geometry import Geometry

IntArray = NDArray[np.int64]

CACHE = 2**23  # bytes of keys that are sorted at a time
LEVEL_BITS = 5
MOST_LEVELS = 2**LEVEL_BITS - 1
MOST_REFERENCES = 2 ** (32 - LEVEL_BITS)


@dataclass(frozen=True)
class Block:
    """Ranks of the relatives of q queries that share the coarsest label.

    Attributes:
        queries: (q,) numbers of the queries.
        ranks: (q, P) int64, ascending: the ranks, from 1, of all P relatives of each query.
        levels: (q, P) uint8 in 1..L: the levels of those relatives.
    """

    queries: IntArray
    ranks: Tensor
    levels: Tensor


class Rankings:
    """Ranks the gallery for the queries, tile by tile.

    Args:
        embeddings: (n, D) floats of all images, NumPy or torch; computed on the device where they
            are.
        task: Queries and gallery among the n images.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        memory_budget: Bytes that the tiles at work may take, beside copies of the points.
        workers: How many tiles are wanted at a time; they share the memory.
        ranks: How many processes share the tiles.

    Attributes:
        workers: How many tiles may be at work at a time within the memory.

    Raises:
        DivergedError: A point is not finite.
        ConfigError: A point lies outside of the ball.
        DatasetError: More images or levels than the keys can hold.
    """

    workers: int

    def __init__(
        self,
        embeddings: Points,
        task: RetrievalTask,
        *,
        geometry: Geometry,
        curvature: float,
        memory_budget: int,
        workers: int,
        ranks: int,
    ) -> None:
        size = len(task.gallery_rows)
        if size > MOST_REFERENCES or task.num_levels > MOST_LEVELS:
            raise DatasetError(
                f"A ranking may have up to {MOST_REFERENCES:,} images and {MOST_LEVELS} levels, "
                f"but got {size:,} images and {task.num_levels} levels."
            )
        self._order = np.lexsort((task.own >= 0, task.query_paths[:, 0]))  # by label, then own
        # Numbers of labels ascend with their parents'.
        arrangement = np.argsort(task.gallery_paths[:, -1], kind="stable")
        place = np.empty(size, dtype=np.int64)
        place[arrangement] = np.arange(size)
        self._own = np.where(task.own >= 0, place[task.own], -1)[self._order]
        self._scores = Scores(
            embeddings[task.query_rows[self._order]],
            embeddings[task.gallery_rows[arrangement]],
            geometry,
            curvature,
        )
        paths, gallery_paths = task.query_paths[self._order], task.gallery_paths[arrangement]
        self._begin = np.searchsorted(gallery_paths[:, 0], paths[:, 0], side="left")
        self._end = np.searchsorted(gallery_paths[:, 0], paths[:, 0], side="right")
        self._paths = torch.from_numpy(paths).to(self.device)
        self._gallery_paths = torch.from_numpy(gallery_paths).to(self.device)
        self._codes = torch.from_numpy(arrangement << LEVEL_BITS).to(self.device)
        self._plan(memory_budget, workers, ranks)

    def _plan(self, memory_budget: int, workers: int, ranks: int) -> None:
        """Decides how many tiles are at work, and how many queries a tile and a block have."""
        gallery, levels = self._gallery_paths.shape
        relatives = int((self._end - self._begin).max())
        of_tile = self._scores.bytes_per_pair * gallery
        of_block = 40 * gallery + 8 * (16 + 8 * levels) * relatives
        self.workers = int(np.clip(memory_budget // (ROWS * of_tile + of_block), 1, workers))
        half = memory_budget // self.workers // 2
        share = -(-len(self._order) // (workers * ranks))
        tile = min(half // of_tile, -(-share // ROWS) * ROWS)
        self._tile_rows = int(np.clip(tile // ROWS * ROWS, ROWS, TILE))
        block = min(half // of_block, CACHE // (8 * gallery)) if self._on_cpu else half // of_block
        self._block_rows = int(np.clip(block, 1, self._tile_rows))

    @property
    def _on_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def device(self) -> torch.device:
        """Where the rankings are computed."""
        return self._scores.device

    def tiles(self) -> list[slice]:
        """Returns slices of the queries in the order of this class."""
        count, size = len(self._order), self._tile_rows
        return [slice(start, min(start + size, count)) for start in range(0, count, size)]

    def blocks(self, tile: slice) -> Iterator[Block]:
        """Yields the blocks of one tile; queries without relatives are in none."""
        scores = self._scores(tile)
        first = tile.start
        memory = torch.empty(
            self._block_rows, scores.shape[1], dtype=torch.int64, device=self.device
        )
        for begin, end in self._pieces(first, first + len(scores)):
            if self._relatives(begin) > 0:
                keys = sortable_keys(
                    scores[begin - first : end - first], self._codes, memory[: end - begin]
                )
                yield self._block(slice(begin, end), keys)

    def _relatives(self, query: int) -> int:
        return int(self._end[query] - self._begin[query] - (self._own[query] >= 0))

    def _pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields ranges of queries that share the coarsest label and are in the gallery or not."""
        kind = np.stack([self._begin, self._end, self._own >= 0])[:, begin:end]
        changes = begin + 1 + np.flatnonzero((kind[:, 1:] != kind[:, :-1]).any(axis=0))
        for left, right in zip([begin, *changes], [*changes, end], strict=True):
            for start in range(int(left), int(right), self._block_rows):
                yield start, min(start + self._block_rows, int(right))

    def _block(self, rows: slice, keys: Tensor) -> Block:
        columns = slice(int(self._begin[rows.start]), int(self._end[rows.start]))
        relatives = keys[:, columns]
        relatives += 1
        for level in range(1, self._paths.shape[1]):
            relatives += self._paths[rows, level, None] == self._gallery_paths[columns, level]
        numbers = torch.arange(len(keys), device=keys.device)
        if self._own[rows.start] >= 0:
            keys[numbers, torch.from_numpy(self._own[rows]).to(keys.device)] = _LAST
        levels = sort_rows(keys).to(torch.uint8).bitwise_and_(MOST_LEVELS)
        place = levels.view(-1).nonzero()[:, 0].view(len(keys), -1)
        ranks = place - (numbers * keys.shape[1] - 1)[:, None]
        return Block(self._order[rows], ranks, levels.view(-1)[place])


_LAST = (2**63 - 1) & ~MOST_LEVELS  # after all others, and at level 0
