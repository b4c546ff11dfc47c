"""Parameter groups, learning rates, schedules and clipping."""

import math

import pytest
import torch
from torch import nn

from hsearch.errors import ConfigError
from hsearch.methods import load_method
from hsearch.spec import OptimizerSpec, ScheduleSpec
from hsearch.training.optimizer import (
    build_optimizer,
    clip_gradients,
    forget_moments,
    learning_rates,
    lr_factor,
    set_learning_rates,
    weight_decays,
)
from hsearch.training.setup import build_step, load_fold


@pytest.fixture
def step(toy_job):
    job = toy_job("hpl")
    return build_step(job, load_fold(job).hierarchy, torch.device("cpu"))


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "sgd"])
def test_every_parameter_is_in_one_group_with_its_rate(step, name):
    spec = OptimizerSpec(name=name, lr={"backbone": 0.1, "head": 0.2, "proxies": 0.3})
    optimizer = build_optimizer(spec, step.embedder, step.method)
    rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates == {"backbone": 0.1, "head": 0.2, "proxies": 0.3}
    grouped = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in step.parameters())
    step(torch.randn(4, 3, 16, 16), torch.zeros(4, 3, dtype=torch.long)).backward()
    before = [p.detach().clone() for p in step.parameters()]
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, step.parameters(), strict=True)]
    assert sum(moved) > 0.8 * len(moved)  # some biases of dead units have no gradient


def test_rates_fall_back_on_the_backbone_times_the_published_factor():
    rates = learning_rates(OptimizerSpec(lr={"backbone": 1e-4}), load_method("hpl"))
    assert rates == pytest.approx({"backbone": 1e-4, "head": 1e-4, "proxies": 1e-2})


def test_unknown_group_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean 'proxies'"):
        learning_rates(OptimizerSpec(lr={"backbone": 1.0, "proxis": 1.0}), load_method("hpl"))


def test_weight_decay_for_all_groups_or_by_group(step):
    def decays(value):
        spec = OptimizerSpec(lr={"backbone": 0.1}, weight_decay=value)
        optimizer = build_optimizer(spec, step.embedder, step.method)
        found = {group["name"]: group["weight_decay"] for group in optimizer.param_groups}
        assert found == weight_decays(spec, type(step.method))
        return found

    assert decays(0.3) == {"backbone": 0.3, "head": 0.3, "proxies": 0.3}
    by_group = {"backbone": 0.3, "proxies": 0.0}
    assert decays(by_group) == {"backbone": 0.3, "head": 0.3, "proxies": 0.0}
    with pytest.raises(ConfigError, match=r"Unknown group 'optimizer.weight_decay.proxis'"):
        decays({"backbone": 0.3, "proxis": 0.0})


def factors(epochs=4, parts=2, **settings):
    schedule = ScheduleSpec(epochs=epochs, **settings)
    return [lr_factor(schedule, part / parts) for part in range(epochs * parts)]


def test_constant_step_and_cosine_schedules():
    assert factors() == [1.0] * 8
    assert factors(lr="step", step_epochs=2, step_factor=0.5) == [1.0] * 4 + [0.5] * 4
    cosine = [0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(8)]
    assert factors(lr="cosine") == pytest.approx(cosine)


def test_a_warm_up_that_does_not_count_shifts_the_cosine_and_cuts_off_its_end():
    cosine = [0.1 + 0.9 * value for value in factors(lr="cosine")]
    warm = {"lr": "cosine", "final_factor": 0.1, "warmup_epochs": 1}
    assert factors(**warm) == pytest.approx([1.0, 1.0, *cosine[:6]])
    assert factors(**warm, warmup_counts=True) == pytest.approx(cosine)


def test_milestones():
    found = factors(lr="milestones", milestones=(1, 3), step_factor=0.1)
    assert found == pytest.approx([1.0] * 2 + [0.1] * 4 + [0.01] * 2)
    assert factors(lr="constant", milestones=(1, 3)) == [1.0] * 8  # as with `step_epochs`


def test_a_schedule_counts_from_the_end_of_the_warm_up_or_from_its_start():
    step = {"lr": "step", "step_epochs": 1, "step_factor": 0.5, "warmup_epochs": 2}
    assert factors(parts=1, **step) == [1.0, 1.0, 1.0, 0.5]
    assert factors(parts=1, warmup_counts=True, **step) == [1.0, 0.5, 0.25, 0.125]


def test_rates_rise_linearly_to_where_the_schedule_is_then():
    rise = {"rate_warmup_epochs": 2, "rate_warmup_from": 0.02}
    assert factors(parts=1, **rise) == pytest.approx([0.02, 0.51, 1.0, 1.0])
    cosine = factors(parts=1, lr="cosine", **rise)
    assert cosine == pytest.approx([0.02, 0.26, 0.5, 0.5 * (1 + math.cos(0.75 * math.pi))])


def torch_cycle(steps, **arguments):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, total_steps=steps, cycle_momentum=False, **arguments
    )
    rates = []
    for _ in range(steps):
        rates.append(cycle.get_last_lr()[0])
        optimizer.step()
        cycle.step()
    return rates


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        (
            {"cycle_rise": 0.2, "cycle_from": 0.1, "final_factor": 0.01},
            {"pct_start": 0.2, "div_factor": 10, "final_div_factor": 10},
        ),
    ],
)
def test_one_cycle_is_that_of_torch_up_to_its_steps(ours, theirs):
    found = factors(epochs=10, parts=100, lr="one_cycle", **ours)
    assert found == pytest.approx(torch_cycle(1000, **theirs), abs=0.01)
    assert (found[0], max(found)) == pytest.approx((ours.get("cycle_from", 0.04), 1.0))


def test_one_cycle_rises_and_falls_in_one_epoch_too():
    found = factors(epochs=1, parts=10, lr="one_cycle")
    assert found[0] == pytest.approx(0.04)
    assert found.index(1.0) == 3
    assert found == [*sorted(found[:4]), *sorted(found[4:], reverse=True)]


def test_set_learning_rates_scales_every_group(step):
    spec = OptimizerSpec(lr={"backbone": 0.1, "proxies": 2.0})
    optimizer = build_optimizer(spec, step.embedder, step.method)
    set_learning_rates(optimizer, 0.5)
    set_learning_rates(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.025, 0.5]


def test_clipping_by_value_then_by_norm():
    parameter = nn.Parameter(torch.zeros(2))
    unused = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3.0, -40.0])
    clip_gradients(OptimizerSpec(lr={"backbone": 1.0}, clip_value=4.0), [parameter, unused])
    assert parameter.grad.tolist() == [3.0, -4.0]
    clip_gradients(OptimizerSpec(lr={"backbone": 1.0}, clip_norm=1.0), [parameter, unused])
    torch.testing.assert_close(parameter.grad, torch.tensor([0.6, -0.8]))


def test_overwritten_parameters_lose_their_moments():
    kept, overwritten = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.Adam([kept, overwritten])
    (kept + overwritten).sum().backward()
    optimizer.step()
    forget_moments(optimizer, [overwritten])
    assert set(optimizer.state) == {kept}
