"""Every shipped recipe: its network can be built, and its values are those of its paper."""

import math

import pytest
import timm
import torch

from hsearch.methods import available_methods
from hsearch.models.backbone import OWN, build_backbone
from hsearch.models.embedder import Embedder
from hsearch.recipes import available_recipes, load_recipe
from hsearch.training.optimizer import lr_factor

OF_PAPERS = [name for name in available_recipes() if "/" in name]
EXPECTED = {
    "hier": 10,
    "happier": 5,
    "roadmap": 3,
    "proxy_anchor": 4,
    "proxy_nca_pp": 3,
    "normalized_softmax": 2,
    "soft_triple": 1,
    "hpl": 1,
    "himulcon": 1,
    "supcon": 1,
    "simclr": 1,
}
BODIES = {
    (spec.backbone, str(spec.backbone_args), spec.pooling == "token"): name
    for name in reversed(OF_PAPERS)
    for spec in [load_recipe(name).model]
}


def test_the_papers_with_recipes():
    folders = [name.split("/")[0] for name in OF_PAPERS]
    assert {folder: folders.count(folder) for folder in folders} == EXPECTED
    assert set(folders) <= set(available_methods())


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
