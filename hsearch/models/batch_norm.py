"""Batch norm over all ranks, on every device."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from hsearch.distributed import gather_equal, world_size


def synchronise_batch_norm(network: nn.Module) -> None:
    """Makes every batch norm use the statistics of the whole batch over all ranks, in place.

    Works on every device, unlike `torch.nn.SyncBatchNorm`; with one rank nothing changes. Only
    the modules' classes change, so that weights keep their names, and timm's batch norms keep the
    activation they carry.
    """
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            kind = type(module)
            module.__class__ = type(f"Synchronised{kind.__name__}", (_Synchronised, kind), {})


class _Synchronised(_BatchNorm):
    """Batch norm over the ranks of the process group; a mixin before a batch-norm class."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or world_size() == 1:
            return super().forward(input)
        output = self._normalise(input)
        for extra in ("drop", "act"):  # of timm's BatchNormAct2d
            if hasattr(self, extra):
                output = getattr(self, extra)(output)
        return output

    def _normalise(self, x: Tensor) -> Tensor:
        count, shape = world_size() * x.numel() // x.shape[1], _channelwise(x)
        normalised, mean, variance = _Normalise.apply(x, self.eps)
        self._track(mean, variance * count / (count - 1))
        if self.weight is None:
            # Its gradient needs the normalised, which an activation may change in place.
            return normalised.to(x.dtype, copy=True)
        output = normalised * self.weight.view(shape)
        if self.bias is not None:
            output = output + self.bias.view(shape)
        return output.to(x.dtype)  # type: ignore[no-any-return]

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        average = 1.0 / float(self.num_batches_tracked)
        momentum = average if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), momentum)
        self.running_var.lerp_(variance.to(self.running_var), momentum)


class _Normalise(torch.autograd.Function):
    """(N, C, ...) -> normalised by channel, with mean and variance (C), over equal parts of ranks.

    One exchange each way, because a network has many batch norms and an exchange takes its time.
    Every rank centres its own part first, so that float32 keeps the variance of channels with a
    large mean.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (PyTorch's own)
        x: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        axes, shape = _all_but_channels(x), _channelwise(x)
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        variances, means = torch.var_mean(wide, axes, correction=0)
        variances, means = gather_equal(torch.stack([variances, means])).unbind(1)
        mean = means.mean(0)
        variance = (variances + (means - mean) ** 2).mean(0)
        scale = torch.rsqrt(variance + eps)
        normalised = (wide - mean.view(shape)) * scale.view(shape)
        ctx.save_for_backward(normalised, scale)
        ctx.mark_non_differentiable(mean, variance)
        return normalised, mean, variance

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401
        gradient: Tensor,
        *_: Tensor,
    ) -> tuple[Tensor, None]:
        normalised, scale = ctx.saved_tensors
        axes, shape = _all_but_channels(normalised), _channelwise(normalised)
        own = torch.stack([gradient.mean(axes), (gradient * normalised).mean(axes)])
        mean, along = gather_equal(own).mean(0)
        rest = gradient - mean.view(shape) - normalised * along.view(shape)
        return rest * scale.view(shape), None


def _all_but_channels(x: Tensor) -> list[int]:
    return [axis for axis in range(x.ndim) if axis != 1]


def _channelwise(x: Tensor) -> list[int]:
    return [1, -1] + [1] * (x.ndim - 2)
