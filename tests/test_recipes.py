"""Recipes: every shipped one loads, overrides reach their value, wrong names find the right one."""

import pytest

from hsearch.errors import ConfigError
from hsearch.recipes import FOLDER, available_recipes, load_recipe, recipe_knobs, recipes_of
from hsearch.spec import TrainingSpec
from hsearch.yaml_file import read_yaml


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
    assert "knobs" not in load_recipe("happier/inat").to_dict()


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
        "mlrc, small and small-labels are for no data set in particular, and `hsearch methods "
        "NAME` lists those of a method."
    )
    assert len(sentence) < 250
