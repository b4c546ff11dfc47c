"""From names and settings to a complete job; every fault is found before training."""

from functools import partial
from typing import get_args

import pytest

from hsearch.data.store_writer import write_store
from hsearch.errors import ConfigError, DatasetError
from hsearch.folds import Splits
from hsearch.methods import load_method
from hsearch.spec import FoldJob
from hsearch.training.optimizer import weight_decays
from hsearch.training.resolve import parse_setting, resolve_job, with_knobs
from tests.conftest import toy_records


def resolve(toy_store, method="hpl", recipe="small", objective="map_at_r", **settings):
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return resolve_job(
        method=method,
        data=str(toy_store.path),
        recipe=recipe,
        settings=given,
        objective=objective,
    )


@pytest.mark.parametrize("objective", ["h_ap", "recall_at_8", "level_0/asi", "level_1/map_at_r"])
def test_any_metric_of_the_data_can_be_the_objective(toy_store, objective):
    assert resolve(toy_store, objective=objective).objective == objective


@pytest.mark.parametrize("source", ["folder", "glyphs"])
def test_splits_follow_the_data_unless_they_are_named(tmp_path, source):
    names = ("colour", "width", "kind")
    path = tmp_path / "own.arrow"
    write_store(path, "own", toy_records(), level_names=names, provenance={"source": source})
    own = partial(resolve_job, method="hpl", data=str(path), settings={})
    default = "stratified" if source == "folder" else "disjoint"
    assert own().splits == default
    for splits in get_args(Splits):
        assert own(splits=splits).splits == splits
    with pytest.raises(ConfigError, match=r"also `level_0/` \(colour\) or `level_1/` \(width\)"):
        own(objective="level_2/ap")


