"""Ranks and the differentiable exchanges between them; every function also works without a group.

All ranks compute the same loss on the gathered batch. DistributedDataParallel then averages the
parameter gradients over W ranks, so the gradient that leaves `gather_batch` is W times the local
part: the average of W such parts is exactly the gradient of one process with the whole batch.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


def rank() -> int:
    """Returns this process's rank, 0 without a process group."""
    return dist.get_rank() if _in_group() else 0


def world_size() -> int:
    """Returns the number of ranks, 1 without a process group."""
    return dist.get_world_size() if _in_group() else 1


def pick_device() -> torch.device:
    """Returns this rank's GPU where there is one, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def gather_batch(local: Tensor, views: int = 1) -> Tensor:
    """Joins the ranks' parts of a batch, with gradient.

    Args:
        local: (V * b, ...): this rank's b images, all first views first; b equal on all ranks.
        views: V.

    Returns:
        (V * W * b, ...): the whole batch in the order of the ranks, all first views first.
    """
    if world_size() == 1:
        return local
    by_view = local.reshape(views, -1, *local.shape[1:])
    joined: Tensor = _Gather.apply(by_view)
    return joined.flatten(0, 1)


def gather_equal(local: Tensor) -> Tensor:
    """Returns (W, ...): the tensors of all ranks, which have the same shape, without gradient."""
    local = local.contiguous()
    if world_size() == 1:
        return local.unsqueeze(0)
    parts = [torch.empty_like(local) for _ in range(world_size())]
    dist.all_gather(parts, local)
    return torch.stack(parts)


def gather_rows(local: Tensor) -> Tensor:
    """Joins (n_r, ...) tensors of the ranks, which may differ in length, without gradient."""
    if world_size() == 1:
        return local
    lengths = [torch.zeros(1, dtype=torch.long, device=local.device) for _ in range(world_size())]
    dist.all_gather(lengths, torch.tensor([len(local)], device=local.device))
    longest = max(int(length) for length in lengths)
    padded = local.new_zeros((longest, *local.shape[1:]))
    padded[: len(local)] = local
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(n)] for part, n in zip(parts, lengths, strict=True)])


def broadcast_from_first(module: nn.Module) -> None:
    """Gives every rank the parameters and buffers of rank 0."""
    broadcast_tensors([*module.parameters(), *module.buffers()])


@torch.no_grad()
def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Gives every rank the values of rank 0, in place."""
    if world_size() > 1:
        for tensor in tensors:
            dist.broadcast(tensor, src=0)


def share_object(value: T) -> T:
    """Returns rank 0's value on every rank."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def gather_objects(value: T) -> list[T]:
    """Returns the values of all ranks in their order, on every rank."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


def barrier() -> None:
    """Waits for all ranks."""
    if world_size() > 1:
        dist.barrier()


def _in_group() -> bool:
    return dist.is_available() and dist.is_initialized()


class _Gather(torch.autograd.Function):
    """(V, b, ...) of every rank -> (V, W * b, ...)."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, local: Tensor) -> Tensor:
        return torch.cat(list(gather_equal(local)), dim=1)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        # Every rank holds the same gradient of the same loss: its own part times W is the sum
        # over the ranks, without an exchange.
        return grad.chunk(world_size(), dim=1)[rank()] * world_size()
