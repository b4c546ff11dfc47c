import pytest
import torch
from torch import nn

from hsearch.errors import ConfigError
from hsearch.models.embedder import Embedder
from hsearch.spec import ModelSpec

FIXED = {"dynamic_img_size": False}


def spec(batch_norm="synchronised", backbone="test_resnet", **values):
    values = {"weights": "random", "embedding_dim": 16, **values}
    return ModelSpec(backbone=backbone, batch_norm=batch_norm, **values)


def norms(network):
    return [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


@pytest.mark.parametrize(
    ("values", "features", "shape"),
    [
        ({}, "vector", (16,)),
        ({"pooling": "avg+max", "head": "mlp"}, "vector", (16,)),
        ({"head": "none", "embedding_dim": 96}, "vector", (96,)),
        ({}, "map", (96, 2, 2)),
        ({"backbone": "test_vit", "backbone_args": {"img_size": 64}}, "map", (64, 16, 1)),
        (
            {"backbone": "test_vit", "backbone_args": {"img_size": 64}, "pooling": "token"},
            "vector",
            (16,),
        ),
    ],
)
def test_feature_shape_is_that_of_the_output(values, features, shape):
    embedder = Embedder(spec(**values), seed=0, features=features)
    assert embedder.feature_shape(64) == shape
    assert embedder.training
    assert embedder(torch.rand(3, 3, 64, 64)).shape == (3, *shape)


def trained(embedder):
    parts = embedder.backbone.network.named_parameters()
    return {name.split(".")[0] for name, parameter in parts if parameter.requires_grad}


def test_frozen_parts_stay_frozen_when_the_rest_is_trained():
    assert trained(Embedder(spec(), seed=0)) == {
        *("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")
    }
    embedder = Embedder(spec(frozen=("conv1", "bn1", "layer1")), seed=0)
    assert trained(embedder) == {"layer2", "layer3", "layer4"}
    embedder.train_backbone(False)
    assert trained(embedder) == set()
    embedder.train_backbone(True)
    assert trained(embedder) == {"layer2", "layer3", "layer4"}
    assert all(p.requires_grad for n, p in embedder.named_parameters() if n.startswith("head."))
    inner = Embedder(spec(frozen=("layer1.0.conv1",)), seed=0)
    assert inner.backbone is not None
    assert not inner.backbone.network.layer1[0].conv1.weight.requires_grad
    assert inner.backbone.network.layer1[0].conv2.weight.requires_grad


def test_a_frozen_part_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match="names 'layer', which the backbone does not have; valid"):
        Embedder(spec(frozen=("layer",)), seed=0)
    with pytest.raises(ConfigError, match="Did you mean 'layer1'"):
        Embedder(spec(frozen=("layer11",)), seed=0)


def test_an_impossible_image_size_ends_in_a_sentence():
    with pytest.raises(ConfigError, match=r"cannot take images of 96 pixels .*img_size"):
        Embedder(spec(backbone="test_vit", backbone_args=FIXED), seed=0).feature_shape(96)


def test_the_output_is_the_head_of_the_pooled_features():
    embedder = Embedder(spec(pooling="avg+max"), seed=0).eval()
    images = torch.rand(2, 3, 64, 64)
    assert embedder.backbone is not None
    maps = embedder.backbone(images)
    pooled = maps.mean(dim=(2, 3)) + maps.amax(dim=(2, 3))
    assert embedder.head is not None
    torch.testing.assert_close(embedder(images), embedder.head(pooled))


def test_weights_follow_from_the_seed():
    first, again, other = (Embedder(spec(), seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.0.weight"], other["head.0.weight"])


@pytest.mark.parametrize("backbone", ["test_resnet", "test_efficientnet"])
def test_frozen_batch_norm_keeps_its_statistics_and_trains_scale_and_shift(backbone):
    embedder = Embedder(spec("frozen", backbone), seed=0)
    images = torch.rand(4, 3, 64, 64)
    expected = embedder.eval()(images)
    before = {name: value.clone() for name, value in embedder.named_buffers()}
    embedder.train()
    assert embedder.training
    assert not any(module.training for module in norms(embedder))
    output = embedder(images)
    output.square().sum().backward()
    torch.testing.assert_close(output, expected)
    assert all(torch.equal(value, before[name]) for name, value in embedder.named_buffers())
    assert all(parameter.grad is not None for parameter in embedder.parameters())
    assert any(norm.weight.grad.any() and norm.bias.grad.any() for norm in norms(embedder))


@pytest.mark.parametrize("backbone", ["test_resnet", "test_efficientnet"])
def test_synchronised_on_one_rank_is_plain_batch_norm_to_the_bit(backbone):
    images = torch.rand(4, 3, 64, 64)
    results = []
    for batch_norm in ("trained", "synchronised"):
        embedder = Embedder(spec(batch_norm, backbone), seed=0).train()
        output = embedder(images)
        output.square().sum().backward()
        gradients = [parameter.grad for parameter in embedder.parameters()]
        results.append([output, *gradients, *embedder.state_dict().values()])
    assert all(torch.equal(plain, ours) for plain, ours in zip(*results, strict=True))


def test_trained_batch_norm_moves_and_evaluation_does_not():
    embedder = Embedder(spec("trained"), seed=0)
    tracked = norms(embedder)[0].running_mean
    start = tracked.clone()
    embedder.eval()(torch.rand(4, 3, 64, 64))
    assert torch.equal(tracked, start)
    embedder.train()(torch.rand(4, 3, 64, 64))
    assert not torch.equal(tracked, start)
