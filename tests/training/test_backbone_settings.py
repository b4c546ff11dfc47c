"""Backbones bring their preprocessing, where neither recipe nor command line gives it."""

import pytest

from hsearch.errors import ConfigError
from hsearch.models.backbone import backbone_defaults
from hsearch.recipes import read_recipe
from hsearch.training.resolve import resolve_training


def training(recipe, method="hpl", **settings):
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return resolve_training(read_recipe(recipe), method, given).training


def test_another_backbone_is_right_by_itself():
    made = training("photos", model__backbone="tf_efficientnet_lite0.in1k")
    assert (made.image.resize, made.image.crop) == (256, 224)
    assert made.image.mean == made.image.std == (0.5, 0.5, 0.5)
    assert made.image.interpolation == "bicubic"
    assert (made.model.pooling, made.model.backbone_args) == ("avg", {})


def test_what_is_given_goes_before_what_the_backbone_brings():
    made = training(
        "photos",
        model__backbone="tf_efficientnet_lite0",
        image__crop=112,
        image__mean=[0.1, 0.2, 0.3],
        model__pooling="max",
    )
    assert (made.image.resize, made.image.crop) == (128, 112), "112 / 0.875"
    assert made.image.mean == (0.1, 0.2, 0.3)
    assert made.image.std == (0.5, 0.5, 0.5)
    assert made.model.pooling == "max"


def test_bn_inception_brings_its_own_channels():
    made = training("photos", model__backbone="bn_inception")
    assert (made.image.channels, made.image.range_max) == ("bgr", 255)
    assert made.image.mean == (104.0, 117.0, 128.0)
    assert (made.image.resize, made.image.crop) == (256, 224)
    back = training("mlrc", model__backbone="resnet50.tv_in1k")
    assert (back.image.channels, back.image.range_max) == ("rgb", 1)
    assert back.image.mean == (0.485, 0.456, 0.406)


def test_a_transformer_of_a_fixed_size_is_told_the_size_of_the_images():
    made = training("photos")
    assert made.model.backbone_args == {"img_size": 224}
    assert made.model.pooling == "token"
    native = training("photos", image__crop=518)
    assert native.model.backbone_args == {}
    paper = training("hier/cub-vit-s", "hier", image__crop=160)
    assert paper.model.backbone_args == {"img_size": 160}
    assert paper.image.resize == 256, "which the recipe gives"


def test_a_network_from_scratch_keeps_the_images_of_the_recipe():
    made = training("small", model__backbone="resnet18")
    assert made.image == training("small").image
    assert made.model.backbone_args == {"output_stride": 8}
    pretrained = training("small", model__backbone="resnet18.tv_in1k", model__weights="pretrained")
    assert (pretrained.image.crop, pretrained.model.backbone_args) == (224, {})
    assert pretrained.image.scale == (0.6, 1.0), "which is the recipe's own"


def test_what_is_unset_follows_from_the_backbone():
    assert training("mlrc", image__crop=None, image__resize=None).image.crop == 224


@pytest.mark.parametrize(
    ("recipe", "backbone", "sentence"),
    [
        ("photos", "resnet5", "There is no backbone called 'resnet5'. Did you mean 'resnet50'?"),
        ("small", "resnet5", "There is no backbone called 'resnet5'"),
        ("photos", "resnet18.tv_in2k", "timm has no pretrained weights for 'resnet18.tv_in2k'"),
    ],
)
def test_a_backbone_that_is_not_there_is_a_sentence(recipe, backbone, sentence):
    with pytest.raises(ConfigError) as caught:
        training(recipe, model__backbone=backbone)
    assert sentence in str(caught.value)


def test_a_backbone_of_an_own_recipe_is_checked_at_once(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: small\nmodel: {backbone: resnet5}\n")
    with pytest.raises(ConfigError, match="no backbone called 'resnet5'"):
        training(str(tmp_path / "mine.yaml"))


@pytest.mark.parametrize("name", ["vit_small_patch14_reg4_dinov2.lvd142m", "resnet50.tv_in1k"])
def test_a_licence_is_known(name):
    assert backbone_defaults(name).licence in ("apache-2.0", "bsd-3-clause")


def test_settings_of_a_recipe_that_a_method_has_no_use_for_are_left_out_with_a_note(tmp_path):
    text = (
        "extends: small\n"
        "optimizer: {lr: {proxies: 0.1}, weight_decay: {backbone: 0.1, proxies: 0.0}}\n"
        "stages: {first: {share: 0.5, method: {coarse_weight: 0.5}}}\n"
    )
    (tmp_path / "mine.yaml").write_text(text)
    mine = read_recipe(str(tmp_path / "mine.yaml"))
    assert resolve_training(mine, "hpl", {}).notes == ()
    made = resolve_training(mine, "triplet", {})
    assert made.notes == (
        "Left out of the recipe, as triplet has no use for it: stages.first.method.coarse_weight.",
        "Left out of the recipe, as triplet has no use for it: optimizer.lr.proxies, "
        "optimizer.weight_decay.proxies.",
    )
    assert made.training.stages["first"].method == {}
    with pytest.raises(ConfigError, match="triplet has no group 'proxies'"):
        resolve_training(mine, "triplet", {"optimizer.lr.proxies": 0.1})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("methods: {hpl: {method.num_corse: 3}}", "mine.yaml:2: .*num_corse.*num_coarse"),
        ("methods: {hpl: {method.num_coarse: 0}}", "mine.yaml:2: `num_coarse` of hpl must be"),
        ("methods: {hpl: {epochs: 0}}", "mine.yaml:2: Unknown setting 'epochs'"),
        ("optimizer: {lr: {proxis: 1.0}}", "mine.yaml:2: Unknown group 'optimizer.lr.proxis'"),
    ],
)
def test_faults_of_an_own_recipe_for_a_method_name_the_file(tmp_path, text, sentence):
    (tmp_path / "mine.yaml").write_text(f"extends: small\n{text}\n")
    with pytest.raises(ConfigError, match=sentence):
        training(str(tmp_path / "mine.yaml"))


def test_a_recipes_settings_by_method_go_between_the_methods_wish_and_the_command_line(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "extends: small\nmethods: {simclr: {batch.sampler: hard, method.temperature: 0.2}}\n"
    )
    path = str(tmp_path / "mine.yaml")
    assert training("small", "simclr").batch.sampler == "shuffle"
    assert training(path, "simclr").batch.sampler == "hard"
    assert training(path, "simclr", batch__sampler="unique_class").batch.sampler == "unique_class"
    assert training(path, "supcon").batch.sampler == "m_per_class"
    made = resolve_training(read_recipe(path), "simclr", {})
    assert made.knobs["temperature"] == 0.2
    made = resolve_training(read_recipe(path), "simclr", {"method.temperature": 0.3})
    assert made.knobs["temperature"] == 0.3
