"""Every shipped recipe: its network can be built, and its values are those of its paper."""

import json
import math
from pathlib import Path

import pytest
import timm
import torch

from hsearch.methods import available_methods, check_knobs, check_ranges, knobs_of, load_method
from hsearch.models.backbone import OWN, build_backbone
from hsearch.models.embedder import Embedder
from hsearch.recipes import available_recipes, load_recipe, read_recipe, recipe_knobs
from hsearch.spec import MethodSpec
from hsearch.training.optimizer import lr_factor
from hsearch.training.resolve import resolve_training

OF_PAPERS = [name for name in available_recipes() if "/" in name]
DIGESTS: dict[str, str] = json.loads(Path(__file__).with_name("recipe_digests.json").read_text())
"""By recipe and method, of the training and the knobs as they were before recipes followed data."""
EXPECTED = {
    "hier": 16,
    "happier": 5,
    "roadmap": 3,
    "proxy_anchor": 4,
    "proxy_nca_pp": 3,
    "normalized_softmax": 4,
    "soft_triple": 1,
    "hpl": 1,
    "himulcon": 1,
    "supcon": 1,
    "simclr": 1,
    "mulcon": 1,
    "mlrc": 4,
}
BODIES = {
    (spec.backbone, str(spec.backbone_args), spec.pooling == "token"): name
    for name in reversed(OF_PAPERS)
    for spec in [load_recipe(name).model]
}


def test_the_papers_with_recipes():
    folders = [name.split("/")[0] for name in OF_PAPERS]
    assert {folder: folders.count(folder) for folder in folders} == EXPECTED
    assert set(folders) <= {*available_methods(), "mlrc"}


def test_every_file_is_listed_in_the_readme(request):
    readme = (request.config.rootpath / "README.md").read_text(encoding="utf-8")
    for name in available_recipes():
        assert f"`{name}`" in readme, name


@pytest.mark.parametrize("name", OF_PAPERS)
def test_weights_are_there_under_their_full_name(name):
    model = load_recipe(name).model
    if model.weights == "random":
        assert timm.is_model(model.backbone)
    elif model.backbone != OWN:
        assert "." in model.backbone
        assert timm.is_model_pretrained(model.backbone)


@pytest.mark.parametrize("name", available_recipes())
def test_knobs_and_methods_of_a_recipe_exist_and_differ_from_the_published_ones(name):
    recipe = read_recipe(name)
    assert {*recipe.methods, *recipe.also_for} <= set(available_methods())
    assert name.split("/")[0] not in recipe.also_for, "its own method need not be said"
    for method in recipe.methods:
        assert recipe.methods[method], method
        given = recipe_knobs(name, method)
        check_ranges(method, check_knobs(method, given), num_levels=3)
        defaults = {key: knob.default for key, knob in knobs_of(load_method(method)).items()}
        assert all(value != defaults[key] for key, value in given.items()), "say only what differs"


# METHODS.md, sections 2 to 8: what differs from data set to data set.
PUBLISHED = {
    ("happier/inat", "happier"): {"start": 0.0, "offset": 1.0},
    ("happier/dyml-animal", "happier"): {"clustering_weight": 0.5},
    ("happier/sop", "csl"): {"margin_step": 0.2},
    ("happier/inat", "csl"): {"fine_margin": 0.15},
    ("happier/inat", "roadmap"): {"start": 0.0, "offset": 1.0},
    ("roadmap/inat", "roadmap"): {"start": 0.0, "offset": 1.0},
    **{
        (f"proxy_anchor/{data}", "proxy_nca"): {"scale": 32.0}
        for data in ("cub", "cars", "sop", "inshop")
    },
}


def test_the_published_knobs_of_every_recipe():
    found = {
        (name, method): knobs
        for name in available_recipes()
        for method in available_methods()
        if (knobs := recipe_knobs(name, method))
    }
    assert found == PUBLISHED


def test_recipes_of_one_paper_follow_its_table():
    """METHODS.md, section 1: NormSoftmax, and HIER with vision transformers."""
    for data, rate, per_class in (
        ("cub", 0.001, 25), ("cars", 0.01, 25), ("sop", 0.01, 5), ("inshop", 0.01, 5),
    ):  # fmt: skip
        recipe = load_recipe(f"normalized_softmax/{data}")
        assert recipe.optimizer.lr == {"backbone": rate, "proxies": rate}
        assert (recipe.batch.size, recipe.batch.per_class) == (75, per_class)
    for network, rate in (("deit-s", 1e-5), ("vit-s", 1e-5), ("dino-s", 5e-6)):
        for data in ("cub", "cars", "sop", "inshop"):
            recipe, large = load_recipe(f"hier/{data}-{network}"), data in ("sop", "inshop")
            head = recipe.optimizer.lr.get("head", rate)
            assert recipe.optimizer.lr["backbone"] == rate
            assert head == pytest.approx(100 * rate if large else rate)
            assert recipe.optimizer.weight_decay == (1e-4 if large else 1e-2)
            assert (recipe.schedule.epochs, recipe.schedule.warmup_epochs) == (
                (150, 5) if large else (100, 1)
            )