def test_the_job_holds_every_value_and_survives_json(toy_store):
    job = resolve(toy_store, method__update_period=7, optimizer__lr__proxies=0.5)
    assert job.method.knobs["update_period"] == 7
    assert job.method.knobs["num_coarse"] == 10  # the published value, filled in
    assert job.training.optimizer.lr["proxies"] == 0.5
    assert job.data_digest == toy_store.digest
    assert FoldJob.from_dict(job.to_dict()) == job


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "hlp"}, "Unknown method 'hlp'.*Did you mean 'hpl'"),
        ({"recipe": "smal"}, "Unknown recipe 'smal'.*Did you mean 'small'"),
        ({"method__update_perod": 7}, "Did you mean 'update_period'"),
        ({"method__update_period": 7.5}, "must be of type int"),
        ({"method__base": "arcface"}, "must be one of proxy_anchor, proxy_nca"),
        ({"method__base": None}, "'base' of hpl must be one of"),
        ({"optimizer__lr__proxis": 1.0}, "Did you mean 'proxies'"),
        ({"schedule__epocs": 3}, "Did you mean 'epochs'"),
        (
            {"objective": "h_aps"},
            "Unknown objective 'h_aps' for '.*toy.arrow' with 3 levels; did you mean 'h_ap'",
        ),
        (
            {"objective": "level_2/ap"},
            "did you mean 'ap'.* for a coarser level",
        ),
        ({"objective": "h_ap/ap"}, "Unknown objective"),
        ({"objective": ""}, "Unknown objective ''"),
        ({"epochs": 3}, "Did you mean 'schedule.epochs'"),
        ({"num_coarse": 3}, "Did you mean 'method.num_coarse'"),
        ({"optimizer__lr": 0.1}, r"set optimizer\.lr\.PART"),
        ({"image__scale": 0.5}, "numbers with commas between"),
        ({"optimizer__nesterov": "yes"}, "write true or false"),
        ({"schedule__milestones": "3,x"}, "whole numbers with commas between"),
        (
            {"method": "supcon", "optimizer__lr__proxies": 0.1},
            "supcon has no group 'proxies', so 'optimizer.lr.proxies' cannot be set",
        ),
        (
            {"method": "supcon", "optimizer__weight_decay__proxies": 0.0},
            "supcon has no group 'proxies', so 'optimizer.weight_decay.proxies' cannot be set",
        ),
        ({"optimizer__weight_decay__proxis": 0.0}, "Did you mean 'proxies'"),
        (
            {"optimizer__weight_decay__proxies": "x"},
            "'optimizer.weight_decay.proxies' cannot be 'x'",
        ),
    ],
)
def test_faults_are_sentences(toy_store, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resolve(toy_store, **settings)


@pytest.mark.parametrize("recipe", ["small", "happier/sop"])
def test_weight_decay_of_one_group_leaves_the_others_as_they_were(toy_store, recipe):
    def decays(**settings):
        job = resolve(toy_store, "happier", recipe, **settings)
        return weight_decays(job.training.optimizer, load_method("happier"))

    changed = decays(optimizer__weight_decay__proxies=0.5)
    assert changed == {**decays(), "proxies": 0.5}
    both = {"optimizer__weight_decay__proxies": 0.5, "optimizer__weight_decay": 0.1}
    assert decays(**both) == {"backbone": 0.1, "head": 0.1, "proxies": 0.5}


def test_a_method_has_its_wish_where_the_recipe_leaves_it_open(toy_store):
    def batch_and_image(method, recipe="small", **settings):
        job = resolve_job(method=method, data=str(toy_store.path), recipe=recipe, settings=settings)
        return job.training.batch.sampler, job.training.image.grayscale

    assert batch_and_image("supcon") == ("m_per_class", 0.0)
    assert batch_and_image("simclr") == ("shuffle", 0.2)
    assert batch_and_image("simclr", "hier/cub-deit-s") == ("unique_class", 0.2)
    assert batch_and_image("simclr", **{"image.grayscale": 0.5, "batch.sampler": "hard"}) == (
        "hard",
        0.5,
    )


def test_unknown_data_is_a_sentence():
    with pytest.raises(DatasetError, match="hsearch data prepare carz"):
        resolve_job(method="hpl", data="carz", recipe="small", settings={})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=3", ("a.b", 3)),
        ("a.b=1e-3", ("a.b", 0.001)),
        ("a.b=true", ("a.b", True)),
        ("a.b=null", ("a.b", None)),
        ("a.b=x=y", ("a.b", "x=y")),
        ("a.b=0.5,1", ("a.b", [0.5, 1])),
        ("a.b=[0.5, 1.0]", ("a.b", [0.5, 1.0])),
        ("a.b=x,y", ("a.b", "x,y")),
    ],
)
def test_parse_setting(text, expected):
    key, value = parse_setting(text)
    assert (key, value) == expected
    assert type(value) is type(expected[1])


@pytest.mark.parametrize("text", ["a.b", "=3", "a="])
def test_parse_setting_refuses_what_is_no_setting(text):
    with pytest.raises(ConfigError, match=r"must look like a\.b=c"):
        parse_setting(text)


def test_with_knobs_changes_knobs_settings_and_fold_and_nothing_else(toy_job):
    job = toy_job("hpl")
    changed = with_knobs(job, {"method.num_coarse": 3, "optimizer.lr.proxies": 0.5}, fold=2)
    assert changed.method.knobs["num_coarse"] == 3
    assert changed.training.optimizer.lr == {**job.training.optimizer.lr, "proxies": 0.5}
    assert changed.fold == 2
    assert with_knobs(changed, {"method.num_coarse": job.method.knobs["num_coarse"]}, fold=0) == (
        toy_job("hpl", optimizer__lr__proxies=0.5)
    )


def test_with_knobs_refuses_what_the_method_refuses(toy_job):
    with pytest.raises(ConfigError, match="num_corse"):
        with_knobs(toy_job("hpl"), {"method.num_corse": 3})


def test_a_knob_out_of_range_is_found_before_data_are_rendered(tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    with pytest.raises(ConfigError, match=r"`alpha` of happier must be above 0, but got -1\."):
        resolve_job(method="happier", data="glyphs", recipe="small", settings={"method.alpha": -1})
    assert list(tmp_path.iterdir()) == []
