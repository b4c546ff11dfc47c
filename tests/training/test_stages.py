"""A training of several stages goes on where it was interrupted, and each stage is its own."""

from itertools import pairwise

import pytest
import torch

from hsearch.errors import ConfigError
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.optimizer import learning_rates, lr_factor
from hsearch.training.setup import load_fold
from tests.training.runs import (
    Interrupt,
    StoppedError,
    begin,
    checkpoints,
    outcome,
    train_steps,
)

SHORT = {"schedule__epochs": 4, "schedule__iterations_per_epoch": 2}
FIRST = {
    "share": 0.5,
    "optimizer__name": "sgd",
    "optimizer__lr__backbone": 0.02,
    "batch__size": 8,
}
HALVES = {
    "mulcon": SHORT | {f"stages__classify__{key}": value for key, value in FIRST.items()},
    "proxy_anchor": SHORT | {f"stages__first__{key}": value for key, value in FIRST.items()},
}
MOMENTS = [(2, 1), (2, None), (3, 1), (4, 2)]
"""In the first stage, between the stages, in the first and in the last epoch of the second."""


@pytest.mark.parametrize("ema", [None, 0.9])
@pytest.mark.parametrize("method", HALVES)
def test_interrupted_and_resumed_equals_uninterrupted(method, ema, toy_job, tmp_path):
    job = toy_job(method, **HALVES[method], optimizer__ema=ema)
    train_locally(job, Report(), tmp_path / "whole")
    whole = outcome(tmp_path / "whole")
    assert any(key.startswith("average.") for _, key in whole[1]) == (ema is not None)
    for number, moment in enumerate(MOMENTS):
        broken = tmp_path / f"broken-{number}"
        with pytest.raises(StoppedError):
            train_locally(job, Interrupt(*moment), broken)
        train_locally(job, Report(), broken)
        assert outcome(broken) == whole, moment


def test_a_stage_begins_with_the_average_of_the_last_one_and_a_new_optimiser(toy_job):
    settings = {"method__update_period": 2, "optimizer__name": "adam", "optimizer__ema": 0.9}
    job = toy_job("hpl", stages__first__share=0.5, **settings)
    data, (_, second) = load_fold(job), job.stages()
    first = begin(job, data)
    train_steps(first, 1, 4)
    torch.randperm(3, generator=first.step.method.generator)  # as a method that draws
    assert first.average is not None
    before, state = dict(first.average.state()), first.step.method.state_dict()
    assert any(not torch.equal(before[n], p) for n, p in first.step.named_parameters())
    clusters, generator = state["parent_0"].clone(), state["_extra_state"].clone()

    following = first.follow(second, data)
    for name, parameter in following.step.named_parameters():
        assert torch.equal(parameter, before[name]), name
    assert first.optimizer.state
    assert not following.optimizer.state
    after = following.step.method.state_dict()
    assert torch.equal(after["parent_0"], clusters)
    assert torch.equal(after["_extra_state"], generator)
    assert following.average is not None
    assert following.average.updates == 0


def test_without_an_average_a_stage_begins_with_the_weights_of_the_last_one(toy_job):
    job = toy_job("hpl", stages__first__share=0.5)
    data, (_, second) = load_fold(job), job.stages()
    first = begin(job, data)
    train_steps(first, 1, 2)
    before = {name: tensor.clone() for name, tensor in first.step.state_dict().items()}
    for name, tensor in first.follow(second, data).step.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_a_knob_of_a_stage_is_the_methods_own_again_after_it(toy_job, tmp_path):
    job = toy_job("mulcon", **SHORT)
    assert [stage.job.method.knobs["gamma"] for stage in job.stages()] == [0.0, 0.1]
    _, kept = checkpoints(job, tmp_path / "run")
    name = "model.method.projector.0.weight"
    moved = [not torch.equal(a[name], b[name]) for a, b in pairwise(kept)]
    assert moved == [False, False, True, True]