@pytest.fixture(scope="module", params=sorted(BODIES.values()))
def body(request):
    spec = load_recipe(request.param).model.model_copy(update={"weights": "random"})
    with torch.device("meta"):
        return spec, build_backbone(spec, seed=0)


def test_every_network_can_be_built(body, monkeypatch):
    """Each distinct backbone is built once, and shared by all recipes that have it."""
    spec, backbone = body
    monkeypatch.setattr("hsearch.models.embedder.build_backbone", lambda *_: backbone)
    key = (spec.backbone, spec.backbone_args)
    for name in OF_PAPERS:
        training = load_recipe(name)
        model = training.model
        if (model.backbone, model.backbone_args) == key:
            with torch.device("meta"):
                embedder = Embedder(model.model_copy(update={"weights": "random"}), seed=0)
            assert embedder.feature_shape(training.image.crop) == (model.embedding_dim,)


@pytest.mark.parametrize("name", OF_PAPERS)
def test_rates_fall_and_never_vanish_before_the_end(name):
    schedule = load_recipe(name).schedule
    factors = [lr_factor(schedule, epoch) for epoch in range(schedule.epochs)]
    after = factors[schedule.rate_warmup_epochs :]
    assert after == sorted(after, reverse=True)
    assert all(0 < factor <= 1 for factor in factors)


def test_the_cosine_of_happier_and_of_no_other_is_shifted_by_the_warm_up_and_cut_off():
    shifted = [
        name
        for name in OF_PAPERS
        for schedule in [load_recipe(name).schedule]
        if schedule.lr == "cosine" and schedule.warmup_epochs and not schedule.warmup_counts
    ]
    assert shifted == ["happier/dyml-product", "happier/inat", "happier/sop"]
    schedule = load_recipe("happier/sop").schedule
    assert lr_factor(schedule, 100) == pytest.approx(0.5 * (1 + math.cos(0.95 * math.pi)))


def test_no_group_of_himulcon_is_cut():
    training = load_recipe("himulcon/inshop")
    group = 3 + 2  # an anchor, and for three levels an image of every degree from 3 to 0
    assert training.batch.size % group == 0
    assert training.image.scale == (0.8, 1.0)


@pytest.mark.parametrize("pair", DIGESTS)
def test_what_a_recipe_comes_to_for_a_method_stays_what_it_was(pair):
    """Names of runs and studies hold these digests, whatever backbones bring along."""
    recipe, method = pair.split()
    made = resolve_training(read_recipe(recipe), method, {})
    knobs = MethodSpec(name=method, knobs=made.knobs)
    assert f"{made.training.digest()} {knobs.digest()}" == DIGESTS[pair]


@pytest.mark.parametrize(
    ("data", "trials", "eval_every", "patience", "per_class"),
    [("cub", 50, 2, 5, 2), ("cars", 50, 5, 3, 2), ("sop", 10, 20, 2, 1)],
)
def test_the_second_protocol_of_hpl(data, trials, eval_every, patience, per_class):
    """PEERS.md, sections 1.1 and 4.2: a validation more than the patience in epochs stops."""
    recipe = read_recipe(f"mlrc/{data}")
    assert (recipe.splits, recipe.trials) == ("mlrc", trials)
    for method, size, images in (("hpl", 128, per_class), ("proxy_nca", 32, 1), ("triplet", 32, 4)):
        training = resolve_training(recipe, method, {}).training
        assert (training.batch.size, training.batch.per_class) == (size, images)
        assert (training.schedule.eval_every, training.schedule.patience) == (eval_every, patience)
        assert training.optimizer.name == "rmsprop"
        assert training.optimizer.lr["backbone"] == 1e-6
        assert training.model.embedding_dim == 128


@pytest.mark.parametrize("name", [n for n in available_recipes() if n.startswith("photos")])
def test_recipes_of_photos_keep_the_backbone_frozen_and_its_own_preprocessing(name):
    method = "bce" if name == "photos-labels" else "hpl"
    training = resolve_training(read_recipe(name), method, {}).training
    wanted = timm.get_pretrained_cfg(training.model.backbone)
    assert wanted is not None
    assert training.model.regime == "frozen"
    assert (training.image.mean, training.image.std) == (tuple(wanted.mean), tuple(wanted.std))
    assert training.image.interpolation == wanted.interpolation == "bicubic"
    assert training.image.crop % 14 == 0 or training.image.crop == wanted.input_size[-1]
    rates = {
        regime: resolve_training(read_recipe(name), method, {"model.regime": regime}).training
        for regime in ("frozen", "lora", "full")
    }
    backbone = {regime: rates[regime].optimizer.lr["backbone"] for regime in rates}
    assert backbone["full"] < backbone["lora"] < 1e-3
