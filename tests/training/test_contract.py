"""What later methods need goes through the training loop already: a made-up method uses it all."""

import pytest
from safetensors.torch import load_file

import hsearch.methods
from hsearch.evaluation.scoring import ScoreOptions, score
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.score import embed_run

SOURCE = '''
"""Probe: two views, a head on the spatial map, two groups, a ball, draws and moving state."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from hsearch.geometry import clip_norm, exp_map_zero, poincare_distances
from hsearch.methods import Method, Setting


class Loss(Method):
    """Pulls the two views of an image together in the ball, around moving anchors.

    Args:
        margin: Of the hinge.

    References:
        None; made up for a test.
    """

    geometry = "poincare"
    features = "map"
    views = 2
    curvature = 0.1
    groups: ClassVar[Mapping[str, float]] = {"head": 1.0, "anchors": 50.0}

    def __init__(self, setting: Setting, *, margin: float = 1.0) -> None:
        super().__init__(setting)
        channels, height, width = setting.feature_shape
        assert (height, width) == (2, 2)
        self.margin = margin
        self.head = nn.Conv2d(channels, setting.embedding_dim, 1)
        with torch.no_grad():
            self.head.weight.normal_(std=0.1, generator=setting.generator)
            self.head.bias.zero_()
        draw = torch.randn(4, setting.embedding_dim, generator=setting.generator)
        self.anchors = nn.Parameter(draw)
        self.register_buffer("moved", torch.zeros((), dtype=torch.long))

    def embed(self, features: Tensor) -> Tensor:
        pooled = self.head(features).mean(dim=(2, 3))
        return exp_map_zero(clip_norm(pooled, 2.3), self.curvature)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        first, second = embeddings.chunk(2)
        assert torch.equal(*labels.chunk(2))
        distances = poincare_distances(first, second, self.curvature)
        noise = torch.rand(len(distances), generator=self.generator).to(distances)
        hinge = (distances.diagonal()[:, None] - distances + self.margin).clamp(min=0)
        anchors = exp_map_zero(clip_norm(self.anchors, 2.3), self.curvature)
        pull = poincare_distances(embeddings, anchors, self.curvature).amin(dim=1)
        return (hinge.mean(dim=1) * noise).mean() + 0.1 * pull.mean()

    def step(self, iteration: int):
        self.moved += 1
        return ()

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"head": list(self.head.parameters()), "anchors": [self.anchors]}
'''


@pytest.fixture
def probe(tmp_path, monkeypatch):
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "probe.py").write_text(SOURCE)
    monkeypatch.setattr(hsearch.methods, "__path__", [*hsearch.methods.__path__, str(folder)])
    return "probe"


def test_views_spatial_heads_groups_geometry_draws_and_state(probe, toy_job, tmp_path):
    settings = {
        "image__resize": 16,
        "optimizer__lr__anchors": 0.5,
        "model__embedding_dim": 8,
        "schedule__epochs": 3,
    }
    job = toy_job(probe, **settings)
    result = train_locally(job, Report(), tmp_path / "run")
    assert set(result.history[-1].lr) == {"backbone", "head", "anchors"}
    tensors = load_file(tmp_path / "run" / "last.safetensors")
    assert int(tensors["model.method.moved"]) == 12
    assert "model.method._extra_state" in tensors
    scored = score(embed_run(tmp_path / "run", "validation"), ScoreOptions())
    assert scored["map_at_r"] == pytest.approx(result.score)


def test_its_draws_survive_a_resume(probe, toy_job, tmp_path):
    job = toy_job(probe, schedule__epochs=3, schedule__lr="constant")
    whole = train_locally(job, Report(), tmp_path / "whole")

    class Stop(Report):
        def epoch(self, record):
            if record.epoch == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_locally(job, Stop(), tmp_path / "broken")
    resumed = train_locally(job, Report(), tmp_path / "broken")
    assert [r.loss for r in resumed.history] == [r.loss for r in whole.history]
