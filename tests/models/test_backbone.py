import time

import pytest
import torch

from hsearch.errors import ConfigError
from hsearch.models.backbone import build_backbone
from hsearch.spec import ModelSpec

SWIN = {"img_size": 64, "window_size": 2}


def spec(backbone="test_resnet", **values):
    return ModelSpec(backbone=backbone, **{"weights": "random", **values})


@pytest.mark.parametrize(
    ("given", "size", "shape"),
    [
        (spec("test_resnet"), 32, (96, 1, 1)),
        (spec("test_efficientnet"), 64, (256, 2, 2)),
        (spec("test_vit"), 160, (64, 100, 1)),
        (spec("test_vit", pooling="token"), 160, (64,)),
        (spec("test_vit", backbone_args={"img_size": 32}), 32, (64, 4, 1)),
        (spec("test_mambaout"), 64, (64, 2, 2)),
        (spec("efficientvit_b0"), 64, (128, 2, 2)),
        (spec("swin_tiny_patch4_window7_224", backbone_args=SWIN), 64, (768, 2, 2)),
    ],
    ids=["cnn", "activated_norm", "vit", "vit_token", "vit_small", "nhwc", "own_pooling", "swin"],
)
def test_features_have_channels_first(given, size, shape):
    backbone = build_backbone(given, seed=0).eval()
    with torch.inference_mode():
        features = backbone(torch.rand(2, 3, size, size))
    assert features.shape == (2, *shape)
    assert backbone.num_features == shape[0]


def test_channels_last_networks_keep_their_layout():
    backbone = build_backbone(spec("test_mambaout"), seed=0).eval()
    images = torch.rand(1, 3, 96, 64)
    with torch.inference_mode():
        last = backbone.network.forward_features(images)
        features = backbone(images)
    assert last.shape == (1, 3, 2, 64)
    assert torch.equal(features[0, :, 2, 1], last[0, 2, 1])


def test_a_transformer_gives_its_patches_or_its_token():
    images = torch.rand(2, 3, 160, 160)
    patches = build_backbone(spec("test_vit"), seed=3).eval()
    token = build_backbone(spec("test_vit", pooling="token"), seed=3).eval()
    with torch.inference_mode():
        sequence = patches.network.forward_features(images)
        assert sequence.shape == (2, 101, 64)
        assert torch.equal(patches(images)[..., 0], sequence[:, 1:].transpose(1, 2))
        assert torch.equal(token(images), sequence[:, 0])


def test_random_weights_follow_from_the_seed_and_leave_the_global_state():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = build_backbone(spec(), seed=1).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    again = build_backbone(spec(), seed=1).state_dict()
    other = build_backbone(spec(), seed=2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext", "mobilenetv3_small_050"])
def test_every_parameter_gets_a_gradient(name):
    """Else DistributedDataParallel refuses: some networks of timm keep weights for their head."""
    for seed in range(2):  # what is unused is known when it is built again
        backbone = build_backbone(spec(name), seed)
        backbone(torch.rand(2, 3, 64, 64)).square().sum().backward()
        assert [name for name, p in backbone.named_parameters() if p.grad is None] == []


def test_what_is_unused_depends_on_the_pooling():
    both = {"backbone": "test_vit2", "backbone_args": {"fc_norm": True}}
    pooled, mapped = (
        {name for name, _ in build_backbone(spec(**both, pooling=p), 0).named_parameters()}
        for p in ("token", "avg")
    )
    assert "network.fc_norm.weight" in pooled - mapped


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (spec("resnet5"), "no backbone called 'resnet5'. Did you mean 'resnet50'?"),
        (spec("bninception"), "Did you mean 'bn_inception'?"),
        (spec("qqqqqqqq"), "no backbone called 'qqqqqqqq'. All names"),
        (spec("resnet18.tv_in2k"), "Invalid pretrained tag"),
        (spec(backbone_args={"depht": 3}), "unexpected keyword argument 'depht'"),
        (spec(pooling="token"), "'test_resnet' has none; choose avg, max or avg+max"),
        (spec(weights="pretrainde"), "there is no file pretrainde"),
        (spec("test_mambaout2", weights="pretrained"), "no backbone called 'test_mambaout2'"),
        (spec("resnet18.tv_in2k", weights="pretrained"), "no pretrained weights for"),
    ],
)
def test_a_wrong_setting_ends_in_a_sentence(given, sentence):
    with pytest.raises(ConfigError) as error:
        build_backbone(given, seed=0)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_pretrained_without_network_says_what_to_do_at_once(offline):
    began = time.perf_counter()
    with pytest.raises(ConfigError) as error:
        build_backbone(ModelSpec(backbone="resnet18.tv_in1k"), seed=0)
    assert time.perf_counter() - began < 5
    for remedy in (
        "timm.create_model('resnet18.tv_in1k', pretrained=True)",
        "copy `model.safetensors` of the Hugging Face repository 'timm/resnet18.tv_in1k'",
        "--set model.weights=FILE",
        "--set model.weights=random",
    ):
        assert remedy in str(error.value)


def test_a_backbone_with_several_maps_is_refused():
    with pytest.raises(ConfigError, match="must give one feature map"):
        build_backbone(spec("coat_tiny"), seed=0)
