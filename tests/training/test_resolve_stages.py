"""Jobs of several stages and of both tasks are checked before anything is trained."""

import pytest

from hsearch.errors import ConfigError
from hsearch.recipes import load_recipe
from hsearch.training import resolve
from hsearch.training.resolve import resolve_job, with_knobs


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method__gama": 0.1}, "Unknown knob 'gama' of mulcon.* Did you mean 'gamma'?"),
        ({"method__gamma": "x"}, "Knob 'gamma' of mulcon must be of type float, but got 'x'"),
        ({"method__gamma": -1}, "`gamma` of mulcon must be at least 0, but got -1"),
        (
            {"method__heads": 2},
            "Only knobs that are fractions can change between stages, but got 'heads'; "
            r"set it for the whole training with method\.heads\.",
        ),
        ({"optimizer__lr__clasifiers": 0.1}, "no group 'clasifiers'.* Did you mean 'classifiers'?"),
        (
            {"optimizer__lr__proxies": 0.1},
            "mulcon has no group 'proxies', so 'stages.classify.optimizer.lr.proxies' cannot be",
        ),
        (
            {"optimizer__weight_decay__proxies": 0.1},
            "so 'stages.classify.optimizer.weight_decay.proxies' cannot be set",
        ),
        ({"batch__sampler": "hard"}, "mulcon learns from images with several labels each, of wh"),
        ({"schedule__patience": 3}, "`schedule.patience` is the same in all stages"),
    ],
)
def test_faults_of_a_stage_are_sentences(settings, sentence, toy_job):
    with pytest.raises(ConfigError, match=sentence) as caught:
        toy_job("mulcon", **{f"stages__classify__{key}": v for key, v in settings.items()})
    assert "stage" in str(caught.value)


def test_a_wrong_group_of_a_stage_in_a_recipe_is_found_too():
    training = load_recipe("small", {"stages.a.share": 0.5, "stages.a.optimizer.lr.proxis": 1.0})
    with pytest.raises(ConfigError, match=r"In the stage `a`: Unknown group .*lr\.proxis'"):
        resolve._check_stages("hpl", {}, training)


def test_a_setting_of_a_stage_leaves_what_the_method_wishes_of_it(toy_job):
    stage = toy_job("mulcon", stages__classify__optimizer__name="sgd").training.stages["classify"]
    assert (stage.share, stage.method, stage.batch) == (0.5, {"gamma": 0.0}, {"views": 1})
    assert stage.optimizer == {"name": "sgd"}
    assert toy_job("mulcon", stages=None).training.stages == {}


def test_with_knobs_changes_settings_of_a_stage(toy_job):
    job = toy_job("mulcon", schedule__epochs=10)
    rate = "stages.classify.optimizer.lr.backbone"
    changed = with_knobs(job, {"stages.classify.share": 0.2, rate: 0.5}, fold=1)
    first, last = changed.stages()
    assert (len(first.epochs), len(last.epochs)) == (2, 8)
    assert first.job.training.optimizer.lr == {**job.training.optimizer.lr, "backbone": 0.5}
    assert last.job.training.optimizer == job.training.optimizer
    assert changed == toy_job(
        "mulcon",
        schedule__epochs=10,
        stages__classify__share=0.2,
        stages__classify__optimizer__lr__backbone=0.5,
        fold=1,
    )
    with pytest.raises(ConfigError, match=r"stages\.classify\.share' cannot be 1\.5"):
        with_knobs(job, {"stages.classify.share": 1.5})


@pytest.mark.parametrize(
    ("method", "data", "recipe", "objective"),
    [("hpl", "glyphs", "small", "map_at_r"), ("bce", "scenes", "small-labels", "map")],
)
def test_the_task_of_a_method_decides_what_nobody_names(
    method, data, recipe, objective, toy_store, label_store, monkeypatch
):
    opened = []

    def open_toy(name):
        opened.append(name)
        return toy_store if name == "glyphs" else label_store

    monkeypatch.setattr(resolve, "open_data", open_toy)
    job = resolve_job(method=method, settings={})
    assert opened == [data]
    assert (job.training.recipe, job.objective) == (recipe, objective)


def test_data_of_another_task_are_refused_with_the_methods_for_them(toy_store, label_store):
    with pytest.raises(ConfigError, match=r"hpl learns .* one label path each, .* bce, mulcon\."):
        resolve_job(method="hpl", data=str(label_store.path), settings={})
    told = r"mulcon learns .* several labels each, but those of 'toy' have one label path; .* hpl,"
    with pytest.raises(ConfigError, match=told):
        resolve_job(method="mulcon", data=str(toy_store.path), settings={})


def test_the_objective_is_a_metric_of_the_task(label_store):
    data = str(label_store.path)
    assert resolve_job(method="bce", data=data, settings={}, objective="cf1").objective == "cf1"
    told = "Unknown objective 'map_at_r' for .* with several labels each; .* cf1, op, or, of1"
    with pytest.raises(ConfigError, match=told):
        resolve_job(method="bce", data=data, settings={}, objective="map_at_r")


def test_a_misspelt_stage_is_answered_with_the_right_one(toy_job):
    with pytest.raises(ConfigError, match=r"no stage 'clasify'.*'classify'"):
        toy_job("mulcon", stages__clasify__share=0.3)
    with pytest.raises(ConfigError, match=r"no stage 'own'.* stages\.own\.share"):
        toy_job("mulcon", stages__own__method__gamma=0.3)


def test_heads_that_do_not_share_out_the_embedding_are_refused_before_any_network(toy_job):
    with pytest.raises(ConfigError, match="`heads` of mulcon must divide"):
        toy_job("mulcon", method__heads=8, model__embedding_dim=100)
    job = toy_job("mulcon", model__embedding_dim=100)
    with pytest.raises(ConfigError, match="`heads` of mulcon must divide"):
        with_knobs(job, {"method.heads": 8})
    with pytest.raises(ConfigError, match="In the stage `classify`: `gamma` of mulcon"):
        with_knobs(job, {"stages.classify.method.gamma": -1.0})
