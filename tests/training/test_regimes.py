"""What of the backbone trains; training from cached features equals training through it."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel

from hsearch import distributed
from hsearch.data.features import Features
from hsearch.data.transforms import network_input
from hsearch.data.views import FixedViews
from hsearch.errors import ConfigError
from hsearch.evaluation.scoring import Embedded
from hsearch.methods import available_methods
from hsearch.results import score_of
from hsearch.spec import FoldJob
from hsearch.training.launch import train_locally
from hsearch.training.loop import PausedError, Report
from hsearch.training.score import embed_run
from hsearch.training.setup import build_batches, build_step, load_fold
from tests.shared_data import shared_data
from tests.training.ranks import on_ranks
from tests.training.runs import outcome
from tests.training.test_ranks import SETTINGS

FROZEN = {"model__regime": "frozen", "image__cached_views": 2}


def real_backbone() -> dict[str, object]:
    """A pretrained network, which takes images as small as the toys enlarged."""
    return {
        "model__backbone": "tf_efficientnet_lite0",
        "model__backbone_args": {},
        "model__weights": str(shared_data("weights/tf_efficientnet_lite0.safetensors")),
        "image__resize": 48,
        "image__crop": 48,
    }


def gradients(job: FoldJob, *, cached: bool, monkeypatch) -> dict[str, torch.Tensor]:
    """Embeddings, loss and gradients of one batch, from the cache or through the backbone."""
    with monkeypatch.context() as patch:
        if not cached:
            patch.setenv("HSEARCH_FEATURES_GB", "0")
        data = load_fold(job)
    assert isinstance(data.inputs, Features if cached else FixedViews)
    step = build_step(job, data.hierarchy, torch.device("cpu"), cached=data.feature_shape)
    step.train()
    (batch,) = build_batches(job, data, step.method.views).epoch(1, 1)
    inputs = network_input(batch.images, job.training.image)
    embeddings = step.embed(inputs)
    loss = step.method(embeddings, batch.labels)
    loss.backward()
    found = {n: p.grad for n, p in step.named_parameters() if p.grad is not None}
    assert found, "something must train"
    return {**found, "embeddings": embeddings.detach(), "loss": loss.detach()}


@pytest.mark.realdata
@pytest.mark.parametrize("method", available_methods())
def test_the_cache_equals_the_real_backbone_for_every_method(method, toy_job, monkeypatch):
    job = toy_job(method, **FROZEN, **real_backbone(), **SETTINGS.get(method, {}))
    through = gradients(job, cached=False, monkeypatch=monkeypatch)
    from_cache = gradients(job, cached=True, monkeypatch=monkeypatch)
    assert through.keys() == from_cache.keys()
    for name, expected in through.items():
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(from_cache[name], expected, rtol=0, atol=1e-5 * scale, msg=name)


@pytest.mark.parametrize("method", ["hpl", "mulcon"])
def test_a_whole_training_is_the_same_with_and_without_room(method, toy_job, tmp_path, monkeypatch):
    job = toy_job(method, **FROZEN, seed=3)
    told = []

    class Told(Report):
        def features(self, done, total):
            told.append((done, total))

    cached = train_locally(job, Told(), tmp_path / "cached")
    monkeypatch.setenv("HSEARCH_FEATURES_GB", "0")
    through = train_locally(job, Report(), tmp_path / "through")
    assert told[-1][0] == told[-1][1]
    for one, other in zip(cached.history[1:], through.history[1:], strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-4)
    assert cached.score == pytest.approx(through.score, abs=1e-3)
    files = [load_file(tmp_path / run / "best.safetensors") for run in ("cached", "through")]
    assert files[0].keys() == files[1].keys()
    assert not any("backbone" in name for name in files[0])


def test_only_head_and_method_train_when_frozen(toy_job, tmp_path):
    job = toy_job("proxy_nca", **FROZEN)
    result = train_locally(job, Report(), tmp_path / "run")
    assert set(result.history[-1].lr) == {"head", "proxies"}
    # Another process finds the network again: its backbone from the spec, the rest in the file.
    seen = embed_run(tmp_path / "run", "test")
    assert isinstance(seen, Embedded)
    assert np.allclose(np.linalg.norm(seen.embeddings, axis=1), 1, atol=1e-5)


def test_training_on_images_as_they_are_evaluated_needs_no_random_views(toy_job, tmp_path):
    job = toy_job("proxy_nca", model__regime="frozen", image__cached_views=0)
    assert train_locally(job, Report(), tmp_path / "run").score is not None


def test_two_views_in_a_batch_need_two_cached_ones(toy_job, tmp_path):
    job = toy_job("simclr", model__regime="frozen", image__cached_views=1)
    with pytest.raises(ConfigError, match=r"`image.cached_views` must be at least 2, but got 1"):
        train_locally(job, Report(), tmp_path / "run")


class PauseAfter(Report):
    def __init__(self, epoch):
        self.last, self.seen = epoch, -1

    def epoch(self, record):
        self.seen = record.epoch

    def must_pause(self):
        return self.seen >= self.last


@pytest.mark.parametrize(
    ("regime", "method"), [("frozen", "hpl"), ("lora", "hpl"), ("lora", "mulcon")]
)
def test_a_training_resumes_bit_for_bit_in_every_regime(regime, method, toy_job, tmp_path):
    job = toy_job(method, model__regime=regime, schedule__epochs=4)
    train_locally(job, Report(), tmp_path / "whole")
    with pytest.raises(PausedError):
        train_locally(job, PauseAfter(2), tmp_path / "broken")
    train_locally(job, Report(), tmp_path / "broken")
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


def test_adapters_alone_train_of_the_backbone(toy_job, tmp_path):
    job = toy_job("proxy_nca", model__regime="lora", model__lora_rank=3)
    step = build_step(job, load_fold(job).hierarchy, torch.device("cpu"))
    assert step.embedder.backbone is not None
    trained = [n for n, p in step.embedder.backbone.named_parameters() if p.requires_grad]
    assert trained
    assert all(".lora_" in name for name in trained)
    result = train_locally(job, Report(), tmp_path / "run")
    assert set(result.history[-1].lr) == {"backbone", "head", "proxies"}
    best = load_file(tmp_path / "run" / "best.safetensors")
    kept = [name for name in best if ".backbone." in name]
    assert all(".lora_" in n or "running" in n or "num_batches" in n for n in kept)
    moved = [tensor for name, tensor in best.items() if "lora_B" in name]
    assert moved
    assert any(bool((tensor != 0).any()) for tensor in moved)
    # The network that is found again scores what the best epoch scored.
    validated = embed_run(tmp_path / "run", "validation")
    assert isinstance(validated, Embedded)
    assert np.isfinite(validated.embeddings).all()


def test_before_training_adapters_change_nothing(toy_job):
    full, lora = toy_job("proxy_nca"), toy_job("proxy_nca", model__regime="lora")
    images = torch.rand(2, 3, 16, 16)
    hierarchy = load_fold(full).hierarchy
    one, other = (build_step(job, hierarchy, torch.device("cpu")).eval() for job in (full, lora))
    torch.testing.assert_close(one.embedder(images), other.embedder(images))


def states(values, iterations):
    """The weights that train after a few steps, and the losses."""
    job = FoldJob.from_dict(values)
    data = load_fold(job)
    step = build_step(job, data.hierarchy, torch.device("cpu"), cached=data.feature_shape)
    step = step.to(torch.float64)
    network = DistributedDataParallel(step) if distributed.world_size() > 1 else step
    trained = [p for p in step.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05)
    losses = []
    step.train()
    for batch in build_batches(job, data, step.method.views).epoch(1, iterations):
        inputs = network_input(batch.images, job.training.image).to(torch.float64)
        loss = network(inputs, batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    kept = {n: t for n, t in step.state_dict().items() if isinstance(t, torch.Tensor)}
    return {**kept, "losses": torch.stack(losses)}


@pytest.mark.parametrize("regime", ["frozen", "lora"])
@pytest.mark.parametrize("method", ["hpl", "supcon"])
def test_two_ranks_equal_one_in_every_regime(regime, method, toy_job):
    job = toy_job(method, model__regime=regime, image__cached_views=3).to_dict()
    one, two = states(job, 4), on_ranks(states, job, 4)
    assert one.keys() == two.keys()
    for name, expected in one.items():
        if expected.is_floating_point():
            torch.testing.assert_close(two[name], expected, rtol=1e-6, atol=1e-9, msg=name)


def test_the_floor_is_told_before_the_first_epoch_and_kept(toy_job, tmp_path):
    events: list[tuple] = []

    class Told(Report):
        def floor(self, folds):
            events.append(("floor", len(folds), folds[1]))

        def epoch(self, record):
            events.append(("epoch", record.epoch))

    job = toy_job("proxy_nca", **FROZEN, fold=1)
    result = train_locally(job, Told(), tmp_path / "run")
    assert [event[0] for event in events[:2]] == ["floor", "epoch"]
    assert events[0][1] == 4
    assert result.floor == events[0][2]
    frozen = score_of(result.floor, job.objective)
    full = train_locally(
        toy_job("proxy_nca", fold=1, model__head="none", model__embedding_dim=96),
        Report(),
        tmp_path / "full",
    )
    assert 0 < frozen < 1
    assert full.floor.keys() == full.untrained.keys()
