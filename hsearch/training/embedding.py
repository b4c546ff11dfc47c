"""Embeddings of stored images by a trained network, shared between the ranks."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

import hsearch.distributed as distributed
from hsearch.data.batches import evaluation_batches
from hsearch.data.pixels import Pixels
from hsearch.data.transforms import normalise
from hsearch.evaluation.embed import embed_batches
from hsearch.spec import ImageSpec


class Network(Protocol):
    """What turns images into embeddings: a training step, or features as they come."""

    @property
    def curvature(self) -> float:
        """Of the ball that the embeddings lie in; 0 on the sphere."""

    def eval(self) -> object:
        """Sets evaluation mode."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yields the weights."""

    def embed(self, images: Tensor) -> Tensor:
        """Maps (B, 3, S, S) images to (B, D) embeddings."""


def embed_rows(
    step: Network,
    pixels: Pixels,
    rows: NDArray[np.int64],
    image: ImageSpec,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """Returns (N, D) float32 embeddings of N rows, in their order, on every rank.

    `progress` is told how many images, of how many, this rank has embedded.
    """
    device = next(step.parameters()).device
    own = np.array_split(rows, distributed.world_size())[distributed.rank()]
    count = len(own)
    own = own if count else rows[:1]  # with fewer images than ranks some have nothing to give

    def network(images: Tensor) -> Tensor:
        return step.embed(normalise(images.to(device), image))

    def batches() -> Iterator[Tensor]:
        done = 0
        for batch in evaluation_batches(pixels, own, image):
            yield batch
            done += len(batch)
            if progress:
                progress(done, len(own))

    step.eval()
    local = embed_batches(batches(), network)
    return distributed.gather_rows(local[:count].to(device)).cpu()
