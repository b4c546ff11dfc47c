"""The optimiser of a job: its parameter groups, learning rates and gradient clipping."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from hsearch.errors import ConfigError, did_you_mean
from hsearch.methods import Method, available_methods, load_method
from hsearch.spec import OptimizerSpec, ScheduleSpec

if TYPE_CHECKING:
    from hsearch.models.embedder import Embedder  # a search, which needs rates, is spared timm


def build_optimizer(spec: OptimizerSpec, embedder: "Embedder", method: Method) -> Optimizer:
    """Returns the optimiser with one parameter group per name: backbone, head, and the method's.

    Each group carries its `name`, its weight decay and its `base_lr`, the rate before the schedule.
    """
    groups = {"backbone": embedder.trained_by_regime()}
    groups["head"] = [] if embedder.head is None else list(embedder.head.parameters())
    for name, parameters in method.parameter_groups().items():
        groups.setdefault(name, []).extend(parameters)
    rates, decays = learning_rates(spec, type(method)), weight_decays(spec, type(method))
    arguments = [
        {
            "params": parameters,
            "name": name,
            "lr": rates[name],
            "base_lr": rates[name],
            "weight_decay": decays[name],
        }
        for name, parameters in groups.items()
        if parameters
    ]
    match spec.name:
        case "adam":
            return torch.optim.Adam(arguments, eps=spec.eps)
        case "adamw":
            return torch.optim.AdamW(arguments, eps=spec.eps)
        case "rmsprop":
            return torch.optim.RMSprop(arguments, eps=spec.eps, momentum=spec.momentum)
        case "sgd":
            return torch.optim.SGD(arguments, momentum=spec.momentum, nesterov=spec.nesterov)


def learning_rates(spec: OptimizerSpec, method: type[Method]) -> dict[str, float]:
    """Returns the learning rate of every group of a job.

    `head` falls back on `backbone`, a method's group on `backbone` times its published factor.
    Rates of groups that only other methods have are not used: recipes serve all methods.
    """
    _check_groups("lr", spec.lr)
    base = spec.lr["backbone"]
    rates = {"backbone": base, "head": base}
    rates |= {name: base * factor for name, factor in method.groups.items()}
    return {name: spec.lr.get(name, rate) for name, rate in rates.items()}


def weight_decays(spec: OptimizerSpec, method: type[Method]) -> dict[str, float]:
    """Returns the weight decay of every group of a job; all fall back on `backbone`."""
    given = spec.weight_decay
    if not isinstance(given, dict):
        given = {"backbone": given}
    _check_groups("weight_decay", given)
    return {
        name: given.get(name, given["backbone"]) for name in ("backbone", "head", *method.groups)
    }


def _check_groups(setting: str, given: Iterable[str]) -> None:
    known = {"backbone", "head"}.union(*(load_method(name).groups for name in available_methods()))
    for name in given:
        if name not in known:
            raise ConfigError(
                f"Unknown group 'optimizer.{setting}.{name}'; {did_you_mean(name, known)}"
            )


def lr_factor(schedule: ScheduleSpec, epochs: float) -> float:
    """Returns the factor of all learning rates after so many epochs, the running one in part."""
    rise = schedule.rate_warmup_epochs
    if epochs < rise:
        first = schedule.rate_warmup_from
        return first + (_decay(schedule, rise) - first) * epochs / rise
    return _decay(schedule, epochs)


def _decay(schedule: ScheduleSpec, epochs: float) -> float:
    waiting = 0 if schedule.warmup_counts else schedule.warmup_epochs
    done = max(0.0, epochs - waiting)
    match schedule.lr:
        case "constant":
            return 1.0
        case "cosine":
            return _cosine(1.0, schedule.final_factor, done / schedule.epochs)
        case "one_cycle":
            share, rise = done / schedule.epochs, schedule.cycle_rise
            if share < rise:
                return _cosine(schedule.cycle_from, 1.0, share / rise)
            return _cosine(1.0, schedule.final_factor, (share - rise) / (1 - rise))
        case "step":
            steps = int(done) // schedule.step_epochs
        case "milestones":
            steps = sum(done >= milestone for milestone in schedule.milestones)
    return float(schedule.step_factor**steps)


def _cosine(first: float, last: float, share: float) -> float:
    """The value after a share of the way from one to another, on half a cosine."""
    return last + (first - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


def set_learning_rates(optimizer: Optimizer, factor: float) -> None:
    """Sets every group's rate to its base rate times the factor."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor


def clip_gradients(spec: OptimizerSpec, parameters: Iterable[nn.Parameter]) -> None:
    """Clips gradients in place, first every entry, then the norm of all, as the spec says."""
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
    if spec.clip_value is not None:
        nn.utils.clip_grad_value_(with_gradient, spec.clip_value)
    if spec.clip_norm is not None:
        nn.utils.clip_grad_norm_(with_gradient, spec.clip_norm)


def forget_moments(optimizer: Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Drops the optimiser's state of parameters that were overwritten."""
    for parameter in parameters:
        optimizer.state.pop(parameter, None)
