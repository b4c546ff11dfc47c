"""Pretrained weights without a network."""

import os

import pytest
import timm
import torch
from safetensors.torch import save_file

from hsearch.addresses import read_folder
from hsearch.cluster.crew import _passed_on
from hsearch.data.objects import Objects
from hsearch.errors import ConfigError
from hsearch.models.backbone import build_backbone
from hsearch.spec import ModelSpec
from hsearch.training.pretrained import (
    check_network,
    find_weights,
    local_weights,
    weights_at_hand,
)
from hsearch.training.score import job_network
from hsearch.training.setup import open_job_store
from tests.models.conftest import offline  # noqa: F401
from tests.shared_data import shared_data

pytestmark = pytest.mark.usefixtures("offline")
NAME = "test_vit.r160_in1k"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that HSEARCH_WEIGHTS names, with weights of a tiny transformer without its tag."""
    path = tmp_path / "weights"
    path.mkdir()
    torch.manual_seed(1)
    state = timm.create_model("test_vit", num_classes=0).state_dict()
    save_file(state, path / "test_vit.safetensors")
    monkeypatch.setenv("HSEARCH_WEIGHTS", str(path))
    return path


def test_the_name_with_its_tag_goes_before_the_one_without(folder):
    assert find_weights(NAME) == folder / "test_vit.safetensors"
    (folder / f"{NAME}.safetensors").write_bytes(b"")
    assert find_weights(NAME) == folder / f"{NAME}.safetensors"
    (folder / "test_vit.safetensors").unlink()
    assert find_weights("test_vit") == folder / f"{NAME}.safetensors", "the tag that timm takes"
    assert find_weights("test_resnet") is None


def test_a_network_has_the_weights_of_the_folder_and_its_spec_no_path(folder):
    spec = ModelSpec(backbone=NAME, pooling="token")
    network = build_backbone(local_weights(spec), seed=0).network
    torch.manual_seed(1)
    expected = timm.create_model("test_vit", num_classes=0).state_dict()["pos_embed"]
    assert torch.equal(network.pos_embed, expected)
    assert spec.weights == "pretrained"
    random = ModelSpec(backbone=NAME, weights="random")
    assert local_weights(random) == random


def test_weights_for_larger_images_fit_as_timm_fits_them(folder):
    spec = ModelSpec(backbone=NAME, backbone_args={"img_size": 64}, pooling="token")
    ours = build_backbone(local_weights(spec), seed=0).network.state_dict()
    file = {"file": str(folder / "test_vit.safetensors"), "hf_hub_id": None, "url": ""}
    theirs = timm.create_model(
        "test_vit", num_classes=0, img_size=64, pretrained=True, pretrained_cfg_overlay=file
    ).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_job_trains_from_the_folder_and_keeps_its_digest(folder, toy_job):
    settings = {
        "model__backbone": NAME,
        "model__weights": "pretrained",
        "model__pooling": "token",
        "image__resize": 160,
        "image__crop": 160,
    }
    job = toy_job("proxy_nca", **settings)
    assert job.training.model.weights == "pretrained"
    step = job_network(job, open_job_store(job))
    torch.manual_seed(1)
    expected = timm.create_model("test_vit", num_classes=0).state_dict()["pos_embed"]
    assert step.embedder.backbone is not None
    assert torch.equal(step.embedder.backbone.network.pos_embed.cpu(), expected)


def test_weights_at_an_address_are_fetched_once_per_machine(folder, monkeypatch, s3_server):
    address = s3_server.uri("bucket/weights")
    objects = Objects(read_folder(address))
    objects.put("test_vit.safetensors", folder / "test_vit.safetensors")
    monkeypatch.setenv("HSEARCH_WEIGHTS", address)
    path = find_weights(NAME)
    assert path is not None
    assert path.read_bytes() == (folder / "test_vit.safetensors").read_bytes()
    objects.remove("test_vit.safetensors")
    assert find_weights(NAME) == path, "no server is asked again"
    assert find_weights("test_resnet") is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read as weights"),
        ("test_vit2", "must fit the backbone exactly"),
        (None, "are not on this machine and could not be downloaded"),
    ],
)
def test_weights_that_do_not_fit_are_a_sentence_before_anything_starts(folder, content, sentence):
    path = folder / "test_vit.safetensors"
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        save_file(timm.create_model(content, num_classes=0).state_dict(), path)
    with pytest.raises(ConfigError) as caught:
        check_network(ModelSpec(backbone=NAME))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_sentence_about_missing_weights_says_which_file_to_put_where(folder):
    with pytest.raises(ConfigError) as caught:
        check_network(ModelSpec(backbone="resnet18.tv_in1k"))
    assert "as resnet18.tv_in1k.safetensors in the folder that HSEARCH_WEIGHTS names" in str(
        caught.value
    )


def test_a_folder_that_is_not_there_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("HSEARCH_WEIGHTS", str(tmp_path / "no"))
    with pytest.raises(ConfigError, match="HSEARCH_WEIGHTS must be a folder"):
        check_network(ModelSpec(backbone=NAME))
    check_network(ModelSpec(backbone="nothing", weights="random"))


def test_workers_are_told_where_the_weights_lie(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSEARCH_WEIGHTS", "weights")
    assert _passed_on()["HSEARCH_WEIGHTS"] == str(tmp_path / "weights")
    monkeypatch.setenv("HSEARCH_WEIGHTS", "s3://bucket/weights")
    assert _passed_on()["HSEARCH_WEIGHTS"] == "s3://bucket/weights"
    monkeypatch.delenv("HSEARCH_WEIGHTS")
    assert "HSEARCH_WEIGHTS" not in _passed_on()


def test_whether_weights_are_at_hand(folder):
    assert weights_at_hand(ModelSpec(backbone=NAME))
    assert not weights_at_hand(ModelSpec(backbone="resnet18.tv_in1k"))
    assert not weights_at_hand(ModelSpec(backbone="bn_inception"))
    (folder / "bn_inception-52deb4733.pth").write_bytes(b"")
    assert weights_at_hand(ModelSpec(backbone="bn_inception"))


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "tf_efficientnet_lite0.in1k"])
def test_real_weights_are_found_by_both_names(monkeypatch, name):
    path = shared_data("weights/tf_efficientnet_lite0.safetensors")
    monkeypatch.setenv("HSEARCH_WEIGHTS", os.fspath(path.parent))
    assert find_weights(name) == path
    check_network(ModelSpec(backbone=name))
