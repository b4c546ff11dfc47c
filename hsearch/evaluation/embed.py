"""Embeddings of many images, batch by batch."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor


@torch.inference_mode()
def embed_batches(batches: Iterable[Tensor], network: Callable[[Tensor], Tensor]) -> Tensor:
    """Returns (N, D) float32 embeddings on the CPU.

    Args:
        batches: Batches of images, each (b, ...), N in all and at least one.
        network: Maps a batch to its (b, D) embeddings.
    """
    return torch.cat([network(batch).float().cpu() for batch in batches])
