"""Recipes: every shipped one loads, overrides reach their value, wrong names find the right one."""

import pytest

from hsearch.errors import ConfigError
from hsearch.recipes import (
    FOLDER,
    available_recipes,
    compose,
    load_recipe,
    read_recipe,
    recipe_knobs,
    recipes_of,
)
from hsearch.spec import TrainingSpec
from hsearch.yaml_file import Value, read_yaml


@pytest.mark.parametrize("name", available_recipes())
def test_every_recipe_loads_under_its_name(name):
    recipe = load_recipe(name)
    assert recipe.recipe == name
    assert TrainingSpec.from_dict(recipe.to_dict()) == recipe


@pytest.mark.parametrize("name", available_recipes())
def test_every_recipe_says_what_it_is_for(name):
    about = read_yaml(FOLDER / f"{name}.yaml").content.get("about")
    assert isinstance(about, str)
    assert about.endswith(".")


def test_the_recipes_of_a_method_lie_in_its_folder():
    assert recipes_of("hpl")["hpl/classic"] == (
        "HPL's first evaluation protocol (ResNet-50, 512-d); needs a GPU."
    )
    own = [name for name in recipes_of("proxy_nca_pp") if name.startswith("proxy_nca_pp/")]
    assert len(own) == 3
    assert list(recipes_of("proxy_nca_pp"))[:3] == own
    assert not set(own) & set(recipes_of("proxy_nca"))


def test_other_methods_of_a_paper_have_its_recipes():
    assert set(recipes_of("csl")) == {name for name in available_recipes() if "happier/" in name}
    assert "mlrc" in recipes_of("multi_similarity")


def test_knobs_of_a_recipe_are_those_of_one_method_and_no_settings():
    assert recipe_knobs("happier/inat", "happier") == {"start": 0.0, "offset": 1.0}
    assert recipe_knobs("happier/sop", "happier") == {}
    assert recipe_knobs("happier/sop", "csl") == {"margin_step": 0.2}
    assert "methods" not in load_recipe("happier/inat").to_dict()


def test_the_default_recipe_is_there():
    assert "small" in available_recipes()


def test_overrides_change_their_values_and_nothing_else():
    plain = load_recipe("small")
    changed = load_recipe(
        "small",
        {"optimizer.lr.proxies": 0.5, "optimizer.lr.head": 0.1, "model.backbone_args.depth": 3},
    )
    assert changed.optimizer.lr == {**plain.optimizer.lr, "proxies": 0.5, "head": 0.1}
    assert changed.model.backbone_args == {**plain.model.backbone_args, "depth": 3}
    assert changed.schedule == plain.schedule
    assert load_recipe("small") == plain


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"optimizer.lr.backbone.x": 1}, "'optimizer.lr.backbone.x' does not exist"),
        ({"schedule.epoch": 1}, "Unknown setting 'schedule.epoch'; "),
        ({"schedule.epoch": 1}, "Did you mean 'epochs'?"),
        ({"shedule.epochs": 1}, "Did you mean 'schedule'?"),
        ({"schedule.epochs": 1.5}, "The setting 'schedule.epochs' cannot be 1.5"),
        ({"schedule.epochs": "many"}, "The setting 'schedule.epochs' cannot be 'many'"),
        ({"optimizer.lr": 0.1}, "The setting 'optimizer.lr' cannot be 0.1"),
        ({"": 1}, "Unknown setting ''"),
    ],
)
def test_a_wrong_override_is_one_sentence(overrides, message):
    with pytest.raises(ConfigError) as caught:
        load_recipe("small", overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smal", "Did you mean 'small'"),
        ("../small", "Did you mean 'small'? "),
        ("happier/sopp", "Did you mean 'happier/sop' or "),
        ("", ""),
    ],
)
def test_an_unknown_recipe_is_answered_with_the_nearest(name, hint):
    with pytest.raises(ConfigError) as caught:
        load_recipe(name)
    sentence = str(caught.value)
    assert sentence.startswith(f"Unknown recipe '{name}'. {hint}")
    assert sentence.endswith(
        "`hsearch recipes` lists all of them; one of your own is a file whose name ends in .yaml."
    )
    assert len(sentence) < 250


