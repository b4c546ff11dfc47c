"""A moving average of a network's weights."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

import hsearch.distributed as distributed


class WeightAverage:
    """The exponential moving average of all weights and running statistics of a network.

    The n-th update moves the average by 1 - d towards the weights, where d is the decay, or
    (1 + n) / (10 + n) where that is less: else short trainings would keep their first weights.

    Args:
        module: The network; the average begins with its weights.
        decay: In 0..1.
        leave_out: Names of weights that never change, and so are their own average.

    Attributes:
        updates: How many there were.

    References:
        Polyak, Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992. The growing
        decay is that of TensorFlow's ExponentialMovingAverage.
    """

    def __init__(self, module: nn.Module, decay: float, leave_out: Collection[str] = ()) -> None:
        self._module, self._decay, self.updates = module, decay, 0
        self._leave_out = frozenset(leave_out)
        self._values = {name: tensor.detach().clone() for name, tensor in self._now().items()}

    @torch.no_grad()
    def update(self) -> None:
        """Moves the average, after every optimiser step."""
        self.updates += 1
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        now = self._now()
        torch._foreach_lerp_(list(self._values.values()), list(now.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Gives the network the averaged weights for a while."""
        own = {name: tensor.detach().clone() for name, tensor in self._now().items()}
        self.adopt()
        try:
            yield
        finally:
            _copy(own, self._now())

    def adopt(self) -> None:
        """Gives the network the averaged weights for good."""
        _copy(self._values, self._now())

    def share(self) -> None:
        """Gives every rank the average of rank 0: running statistics may differ between them."""
        distributed.broadcast_tensors(self._values.values())

    def _now(self) -> dict[str, Tensor]:
        return {n: t for n, t in _weights(self._module).items() if n not in self._leave_out}

    def state(self) -> dict[str, Tensor]:
        """Returns the average by the names of the weights."""
        return self._values

    def load(self, state: Mapping[str, Tensor], updates: int) -> None:
        """Takes up an average that was saved after so many updates."""
        _copy(state, self._values)
        self.updates = updates


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers that are fractions, by name."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor for name, tensor in named.items() if tensor.is_floating_point()}


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])
