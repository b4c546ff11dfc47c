"""Specs: closed to unknown keys, strict about types, and unchanged by a round trip through JSON."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hsearch.errors import ConfigError
from hsearch.recipes import load_recipe
from hsearch.results import EpochRecord, FoldResult
from hsearch.spec import (
    BatchSpec,
    FoldJob,
    ImageSpec,
    MethodSpec,
    ModelSpec,
    OptimizerSpec,
    ScheduleSpec,
    TrainingSpec,
)

positive = st.floats(1e-12, 1e12)
knobs = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
names = st.text(min_size=1)
models = st.builds(
    ModelSpec,
    backbone=names,
    backbone_args=st.dictionaries(names, knobs, max_size=3),
    weights=names,
    pooling=st.sampled_from(["avg", "max", "avg+max", "token"]),
    embedding_dim=st.integers(1, 4096),
    frozen=st.just(("layer1", "patch_embed")) | st.just(()),
)
images = st.builds(
    ImageSpec,
    resize=st.integers(224, 512),
    crop=st.integers(1, 224),
    scale=st.tuples(st.floats(0.01, 0.5), st.floats(0.5, 1.0)),
    cutout=st.floats(0, 1),
    randaugment=st.none() | st.tuples(st.integers(1, 4), st.integers(0, 30)),
    mean=st.tuples(*[st.floats(-1, 255)] * 3),
    std=st.tuples(*[positive] * 3),
    range_max=st.sampled_from([1, 255]),
)
optimizers = st.builds(
    OptimizerSpec,
    lr=st.dictionaries(names, st.floats(0, 1e3), max_size=3).map(lambda d: {**d, "backbone": 1e-4}),
    weight_decay=st.floats(0, 1) | st.just({"backbone": 0.1, "proxies": 0.0}),
    momentum=st.floats(0, 0.999),
    clip_norm=st.none() | positive,
)
schedules = st.builds(
    ScheduleSpec,
    epochs=st.integers(1, 1000),
    iterations_per_epoch=st.none() | st.integers(1, 100),
    lr=st.sampled_from(["constant", "cosine", "step"]),
    patience=st.none() | st.integers(1, 99),
)
jobs = st.builds(
    FoldJob,
    data=names,
    data_digest=names,
    method=st.builds(MethodSpec, name=names, knobs=st.dictionaries(names, knobs, max_size=4)),
    training=st.builds(
        TrainingSpec,
        recipe=names,
        model=models,
        image=images,
        batch=st.builds(BatchSpec, size=st.integers(1, 64).map(lambda n: 4 * n)),
        optimizer=optimizers,
        schedule=schedules,
    ),
    fold=st.integers(0, 3),
    seed=st.integers(0, 2**63),
    objective=st.sampled_from(["map_at_r", "h_ap", "level_0/recall_at_4"]),
)


def content(**sections: dict[str, Any]) -> dict[str, Any]:
    """The recipe `small` as plain values, with some values of some sections replaced."""
    whole: dict[str, Any] = load_recipe("small").to_dict()
    for section, values in sections.items():
        whole[section] = {**whole[section], **values}
    return whole


@settings(max_examples=50, deadline=None)
@given(job=jobs)
def test_json_brings_back_the_same_job_with_the_same_digest(job):
    again = FoldJob.from_dict(json.loads(json.dumps(job.to_dict())))
    assert again == job
    assert again.digest() == job.digest()
    for name, value in job.method.knobs.items():
        assert type(again.method.knobs[name]) is type(value)


@settings(max_examples=30, deadline=None)
@given(job=jobs, score=st.floats(0, 1), loss=st.none() | st.floats(-1e6, 1e6))
def test_json_brings_back_the_same_result(job, score, loss):
    record = EpochRecord(
        epoch=0, loss=loss, seconds=1.5, images_per_second=None, lr={"head": 0.1}, validation=None
    )
    result = FoldResult(
        job=job,
        score=score,
        best_epoch=0,
        validation={"map_at_r": score},
        untrained={"map_at_r": 0.0},
        history=(record,),
        stopped="epochs",
        versions={"torch": "2"},
    )
    assert FoldResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


@settings(max_examples=5, deadline=None)
@given(job=jobs)
def test_a_job_from_before_there_were_objectives_had_the_default(job):
    old = job.to_dict()
    del old["objective"]
    assert FoldJob.from_dict(old) == job.model_copy(update={"objective": "map_at_r"})


def test_several_words_or_numbers_come_from_yaml_and_from_the_command_line():
    for parts in ("layer1, layer2", ["layer1", "layer2"]):
        model = ModelSpec.from_dict({"backbone": "x", "frozen": parts})
        assert model.frozen == ("layer1", "layer2")
    for milestones in (30, [30]):
        values = {"lr": "milestones", "milestones": milestones}
        assert ScheduleSpec.from_dict(values).milestones == (30,)


@given(st.integers(0, 100), st.integers(0, 100))
def test_the_digest_differs_exactly_when_a_value_does(left, right):
    first, second = (
        MethodSpec(name="hpl", knobs={"update_period": period}) for period in (left, right)
    )
    assert (first.digest() == second.digest()) == (left == right)


def test_the_digest_tells_an_integer_from_a_float():
    one, one_float = (MethodSpec(name="hpl", knobs={"x": value}) for value in (1, 1.0))
    assert one.digest() != one_float.digest()


def test_a_spec_is_frozen():
    spec = load_recipe("small")
    with pytest.raises(ValidationError, match="frozen"):
        spec.recipe = "other"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"optimizer": {"momentun": 0.9}}, "Unknown setting 'optimizer.momentun'; valid names: "),
        ({"optimizer": {"momentun": 0.9}}, "Did you mean 'momentum'?"),
        ({"batch": {"size": 6.5}}, "The setting 'batch.size' cannot be 6.5: "),
        ({"batch": {"size": "64"}}, "The setting 'batch.size' cannot be '64': "),
        ({"batch": {"size": True}}, "The setting 'batch.size' cannot be True: "),
        ({"batch": {"size": 0}}, "The setting 'batch.size' cannot be 0: "),
        ({"batch": {"size": 63}}, "`batch.size` must be a multiple of `batch.per_class`"),
        (
            {"batch": {"sampler": "hierarchical", "size": 68}},
            "a multiple of twice `batch.per_class`",
        ),
        ({"batch": {"sampler": "random"}}, "'m_per_class', 'm_per_class_once', "),
        (
            {"optimizer": {"weight_decay": -0.1}},
            "The setting 'optimizer.weight_decay' cannot be -0.1: ",
        ),
        (
            {"optimizer": {"weight_decay": {"backbone": 0.1, "head": "x"}}},
            "The setting 'optimizer.weight_decay.head' cannot be 'x': ",
        ),
        (
            {"optimizer": {"weight_decay": {"head": 0.1}}},
            "`optimizer.weight_decay` must name the group `backbone`.",
        ),
        ({"schedule": {"lr": "milestones"}}, "`schedule.lr: milestones` needs "),
        (
            {"schedule": {"milestones": "3,x"}},
            "The setting 'schedule.milestones' cannot be '3,x': write whole numbers with commas "
            "between.",
        ),
        ({"schedule": {"milestones": [3, 4.5]}}, "'schedule.milestones.1' cannot be 4.5: "),
        ({"model": {"frozen": [1]}}, "The setting 'model.frozen.0' cannot be 1: "),
        ({"model": {"backbone": None}}, "The setting 'model.backbone' cannot be None: "),
        (
            {"model": {"backbone_args": {"depth": [1]}}},
            "The setting 'model.backbone_args.depth' must be true, false, a number or text, "
            "not [1].",
        ),
        ({"image": {"crop": 64}}, "`image.crop` must not exceed `image.resize`, but 64 > 32"),
        ({"image": {"scale": [0.9, 0.1]}}, "`image.scale` must be [low, high], but got [0.9, 0.1]"),
        ({"image": {"scale": [0.9, 1.1]}}, "`image.scale` must stay within 0..1, but got 1.1"),
        ({"image": {"scale": [0.5]}}, "The setting 'image.scale.1' is required"),
        ({"image": {"scale": [0.5, "all"]}}, "The setting 'image.scale.1' cannot be 'all': "),
        ({"optimizer": {"lr": {"proxies": 0.1}}}, "`optimizer.lr` must name the group `backbone`"),
        ({"optimizer": {"lr": {"backbone": -0.1}}}, "'optimizer.lr.backbone' cannot be -0.1: "),
        (
            {"optimizer": {"lr": {"backbone": float("nan")}}},
            "'optimizer.lr.backbone' cannot be nan",
        ),
        (
            {"optimizer": {"name": "adam", "nesterov": True}},
            "`optimizer.nesterov` needs sgd and an `optimizer.momentum` above 0, but got adam and "
            "0.9; set optimizer.nesterov=false.",
        ),
        (
            {"optimizer": {"name": "sgd", "momentum": 0.0, "nesterov": True}},
            "above 0, but got sgd and 0.0; ",
        ),
        ({"optimizer": {"clip_norm": 0}}, "The setting 'optimizer.clip_norm' cannot be 0: "),
        (
            {"schedule": {"epochs": 5, "warmup_epochs": 5}},
            "`schedule.warmup_epochs` must be below `schedule.epochs`, but got 5 and 5; give a "
            "longer --epochs or set schedule.warmup_epochs=0.",
        ),
        (
            {"schedule": {"epochs": 3, "rate_warmup_epochs": 10}},
            "`schedule.rate_warmup_epochs` must be below `schedule.epochs`, but got 10 and 3; ",
        ),
        ({"schedule": {"patience": 0}}, "The setting 'schedule.patience' cannot be 0: "),
    ],
)
def test_a_wrong_value_is_one_sentence_with_the_dotted_key(sections, message):
    with pytest.raises(ConfigError) as caught:
        TrainingSpec.from_dict(content(**sections))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not str(caught.value).startswith("Value error")


def test_a_missing_section_and_an_unknown_one_are_named():
    whole = content()
    del whole["model"]
    with pytest.raises(ConfigError, match="The setting 'model' is required"):
        TrainingSpec.from_dict(whole)
    with pytest.raises(ConfigError, match=r"Unknown setting 'optimiser'.*Did you mean 'optimizer'"):
        TrainingSpec.from_dict({**content(), "optimiser": {}})


def test_what_is_no_mapping_is_one_sentence():
    with pytest.raises(ConfigError, match="should be an object"):
        TrainingSpec.from_dict(["small"])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("mine", "mine"),
        ("mine.v2", "mine.v2"),
        ("/folder/mine.arrow", "mine"),
        ("/what?/mine.arrow", "mine"),
        ("s3://bucket/mine.arrow", "mine"),
        ("s3://bucket/mine.arrow?endpoint_override=10.0.0.1:9000&scheme=http", "mine"),
        ("file:/mine.arrow", "mine"),
    ],
)
def test_data_have_a_name_wherever_they_lie(data, name):
    method = MethodSpec(name="hpl", knobs={})
    job = FoldJob(data=data, data_digest="0", method=method, training=load_recipe("small"))
    assert job.data_name == name


DIGESTS = {
    "small": "4eb30a892de3",
    "simclr/cifar": "f86040dd8f2b",
    "mlrc": "bf8195968a59",
    "hier/cub-resnet50": "1ddda5d94234",
}
"""Of recipes as they were before there were `image.cutout` and `image.randaugment`."""


@pytest.mark.parametrize("name", DIGESTS)
def test_settings_that_came_later_change_no_digest_while_they_are_off(name):
    assert load_recipe(name).digest() == DIGESTS[name]


def test_the_digest_of_a_job_stays_what_it_was():
    """Names of runs and studies hold it, and a resume looks for it."""
    job = FoldJob(
        data="glyphs",
        data_digest="0" * 12,
        method=MethodSpec(name="hpl", knobs={"a": 0.5}),
        training=load_recipe("small"),
    )
    assert job.digest() == "de3983123fff"
    image = job.to_dict()["training"]["image"]  # type: ignore[index]
    assert (image["cutout"], image["randaugment"]) == (0, None)


@pytest.mark.parametrize("image", [{"cutout": 0.5}, {"randaugment": [2, 9]}])
def test_settings_that_came_later_count_once_they_are_on(image):
    changed = TrainingSpec.from_dict(content(image=image))
    assert changed.digest() != DIGESTS["small"]
    assert TrainingSpec.from_dict(changed.to_dict()) == changed


def test_a_recipe_from_before_there_were_cutout_and_randaugment_has_them_off():
    old = content()
    del old["image"]["cutout"], old["image"]["randaugment"]
    assert TrainingSpec.from_dict(old) == load_recipe("small")


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        ({"cutout": 1.5}, "'image.cutout' cannot be 1.5"),
        ({"randaugment": [2, 31]}, "'image.randaugment.1' cannot be 31"),
        ({"randaugment": [0, 9]}, "'image.randaugment.0' cannot be 0"),
        ({"randaugment": 2}, "write numbers with commas between"),
    ],
)
def test_random_changes_out_of_range_end_in_a_sentence(image, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainingSpec.from_dict(content(image=image))
