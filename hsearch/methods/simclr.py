"""SimCLR: SupCon without labels, between views of an image.

The only positive of a view is the other view of its image.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above
from hsearch.methods.supcon import BASE_TEMPERATURE, supcon_loss


class Loss(Method):
    """Contrasts the views of an image with the rest of the batch; no parameters, no labels.

    Args:
        temperature: Of the softmax over cosines, > 0.
        base_temperature: Divides the loss, > 0; the published code never changes it.

    References:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations,
        ICML 2020, arXiv:2002.05709.
    """

    supervised: ClassVar[bool] = False
    # Images of a class are negatives of each other, so a batch should not gather them; and where
    # views share their colours, those are all that is learned.
    wishes: ClassVar[Mapping[str, Any]] = {
        "batch.sampler": "shuffle",
        "image.color_jitter": [0.8, 0.8, 0.8, 0.2],
        "image.grayscale": 0.2,
    }
    views: int = 2

    def __init__(
        self,
        setting: Setting,
        *,
        temperature: float = 0.5,
        base_temperature: float = BASE_TEMPERATURE,
    ) -> None:
        super().__init__(setting)
        require_above(0, "simclr", temperature=temperature, base_temperature=base_temperature)
        self.temperature, self.base_temperature = temperature, base_temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; `labels` do not count."""
        images = torch.arange(len(embeddings) // self.views, device=embeddings.device)
        return supcon_loss(
            embeddings,
            images.repeat(self.views),
            temperature=self.temperature,
            base_temperature=self.base_temperature,
        )
