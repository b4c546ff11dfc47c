"""Embeddings of stored images by a trained network, shared between the ranks."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import hsearch.distributed as distributed
from hsearch.data.batches import Inputs, evaluation_batches
from hsearch.data.transforms import network_input
from hsearch.evaluation.embed import embed_batches
from hsearch.evaluation.label_scoring import FIRST_IMAGES, LabelEmbedded
from hsearch.spec import ImageSpec

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


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
        """Maps (B, 3, S, S) images, or cached features of images, to (B, D) embeddings."""


class LabelNetwork(Network, Protocol):
    """A network that also says how likely every label is."""

    def scores(self, embeddings: Tensor) -> Tensor:
        """Maps embeddings to (B, T) logits."""


Progress = Callable[[int, int], None]


def embed_rows(
    step: Network,
    inputs: Inputs,
    rows: IntArray,
    image: ImageSpec,
    progress: Progress | None = None,
) -> Tensor:
    """Returns (N, D) float32 embeddings of N rows, in their order, on every rank.

    `progress` is told how many images, of how many, this rank has embedded.
    """
    device = next(step.parameters()).device
    own = _own_part(rows)
    step.eval()
    local = embed_batches(
        _batches(inputs, rows, image, progress), partial(_embed, step, image, device)
    )
    return distributed.gather_rows(local[: len(own)].to(device)).cpu()


def embed_labels(
    step: LabelNetwork,
    inputs: Inputs,
    rows: IntArray,
    labels: BoolArray,
    names: tuple[str, ...],
    image: ImageSpec,
    progress: Progress | None = None,
) -> LabelEmbedded:
    """Returns what a network says about N rows, in their order, on every rank.

    Args:
        step: Whose embeddings are (B, T, D), or (B, D) for one per image, which are not kept.
        inputs: The images, or their cached features.
        rows: (N,).
        labels: (N, T) which labels they have.
        names: Of the T labels.
        image: How the network's input is made.
        progress: Told how many images, of how many, this rank has embedded.
    """
    device = next(step.parameters()).device
    part = _own_part(np.arange(len(rows)))
    wanted = torch.from_numpy(labels[part] & (part < FIRST_IMAGES)[:, None]).to(device)
    logits, found, done = [], [], 0
    step.eval()
    with torch.inference_mode():
        for batch in _batches(inputs, rows, image, progress):
            embeddings = _embed(step, image, device, batch)
            logits.append(step.scores(embeddings).float())
            here = wanted[done : done + len(batch)]
            if embeddings.ndim > 2:
                found.append(embeddings[: len(here)][here].float())
            done += len(batch)
    scores = distributed.gather_rows(torch.cat(logits)[: len(part)]).cpu().numpy()
    vectors = distributed.gather_rows(torch.cat(found)).cpu().numpy() if found else None
    return LabelEmbedded(scores, labels, names, vectors)


def _own_part(rows: IntArray) -> IntArray:
    return np.array_split(rows, distributed.world_size())[distributed.rank()]


def _batches(
    inputs: Inputs, rows: IntArray, image: ImageSpec, progress: Progress | None
) -> Iterator[Tensor]:
    """Yields this rank's images; a first one where it has none, so that all ranks go along."""
    own = _own_part(rows)
    own = own if len(own) else rows[:1]
    done = 0
    for batch in evaluation_batches(inputs, own, image):
        yield batch
        done += len(batch)
        if progress:
            progress(done, len(own))


def _embed(step: Network, image: ImageSpec, device: torch.device, images: Tensor) -> Tensor:
    return step.embed(network_input(images.to(device), image))
