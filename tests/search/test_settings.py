"""What can be searched: the method's knobs and the scalar settings of a recipe."""

import pytest

from hsearch.errors import ConfigError
from hsearch.methods import available_methods, knobs_of, load_method
from hsearch.search.settings import find_setting, searchable_settings


@pytest.mark.parametrize("method", available_methods())
def test_every_knob_and_every_group_of_a_method_can_be_searched(method):
    settings = searchable_settings(method)
    loss = load_method(method)
    for name, knob in knobs_of(loss).items():
        assert settings[f"method.{name}"].published == knob.default
        assert settings[f"method.{name}"].type is knob.type
    for group in {"backbone", "head", *loss.groups}:
        assert settings[f"optimizer.lr.{group}"].type is float


def test_a_recipes_scalars_can_be_searched_and_nothing_else():
    settings = searchable_settings("hpl")
    kinds = {name: setting.type for name, setting in settings.items()}
    assert kinds["schedule.patience"] is int  # optional
    assert kinds["optimizer.weight_decay"] is float  # one number for all groups
    assert kinds["model.pooling"] is str  # a Literal
    assert kinds["image.range_max"] is int  # a Literal of numbers
    assert kinds["optimizer.nesterov"] is bool
    assert kinds["image.flip"] is float
    assert not {"recipe", "image.scale", "model.backbone_args", "optimizer.lr"} & set(kinds)
    assert settings["image.flip"].published is None


def test_a_whole_number_serves_a_float_setting():
    assert type(searchable_settings("hpl")["optimizer.lr.proxies"].check(1)) is float


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optimizer.weight_decay", -0.1),
        ("batch.size", 0),
        ("batch.size", 1.5),
        ("optimizer.nesterov", 1),
        ("model.pooling", "median"),
    ],
)
def test_a_setting_refuses_a_wrong_type_and_a_value_out_of_bounds(key, value):
    with pytest.raises(ConfigError, match=f"The setting '{key}' cannot be {value!r}"):
        searchable_settings("hpl")[key].check(value)


def test_an_unknown_setting_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"Did you mean 'schedule.patience'"):
        find_setting(searchable_settings("hpl"), "schedule.patients")