def test_every_stage_has_batches_of_its_own_size_and_views(toy_job):
    job = toy_job("mulcon", **HALVES["mulcon"])
    data, (_, second) = load_fold(job), job.stages()
    first = begin(job, data)
    images = [tools.batches.epoch(1, 1) for tools in (first, first.follow(second, data))]
    assert [len(next(iter(epoch)).images) for epoch in images] == [8, 2 * 16]


def test_every_stage_has_a_cycle_and_rates_of_its_own(toy_job, tmp_path):
    job = toy_job(
        "proxy_anchor", **HALVES["proxy_anchor"], schedule__lr="one_cycle", optimizer__name="sgd"
    )
    history = train_locally(job, Report(), tmp_path / "run").history
    for stage in job.stages():
        training = stage.job.training
        assert training.schedule.epochs == 2
        base = learning_rates(
            training.optimizer, type(begin(stage.job, load_fold(job)).step.method)
        )
        for done, epoch in enumerate(stage.epochs):
            factor = lr_factor(training.schedule, done + 0.5)  # of the second of two iterations
            assert history[epoch].lr == {name: rate * factor for name, rate in base.items()}
    assert history[1].lr["backbone"] == pytest.approx(history[3].lr["backbone"] * 0.02 / 0.01)


def test_the_warm_up_of_a_stage_begins_with_the_stage(toy_job, tmp_path):
    job = toy_job(
        "proxy_anchor",
        **HALVES["proxy_anchor"],
        schedule__warmup_epochs=1,
        stages__first__schedule__warmup_epochs=0,
    )
    _, kept = checkpoints(job, tmp_path / "run")
    backbone = [k for k in kept[0] if k.startswith("model.embedder.backbone") and "weight" in k]
    moved = [
        any(not torch.equal(before[name], after[name]) for name in backbone)
        for before, after in pairwise(kept)
    ]
    assert moved == [True, True, False, True]


@pytest.mark.parametrize(
    ("patience", "scores", "epochs", "best"),
    [
        (1, [0.6, 0.5, 0.4, 0.3, 0.2], 5, 4),  # never one of the first stage
        (2, [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], 6, 4),
        (1, [0.6, 0.5, 0.4, 0.7, 0.8, 0.9], 6, 6),
        (1, [0.6, 0.5, 0.4, 0.7, 0.6], 5, 4),
    ],
)
def test_patience_and_the_best_epoch_are_of_the_last_stage_alone(
    toy_job, tmp_path, monkeypatch, patience, scores, epochs, best
):
    made = iter([{"map_at_r": score} for score in (0.1, *scores)])
    monkeypatch.setattr(
        "hsearch.training.validation.retrieval_metrics", lambda *_, **__: next(made)
    )
    settings = {"schedule__epochs": 6, "schedule__iterations_per_epoch": 1}
    job = toy_job("proxy_anchor", stages__a__share=0.5, schedule__patience=patience, **settings)
    result = train_locally(job, Report(), tmp_path / "run")
    assert (len(result.history) - 1, result.best_epoch) == (epochs, best)
    assert result.stopped == ("epochs" if epochs == 6 else "patience")


def test_a_stage_has_its_own_pauses_between_validations(toy_job, tmp_path):
    settings = {"schedule__epochs": 5, "schedule__iterations_per_epoch": 1}
    job = toy_job("proxy_nca", stages__a__share=0.6, stages__a__schedule__eval_every=2, **settings)
    result = train_locally(job, Report(), tmp_path / "run")
    scored = [record.epoch for record in result.history if record.validation]
    assert scored == [0, 2, 4, 5]


def test_a_batch_that_a_later_stage_cannot_draw_is_found_at_once(toy_job, tmp_path):
    job = toy_job("proxy_nca", batch__size=400, stages__a__share=0.5, stages__a__batch__size=16)
    with pytest.raises(ConfigError, match=r"must not exceed the \d+ training images"):
        train_locally(job, Report(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_batches_of_every_stage_must_divide_among_the_workers(toy_job, tmp_path):
    job = toy_job("bce", stages__a__share=0.5, stages__a__batch__size=15)
    with pytest.raises(ConfigError, match="but got 15 and 2"):
        train_locally(job, Report(), tmp_path / "run", workers=2)
