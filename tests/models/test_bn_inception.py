"""The figures below were checked against pretrainedmodels 0.7.4, whose names and outputs these are.

There, in eval mode with random weights and statistics, both networks gave the same bits for images
of 96, 161, 224 and 227 pixels, in float32 and float64.
"""

import hashlib
from pathlib import Path

import pytest
import torch
from torch import hub

from hsearch.errors import ConfigError
from hsearch.models.backbone import build_backbone
from hsearch.models.bn_inception import WEIGHTS_FILE, WEIGHTS_URL, BNInception
from hsearch.spec import ModelSpec


@pytest.fixture(scope="module")
def network():
    return BNInception().eval()


def test_names_and_shapes_are_those_of_the_public_weights(network):
    state = network.state_dict()
    listing = "\n".join(f"{name} {tuple(state[name].shape)}" for name in sorted(state))
    assert sum(parameter.numel() for parameter in network.parameters()) == 10_270_240
    assert len(state) == 483
    assert tuple(state["conv1_7x7_s2.weight"].shape) == (64, 3, 7, 7)
    assert tuple(state["conv1_7x7_s2_bn.running_var"].shape) == (64,)
    assert tuple(state["inception_3a_1x1.weight"].shape) == (64, 192, 1, 1)
    assert tuple(state["inception_4e_double_3x3_2.weight"].shape) == (256, 256, 3, 3)
    assert tuple(state["inception_5b_pool_proj.bias"].shape) == (128,)
    assert "inception_3c_1x1.weight" not in state
    assert "inception_4e_pool_proj.weight" not in state
    assert hashlib.sha256(listing.encode()).hexdigest() == (
        "95b85597682195250ec3e27a848619c0afc640dd3bf71e0012238fb9cb3ba477"
    )


@pytest.mark.parametrize("size", [224, 227])
def test_features_have_one_fixed_shape(network, size):
    with torch.inference_mode():
        features = network.forward_features(torch.rand(1, 3, size, size))
    assert features.shape == (1, BNInception.num_features, 7, 7)


def scattered(shape):
    """Numbers in -0.5..0.5 without a pattern, the same on every machine."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count, dtype=torch.float64).sin() * 43758.5453) % 1 - 0.5).view(shape)


def test_output_equals_the_one_recorded_from_the_peer():
    network = BNInception().eval().double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.ndim == 4:
                parameter.copy_(scattered(parameter.shape) * (24 / parameter[0].numel()) ** 0.5)
            else:
                parameter.fill_(1.0 if name.endswith("_bn.weight") else 0.0)
    with torch.inference_mode():
        features = network.forward_features(scattered((1, 3, 64, 64)))
    recorded = torch.tensor([0.434853688, 0.042711799, 0.0, 0.190748851], dtype=torch.float64)
    torch.testing.assert_close(features[0, [0, 400, 700, 1000], 0, 1], recorded, rtol=0, atol=1e-6)
    assert features.mean().item() == pytest.approx(0.100327865930745, abs=1e-6)


def test_a_weights_file_loads_without_its_classifier(network, tmp_path):
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    state |= {"module.last_linear.weight": torch.ones(1000, 1024)}
    # The oldest public file keeps a leading axis of length 1 on everything of batch norm.
    state = {name: v[None] if "_bn." in name and v.ndim else v for name, v in state.items()}
    torch.save(state, tmp_path / WEIGHTS_FILE)
    spec = ModelSpec(backbone="bn_inception", weights=str(tmp_path / WEIGHTS_FILE))
    backbone = build_backbone(spec, seed=1)
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        assert torch.equal(backbone.eval()(images), network.forward_features(images))


def test_pretrained_without_network_names_the_file_and_its_address(tmp_path, offline):
    with pytest.raises(ConfigError) as error:
        build_backbone(ModelSpec(backbone="bn_inception"), seed=0)
    assert WEIGHTS_URL in str(error.value)
    assert f"--set model.weights={WEIGHTS_FILE}" in str(error.value)
    assert not list(tmp_path.rglob("*.pth"))


def test_pretrained_reads_the_file_in_the_cache_of_torch(network, offline):
    path = Path(hub.get_dir()) / "checkpoints" / WEIGHTS_FILE
    path.parent.mkdir(parents=True)
    torch.save(network.state_dict(), path)
    own = build_backbone(ModelSpec(backbone="bn_inception"), seed=0).network.state_dict()
    assert all(torch.equal(own[name], value) for name, value in network.state_dict().items())


def test_it_takes_no_arguments():
    spec = ModelSpec(backbone="bn_inception", weights="random", backbone_args={"depth": 3})
    with pytest.raises(ConfigError, match="takes no"):
        build_backbone(spec, seed=0)
