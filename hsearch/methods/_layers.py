"""Layers of methods that own their head; a method's generator draws all their weights."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """A linear layer with torch's usual weights, U(-1 / sqrt(n), 1 / sqrt(n)) of n inputs.

    Args:
        inputs: Length of what it takes.
        outputs: Length of what it gives.
        generator: Draws weight and bias, in place of torch's global one.
    """

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__(inputs, outputs)
        bound = max(inputs, 1) ** -0.5
        for parameter in (self.weight, self.bias):
            nn.init.uniform_(parameter, -bound, bound, generator)

    def reset_parameters(self) -> None:
        """Draws nothing: the constructor of `nn.Linear` calls it, and knows no generator."""


def projector(inputs: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    """Returns two linear layers with a ReLU between, in front of a contrastive loss."""
    first, second = Linear(inputs, inputs, generator), Linear(inputs, outputs, generator)
    return nn.Sequential(first, nn.ReLU(), second)


class AttentionBlock(nn.Module):
    """Queries look at keys with several heads; then a layer for each of them on its own.

    With q, k, v linear in queries and keys, each split into heads, A = softmax(q k' / sqrt(width))
    with the whole width, not a head's, as in the published code. Then x = norm(q + A v), and the
    output is norm(x + relu(W x)).

    Args:
        query_width: Length of a query.
        key_width: Length of a key.
        width: Length of an output, a multiple of `heads`.
        heads: At least 1.
        generator: Draws the weights.

    References:
        Lee et al., Set Transformer: A Framework for Attention-based Permutation-Invariant Neural
        Networks, ICML 2019, arXiv:1810.00825.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        width: int,
        heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(query_width, width, generator)
        self.key = Linear(key_width, width, generator)
        self.value = Linear(key_width, width, generator)
        self.last = Linear(width, width, generator)
        self.first_norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Maps queries (B, Q, query_width), or without B, and keys (B, K, ...) to (B, Q, width)."""
        query = self.query(queries)
        seen = self._weights(query, keys) @ self._split(self.value(keys))
        x = self.first_norm(query + seen.transpose(1, 2).flatten(2))
        output: Tensor = self.last_norm(x + F.relu(self.last(x)))
        return output

    def weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Returns A, (B, heads, Q, K), of what `forward` takes; it sums to 1 over K."""
        return self._weights(self.query(queries), keys)

    def _weights(self, query: Tensor, keys: Tensor) -> Tensor:
        products = self._split(query) @ self._split(self.key(keys)).transpose(-1, -2)
        return torch.softmax(products / query.shape[-1] ** 0.5, dim=-1)

    def _split(self, x: Tensor) -> Tensor:
        """(..., N, width) to (..., heads, N, width / heads)."""
        return x.reshape(*x.shape[:-1], self.heads, -1).transpose(-2, -3)
