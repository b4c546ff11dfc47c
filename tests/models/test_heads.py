import pytest
import torch
from torch import nn

from hsearch.errors import ConfigError
from hsearch.models.heads import build_head, pool
from hsearch.spec import ModelSpec


def spec(**values):
    return ModelSpec(backbone="test_resnet", **values)


def test_pooling_follows_its_formulas():
    features = torch.randn(2, 5, 3, 4)
    largest = torch.stack([torch.stack([c.max() for c in image]) for image in features])
    mean = torch.stack([torch.stack([c.sum() / 12 for c in image]) for image in features])
    torch.testing.assert_close(pool(features, "avg"), mean)
    torch.testing.assert_close(pool(features, "max"), largest)
    torch.testing.assert_close(pool(features, "avg+max"), mean + largest)


@pytest.mark.parametrize("kind", ["avg", "max", "avg+max", "token"])
def test_vectors_pass_the_pooling(kind):
    features = torch.randn(2, 5)
    assert pool(features, kind) is features


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        ("linear", [nn.Linear]),
        ("layernorm-linear", [nn.LayerNorm, nn.Linear]),
        ("mlp", [nn.Linear, nn.ReLU, nn.Linear]),
    ],
)
def test_heads_have_their_layers(kind, layers):
    head = build_head(spec(head=kind, embedding_dim=7), 12, seed=0)
    assert [type(layer) for layer in head.children()] == layers
    assert head(torch.randn(3, 12)).shape == (3, 7)


def test_the_layer_norm_has_no_parameters_and_the_hidden_layer_is_as_wide_as_the_features():
    normed = build_head(spec(head="layernorm-linear", embedding_dim=7), 12, seed=0)
    assert [name for name, _ in normed.named_parameters()] == ["1.weight", "1.bias"]
    mlp = build_head(spec(head="mlp", embedding_dim=7), 12, seed=0)
    assert [tuple(p.shape) for p in mlp.parameters()] == [(12, 12), (12,), (7, 12), (7,)]


def test_no_head_keeps_the_features():
    features = torch.randn(3, 12)
    assert build_head(spec(head="none", embedding_dim=12), 12, seed=0)(features) is features
    with pytest.raises(ConfigError, match="must be 12, but got 128"):
        build_head(spec(head="none"), 12, seed=0)


def test_a_layer_norm_alone_keeps_the_width():
    features = torch.randn(3, 12)
    head = build_head(spec(head="layernorm", embedding_dim=12), 12, seed=0)
    torch.testing.assert_close(head(features), nn.functional.layer_norm(features, (12,)))
    with pytest.raises(ConfigError, match=r"`model.head: layernorm` keeps"):
        build_head(spec(head="layernorm"), 12, seed=0)


def weight(**values):
    head = build_head(spec(embedding_dim=64, **values), 256, seed=4)
    layer = [layer for layer in head.children() if isinstance(layer, nn.Linear)][-1]
    return layer.weight.detach(), layer.bias.detach()


def test_initialisations():
    orthogonal, bias = weight(head_init="orthogonal")
    torch.testing.assert_close(orthogonal @ orthogonal.T, torch.eye(64), atol=1e-5, rtol=0)
    assert not bias.any()
    kaiming, bias = weight(head_init="kaiming")
    assert kaiming.std().item() == pytest.approx((2 / 64) ** 0.5, rel=0.03)  # fan out
    assert not bias.any()
    default, bias = weight()
    assert default.abs().max().item() <= 1 / 16  # uniform within 1 / sqrt(fan in)
    assert bias.any()


@pytest.mark.parametrize("init", ["default", "kaiming", "orthogonal"])
def test_weights_follow_from_the_seed_and_leave_the_global_state(init):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = build_head(spec(head="mlp", head_init=init), 128, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = build_head(spec(head="mlp", head_init=init), 128, seed=7)
    other = build_head(spec(head="mlp", head_init=init), 128, seed=8)
    for mine, same, different in zip(
        first.parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(mine, same)
        assert mine.ndim == 1 or not torch.equal(mine, different)


@pytest.mark.parametrize("init", ["kaiming", "orthogonal"])
def test_the_layers_of_one_head_differ(init):
    hidden, _, last = build_head(spec(head="mlp", head_init=init), 128, seed=7).children()
    assert isinstance(hidden, nn.Linear)
    assert isinstance(last, nn.Linear)
    assert not torch.allclose(hidden.weight, last.weight)
