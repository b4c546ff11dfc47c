"""What a network makes of images that may have several labels each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class LabelEmbedded:
    """Scores of N images for T labels, with the embeddings of the labels that they have.

    Attributes:
        scores: (N, T) float32 logits; a label is predicted from 0 on.
        labels: (N, T) which labels each image has.
        label_names: T names.
        embeddings: (M, D) float32, one per pair of an image and a label that it has, in the order
            of `np.nonzero(labels)`; None for methods with one embedding per image.
    """

    scores: NDArray[np.float32]
    labels: NDArray[np.bool_]
    label_names: tuple[str, ...]
    embeddings: NDArray[np.float32] | None