@pytest.fixture
def own(tmp_path):
    """Writes a recipe file and returns its path."""

    def write(text, name="mine.yaml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_an_own_recipe_says_only_what_differs_from_the_one_it_extends(own):
    path = own("extends: small\nschedule: {epochs: 3}\noptimizer: {lr: {head: 0.5}}\n")
    mine, small = load_recipe(path), load_recipe("small")
    assert mine.recipe == "mine.yaml"
    assert mine.schedule.epochs == 3
    assert mine.schedule.eval_every == small.schedule.eval_every
    assert mine.optimizer.lr == {**small.optimizer.lr, "head": 0.5}
    assert (mine.model, mine.image) == (small.model, small.image)


def test_an_own_recipe_extends_another_file_beside_it(own, tmp_path, monkeypatch):
    own("extends: small\nbatch: {size: 32}\n", "base.yml")
    path = own("extends: base.yml\nbatch: {per_class: 2}\n")
    monkeypatch.chdir(tmp_path.parent)
    assert (load_recipe(path).batch.size, load_recipe(path).batch.per_class) == (32, 2)


def test_null_unsets_whatever_a_recipe_sets(own):
    text = (
        "extends: small\nmodel: {backbone_args: null, embedding_dim: null}\n"
        "optimizer: {lr: {proxies: null}}\nimage: {scale: null}\n"
        "schedule: {iterations_per_epoch: null}\n"
    )
    mine = load_recipe(own(text))
    assert (mine.model.backbone_args, mine.model.embedding_dim) == ({}, 128)
    assert mine.optimizer.lr == {"backbone": 0.01}
    assert mine.image.scale == (0.08, 1.0)
    assert mine.schedule.iterations_per_epoch is None, "which is a value of its own"
    settings = {
        "model.backbone_args": None,
        "model.embedding_dim": None,
        "optimizer.lr.proxies": None,
        "image.scale": None,
        "schedule.iterations_per_epoch": None,
    }
    assert load_recipe("small", settings).model_copy(update={"recipe": "mine.yaml"}) == mine


def test_what_is_unset_is_left_open_for_a_methods_wish():
    wishes: dict[str, Value] = {"image.scale": [0.3, 1.0]}
    assert load_recipe("small", {}, wishes).image.scale == (0.6, 1.0)
    assert load_recipe("small", {"image.scale": None}, wishes).image.scale == (0.3, 1.0)


def test_besides_settings_a_recipe_takes_over_what_it_does_not_say(own):
    path = own(
        "extends: mlrc/sop\ntrials: 7\nsampler: gp\nmethods: {hpl: {method.num_coarse: 500}}\n"
        "ranges: {optimizer.lr.classifier: null}\n"
    )
    mine = read_recipe(path)
    assert (mine.splits, mine.trials, mine.sampler) == ("mlrc", 7, "gp")
    assert mine.methods["hpl"] == {
        "batch.size": 128,
        "batch.per_class": 1,
        "method.num_coarse": 500,
    }
    assert mine.methods["proxy_nca"] == {"batch.per_class": 1}
    assert set(mine.ranges) == {"optimizer.lr.proxies"}


def test_settings_by_regime_come_before_those_by_method(own):
    mine = read_recipe(
        own(
            "extends: photos\n"
            "regimes: {full: {optimizer.lr.head: 0.5, schedule.epochs: 7}}\n"
            "methods: {hpl: {schedule.epochs: 9}}\n"
        )
    )
    given = mine.settings_for("hpl", "full")
    assert given == {
        "optimizer.lr.backbone": 1e-5, "optimizer.lr.head": 0.5, "schedule.epochs": 9,
    }  # fmt: skip
    assert mine.settings_for("triplet") == {}, "its own regime is frozen"
    composed = compose(mine, {"schedule.epochs": 2}, {}, given)
    assert TrainingSpec.from_dict(composed).schedule.epochs == 2
    assert TrainingSpec.from_dict(composed).optimizer.lr["head"] == 0.5


def test_another_backbone_leaves_the_preprocessing_of_the_first_behind(own):
    text = "extends: mlrc\nmodel: {backbone: resnet50.tv_in1k}\nimage: {crop: 160}\n"
    image = read_recipe(own(text)).settings["image"]
    assert image == {"crop": 160, "scale": [0.16, 1.0], "ratio": [0.75, 1.33], "flip": 0.5}
    changed = compose(read_recipe("small"), {"model.backbone": "resnet18.tv_in1k"}, {})
    assert changed["image"] == read_recipe("small").settings["image"], "from scratch it stays"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("extends: small\nshedule: {epochs: 3}\n", ".*:2: unknown key 'shedule'; .*'schedule'"),
        ("extends: small\nmodel:\n  bakbone: x\n", ".*:3: unknown key 'bakbone'; .*'backbone'"),
        ("extends: small\nstages:\n  a:\n    shar: 1\n", "mine.yaml:4: unknown key 'shar'"),
        ("extends: small\nknobs: {}\n", "mine.yaml:2: unknown key 'knobs'"),
        ("extends: small\nregimes: {ful: {}}\n", "mine.yaml:2: unknown key 'ful'; .*'full'"),
        ("extends: small\nschedule:\n  epochs: many\n", ".*:3: The setting 'schedule.epochs'"),
        ("extends: small\nsplits: even\n", "mine.yaml:2: `splits` must be one of disjoint"),
        ("extends: small\ntrials: 0\n", "mine.yaml:2: `trials` must be a whole number from 1"),
        ("extends: small\nsampler: grid\n", "mine.yaml:2: `sampler` must be one of tpe, gp"),
        ("extends: small\nmethods: 3\n", "mine.yaml:2: `methods` must be a mapping"),
        ("extends: smal\n", "mine.yaml:1: Unknown recipe 'smal'"),
        ("extends: mine.yaml\n", "mine.yaml:1: the recipe extends itself"),
        ("extends: no.yaml\n", "mine.yaml:1: There is no recipe file .*no.yaml"),
        ("model: {head: linear}\n", "mine.yaml:1: The setting 'model.backbone' is required"),
        ("schedule: [1]\n", "mine.yaml:1: `schedule` must be a mapping"),
        ("schedule: {epochs: 1e3}\n", "mine.yaml:1: YAML reads `1e3` as text"),
    ],
)  # fmt: skip
def test_a_fault_of_an_own_recipe_is_a_sentence_with_file_and_line(own, text, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        read_recipe(own(text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"There is no recipe file .*hsearch recipes NAME"):
        read_recipe(str(tmp_path / "no.yaml"))


def test_weights_of_an_own_recipe_lie_beside_it(own, tmp_path):
    path = own("extends: small\nmodel: {weights: mine.safetensors}\n")
    assert load_recipe(path).model.weights == str(tmp_path / "mine.safetensors")
