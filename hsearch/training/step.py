"""One training step's network: from this rank's images to the loss of the whole batch."""

import torch
from torch import Tensor, nn

from hsearch.distributed import gather_batch
from hsearch.methods import Method
from hsearch.models.embedder import Embedder


class TrainingStep(nn.Module):
    """Embedder and method as one module, so that DistributedDataParallel sees all parameters.

    On CUDA the embedder trains in bfloat16; the method, and evaluation, always run in float32.
    """

    def __init__(self, embedder: Embedder, method: Method) -> None:
        super().__init__()
        self.embedder = embedder
        self.method = method

    @property
    def curvature(self) -> float:
        """Of the ball that the embeddings lie in; 0 on the sphere."""
        return self.method.curvature if self.method.geometry == "poincare" else 0.0

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss of the batch over all ranks.

        Args:
            images: (V * b, 3, S, S): this rank's part; or its features, where they are cached.
            labels: (V * B, L): of the whole batch.
        """
        embeddings = gather_batch(self.embed(images), self.method.views)
        loss: Tensor = self.method(embeddings, labels)
        return loss

    def embed(self, images: Tensor) -> Tensor:
        """Maps (B, 3, S, S) images to embeddings in the method's geometry, (B, D) or (B, T, D).

        Without a backbone it takes (B, ...) cached features instead.
        """
        reduced = images.is_cuda and self.training
        with torch.autocast(images.device.type, torch.bfloat16, enabled=reduced):
            features = self.embedder(images)
        if features.dtype == torch.bfloat16:
            features = features.float()
        return self.method.embed(features)

    def unchanged(self) -> frozenset[str]:
        """Returns the names, in the state dict, of what training never changes."""
        return frozenset(f"embedder.{name}" for name in self.embedder.unchanged())

    def scores(self, embeddings: Tensor) -> Tensor:
        """Maps embeddings to (B, T) logits of labels, if the method is of that task."""
        return self.method.scores(embeddings)
