"""Stages of a recipe: their lengths and settings, and a sentence for whatever they cannot have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsearch.errors import ConfigError
from hsearch.methods import check_knobs, load_method
from hsearch.recipes import load_recipe
from hsearch.spec import FoldJob, MethodSpec, TrainingSpec
from hsearch.spec_stage import UNCHANGED, merged, stage_lengths
from hsearch.training.optimizer import weight_decays


@given(epochs=st.integers(1, 500), shares=st.lists(st.floats(0.001, 0.999), max_size=4))
def test_stages_share_all_epochs_out_or_a_sentence_says_why_not(epochs, shares):
    if sum(max(1, round(share * epochs)) for share in shares) >= epochs:
        with pytest.raises(ValueError, match="must leave an epoch for the rest"):
            stage_lengths(epochs, shares)
        return
    lengths = stage_lengths(epochs, shares)
    assert sum(lengths) == epochs
    assert len(lengths) == len(shares) + 1
    assert min(lengths) >= 1
    for length, share in zip(lengths, shares, strict=False):
        assert length == 1 or abs(length - share * epochs) <= 0.5


def staged(**settings: Any) -> TrainingSpec:
    """`small` with a stage `a` of half the epochs, and such settings."""
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return load_recipe("small", {"stages.a.share": 0.5, **given})


def job_of(training: TrainingSpec, method: str = "hpl") -> FoldJob:
    spec = MethodSpec(name=method, knobs=check_knobs(method, {}))
    return FoldJob(data="glyphs", data_digest="0" * 12, method=spec, training=training)


def test_a_stage_has_the_recipes_settings_but_for_its_own():
    training = staged(
        stages__a__optimizer__lr__backbone=0.5,
        stages__a__optimizer__weight_decay__proxies=0.25,
        stages__a__schedule__lr="one_cycle",
        stages__a__batch__size=32,
        stages__a__method__fine_scale=9.0,
    )
    first, last = job_of(training).stages()
    assert (first.epochs, last.epochs) == (range(1, 6), range(6, 11))
    own = first.job.training
    assert own.optimizer.lr == {**training.optimizer.lr, "backbone": 0.5}
    assert weight_decays(own.optimizer, load_method("hpl")) == {
        "backbone": training.optimizer.weight_decay,
        "head": training.optimizer.weight_decay,
        "proxies": 0.25,
    }
    assert (own.schedule.lr, own.schedule.epochs, own.batch.size) == ("one_cycle", 5, 32)
    assert own.batch.per_class == training.batch.per_class
    assert [stage.job.method.knobs["fine_scale"] for stage in (first, last)] == [9.0, 32.0]
    rest = last.job.training
    assert (rest.optimizer, rest.image, rest.batch) == (
        training.optimizer,
        training.image,
        training.batch,
    )
    assert training.batch_sizes == [32, 64]


def test_stages_come_in_their_order_and_know_their_epochs():
    job = job_of(staged(stages__b__share=0.2, stages__a__share=0.3))
    assert [stage.epochs for stage in job.stages()] == [range(1, 4), range(4, 6), range(6, 11)]
    for epoch, start in [(1, 1), (3, 1), (4, 4), (5, 4), (6, 6), (10, 6)]:
        assert job.stage_of(epoch).epochs.start == start


def test_a_job_without_stages_is_its_only_stage():
    job = job_of(load_recipe("small"))
    (stage,) = job.stages()
    assert (stage.epochs, stage.job) == (range(1, 11), job)


def test_the_order_of_stages_counts():
    def made(*names: str) -> TrainingSpec:
        return load_recipe("small", {f"stages.{name}.share": 0.3 for name in names})

    assert made("a", "b").digest() == made("a", "b").digest() != made("b", "a").digest()
    assert TrainingSpec.from_dict(made("b", "a").to_dict()) == made("b", "a")


def test_null_switches_the_stages_of_a_method_off_and_makes_room_for_others():
    wishes = load_method("mulcon").wishes
    assert list(load_recipe("small-labels", {}, wishes).stages) == ["classify"]
    assert load_recipe("small-labels", {"stages": None}, wishes).stages == {}
    own = {"stages.own.share": 0.25, "stages": None}
    assert list(load_recipe("small-labels", own, wishes).stages) == ["own"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"stages__b": 3}, r"'stages.b' cannot be 3: .* so set stages\.b\.PART"),
        ({"stages__a__model__pooling": "max"}, "Unknown setting 'stages.a.model'; valid names: ba"),
        ({"stages__a__shcedule": 1}, "Did you mean 'schedule'?"),
        ({"stages__a__share": 0}, "'stages.a.share' cannot be 0: "),
        ({"stages__a__share": 1.0}, "'stages.a.share' cannot be 1.0: "),
        (
            {"stages__b__optimizer__name": "sgd"},
            r"There is no stage 'b' whose settings could change; .* needs .* stages\.b\.share",
        ),
        ({"stages__a__optimizer": 1}, "'stages.a.optimizer' cannot be 1: "),
        ({"stages__last__share": 0.3}, "A stage must have another name than `last`"),
        ({"stages__a__method__x": [1, 2]}, "'stages.a.method.x' must be true, false, a number or"),
        (
            {"stages__a__optimizer__momentun": 0.5},
            "In the stage `a`: Unknown setting 'optimizer.momentun'; .* Did you mean 'momentum'?",
        ),
        ({"stages__a__batch__size": 63}, "In the stage `a`: `batch.size` must be a multiple of "),
        (
            {"stages__a__schedule__warmup_epochs": 5},
            "In the stage `a`: `schedule.warmup_epochs` must be below .* got 5 and 5; ",
        ),
        ({"schedule__warmup_epochs": 5}, "In the stage `a`: `schedule.warmup_epochs` must be "),
        (
            {"stages__a__schedule__epochs": 3},
            r"`schedule.epochs` is the same in all .* \(a stage is as long as its `share`\)\.",
        ),
        ({"schedule__epochs": 1}, r"take 1 of 1; give a longer --epochs, or smaller stages\.NAME"),
        ({"stages__b__share": 0.5}, "The stages must leave an epoch .* but take 10 of 10; "),
    ],
)
def test_what_a_stage_cannot_have_is_a_sentence(settings, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        staged(**settings)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))
    assert "Value error" not in str(caught.value)


@pytest.mark.parametrize("value", [3, 0, False, "a"])
def test_stages_are_no_value_but_null(value):
    with pytest.raises(ConfigError, match=f"'stages' cannot be {value!r}: .* so set stages.PART"):
        load_recipe("small", {"stages": value})


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_is_of_the_whole_training_no_stage_can_set(name):
    with pytest.raises(ConfigError, match=f"`{name}` is the same in all stages, but a stage sets"):
        staged(**{f"stages__a__{name}": 1})


def test_merging_changes_neither_part():
    values, changes = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}, "d": {"e": 4}}
    assert merged(values, changes) == {"a": {"b": 9, "c": 2}, "d": {"e": 4}}
    assert (values, changes) == ({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}, "d": {"e": 4}})


DIGESTS = {
    ("hpl", "small"): "5816e7f360fc",
    ("supcon", "small"): "9a96a201a7fa",
    ("simclr", "simclr/cifar"): "6e3ab6e7f484",
    ("proxy_anchor", "proxy_anchor/cub"): "fbe4f6fa9d02",
    ("happier", "happier/sop"): "8c94ba69e863",
    ("himulcon", "himulcon/inshop"): "020c206a6861",
}
"""Of jobs as they were before there were stages, averages, cycles and numbers of views."""


@pytest.mark.parametrize(("method", "recipe"), DIGESTS)
def test_jobs_that_use_nothing_of_this_have_the_digests_that_they_had(method, recipe):
    job = job_of(load_recipe(recipe, {}, load_method(method).wishes), method)
    assert job.digest() == DIGESTS[method, recipe]
    assert FoldJob.from_dict(job.to_dict()).digest() == job.digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"stages.a.share": 0.5},
        {"stages.a.share": 0.25},
        {"stages.a.share": 0.5, "stages.a.method.fine_scale": 9.0},
        {"optimizer.ema": 0.9},
        {"schedule.cycle_rise": 0.2},
        {"schedule.cycle_from": 0.1},
        {"batch.views": 2},
        {"image.evaluated": "squeezed"},
    ],
)
def test_jobs_that_use_any_of_it_have_others_and_survive_json(changed):
    plain, job = job_of(load_recipe("small")), job_of(load_recipe("small", changed))
    again = FoldJob.from_dict(job.to_dict())
    assert again == job
    assert again.digest() == job.digest() != plain.digest()
    assert all(name.startswith("training.") for name in job.differences(plain))


def test_the_digest_of_stages_tells_them_apart():
    digests = [staged(stages__a__share=share).digest() for share in (0.5, 0.25)]
    digests.append(staged(stages__a__batch__size=32).digest())
    assert len(set(digests)) == 3


def test_a_job_from_before_there_were_stages_has_none():
    new = job_of(load_recipe("small"))
    old: dict[str, Any] = new.to_dict()
    training = old["training"]
    del training["stages"], training["optimizer"]["ema"], training["batch"]["views"]
    del training["schedule"]["cycle_rise"], training["schedule"]["cycle_from"]
    del training["image"]["evaluated"]
    assert FoldJob.from_dict(old) == new
