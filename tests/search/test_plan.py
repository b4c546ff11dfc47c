"""A study is complete and checked before anything starts."""

from dataclasses import replace

import pytest

from hsearch.data.store_writer import write_store
from hsearch.errors import ConfigError
from hsearch.methods import available_methods
from hsearch.search.domain import Choices, Interval, KnobRange
from hsearch.search.plan import describe, plan_study, without
from hsearch.search.proposal import first_proposals
from hsearch.search.space import load_space
from tests.conftest import toy_records


@pytest.fixture
def plan(toy_store):
    def make(method="hpl", settings=None, **further):
        return plan_study(
            method=method,
            data=str(toy_store.path),
            recipe="small",
            settings=settings or {},
            **further,
        )

    return make


def test_a_plan_searches_the_methods_space_for_the_datas_classes(plan):
    made = plan()
    names = [knob.name for knob in load_space("hpl").knobs]
    assert list(made.spec.space) == names
    # 24 classes: 12 for trainval, 9 of them train in every fold
    assert made.spec.space["method.num_coarse"].startswith("2 to 4, log")
    assert made.spec.space["method.fine_margin"] == "0 to 0.4; when method.base = proxy_anchor"
    assert made.spec.job.fold == 0


def test_a_knob_that_is_set_is_not_searched_and_decides_conditions(plan):
    made = plan(settings={"method.base": "proxy_nca"})
    assert "method.base" not in made.spec.space
    assert "method.fine_margin" not in made.spec.space, "it matters for proxy_anchor alone"
    assert made.spec.job.method.knobs["base"] == "proxy_nca"


def test_start_points_that_contradict_what_is_set_are_left_out_and_listed():
    space = load_space("hpl")
    agreeing = without(space, {"method.base": "proxy_nca"})
    bases = [point.values.get("method.base") for point in space.start]
    assert len(agreeing.start) == bases.count("proxy_nca") > 0
    assert all("method.base" not in point.values for point in agreeing.start)
    assert [(point.source[:11], why) for point, why in agreeing.left_out] == [
        ("Yang et al.", "method.base is proxy_nca")
    ]


def test_start_points_outside_the_datas_range_are_tried_inside_or_listed(plan):
    made = plan()
    tried = [proposal.source for proposal in first_proposals(made.spec.job, made.space)]
    assert tried[0] == "published, with method.num_coarse 4 instead of 10"
    assert any("figure 2" in s and "method.num_coarse 4 instead of 10" in s for s in tried)
    assert any("num_coarse 4 instead of 500), as here it is the same as" in n for n in made.notes)
    named = [point.source for point in load_space("hpl").start]
    assert all(any(source in text for text in (*tried, *made.notes)) for source in named)


@pytest.mark.parametrize("recipe", ["mlrc/cub", "mlrc/cars", "mlrc/sop", "mlrc/inshop"])
@pytest.mark.parametrize("method", available_methods("retrieval"))
def test_trial_0_of_the_reality_check_lies_inside_its_ranges(toy_store, method, recipe):
    made = plan_study(
        method=method, data=str(toy_store.path), recipe=recipe, settings={}, splits="disjoint"
    )
    first = first_proposals(made.spec.job, made.space)[0]
    moved = first.source.removeprefix("published")
    assert not moved or moved == ", with method.num_coarse 4 instead of 10", "there are 9 classes"
    rates = {n: r for n, r in made.spec.space.items() if n.startswith("optimizer.lr.p")}
    assert set(rates) <= {"optimizer.lr.proxies"}
    assert all(text.startswith("1e-06 to 1, log") for text in rates.values())


def test_a_recipe_brings_trials_sampler_and_ranges_and_the_command_line_goes_before(
    toy_store, tmp_path
):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "extends: small\ntrials: 7\nsampler: random\n"
        "ranges: {method.scale: {low: 2.0, high: 3.0}, method.margin: {low: 0.1, high: 0.2}}\n"
    )

    def made(**further):
        return plan_study(
            method="proxy_nca",
            data=str(toy_store.path),
            recipe=str(file),
            settings=further.pop("settings", {}),
            **further,
        )

    assert (made().trials, made().spec.sampler) == (7, "random")
    assert made().spec.space["method.scale"] == "2 to 3"
    assert "method.margin" not in made().spec.space, "which proxy_nca does not have"
    other = made(trials=3, sampler="tpe", settings={"method.scale": 5.0})
    assert (other.trials, other.spec.sampler) == (3, "tpe")
    assert "method.scale" not in other.spec.space
    space = tmp_path / "space.yaml"
    space.write_text("knobs:\n  method.scale: {low: 1.0, high: 64.0}\n")
    assert made(space_file=space).spec.space == {"method.scale": "1 to 64"}


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ("{method.scal: {low: 1.0, high: 2.0}}", "mine.yaml:2: unknown knob 'method.scal'"),
        ("{method.scale: {low: 3.0, high: 2.0}}", "mine.yaml:2: the range of 'method.scale' is em"),
        ("{method.scale: {lo: 3.0}}", "mine.yaml:2: unknown key 'lo'"),
        ("{method.scale: 3}", "mine.yaml:2: the range of 'method.scale' must look like"),
    ],
)
def test_a_wrong_range_of_an_own_recipe_is_a_sentence(toy_store, tmp_path, ranges, sentence):
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: small\nranges: {ranges}\n")
    with pytest.raises(ConfigError, match=sentence):
        plan_study(method="proxy_nca", data=str(toy_store.path), recipe=str(file), settings={})


def test_a_range_of_a_recipe_leaves_when_the_knob_matters(toy_store, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("extends: small\nranges: {method.fine_margin: {low: 0.1, high: 0.2}}\n")
    made = plan_study(method="hpl", data=str(toy_store.path), recipe=str(file), settings={})
    assert made.spec.space["method.fine_margin"] == "0.1 to 0.2; when method.base = proxy_anchor"


def test_a_frozen_backbones_rate_is_not_searched(label_store):
    def searched(**settings):
        given = {key.replace("__", "."): value for key, value in settings.items()}
        made = plan_study(
            method="bce", data=str(label_store.path), recipe="photos-labels", settings=given
        )
        return [name for name in made.spec.space if name.startswith("optimizer")]

    assert searched() == ["optimizer.lr.classifiers"]
    assert "optimizer.lr.backbone" in searched(model__regime="full")


def test_a_setting_that_is_unset_is_searched_as_if_nobody_had_set_it(plan):
    made = plan("proxy_nca", {"optimizer.lr.proxies": None})
    assert "optimizer.lr.proxies" in made.spec.space
    assert "proxies" not in made.spec.job.training.optimizer.lr


def test_a_learned_hierarchys_knobs_go_with_it():
    space = without(load_space("hpl"), {"method.hierarchy_source": "given"})
    names = [knob.name for knob in space.knobs]
    assert "method.num_coarse" not in names
    assert "method.fine_scale" in names


@pytest.fixture
def one_level(tmp_path):
    """As many classes and images as the toy data, without coarser labels."""
    path = tmp_path / "flat.arrow"
    records = (replace(record, labels=record.labels[-1:]) for record in toy_records())
    write_store(path, "flat", records, provenance={"made": "by the tests"})
    return str(path)


def flat_plan(data, method, settings=None):
    return plan_study(method=method, data=data, recipe="small", settings=settings or {})


def test_on_one_level_the_knobs_of_coarser_levels_are_not_searched(one_level, plan):
    flat, deep = flat_plan(one_level, "happier"), plan("happier")
    relevance = {"method.relevance", "method.alpha"}
    hrank = {"method.hrank", "method.hrank_slope", "method.hrank_start", "method.hrank_leak"}
    assert deep.spec.space.keys() - flat.spec.space.keys() == relevance | hrank
    sources = [point.source for point in flat.space.start]
    assert any("(SOP)" in source for source in sources)
    assert not any("HAPPIER_F" in source for source in sources), "an alpha above 1 is its idea"


def test_on_one_level_the_sum_over_levels_is_no_start_point(one_level):
    made = flat_plan(one_level, "triplet")
    assert list(made.spec.space) == ["method.variant", "method.margin"]
    assert not any("summed" in point.source for point in made.space.start)
    assert len(made.space.start) == 4


def test_on_one_level_the_sum_over_levels_cannot_be_set(one_level):
    with pytest.raises(ConfigError, match="`levels: all` of triplet needs data with more than"):
        flat_plan(one_level, "triplet", {"method.levels": "all"})


def test_a_recipes_knobs_are_tried_first_and_decide_conditions(toy_store):
    made = plan_study(
        method="happier", data=str(toy_store.path), recipe="happier/inat", settings={}
    )
    first, *others = first_proposals(made.spec.job, made.space, {})
    assert first.source == "published"
    assert (first.knobs["method.start"], first.knobs["method.offset"]) == (0.0, 1.0)
    assert first.knobs["optimizer.lr.proxies"] == 2e-5
    sop = next(point for point in others if "(SOP)" in point.source)
    assert (sop.knobs["method.start"], sop.knobs["method.offset"]) == (0.5, 1.44)


def test_what_is_set_goes_before_the_recipes_knobs(toy_store):
    settings = {"method.start": 0.25}
    made = plan_study(
        method="happier", data=str(toy_store.path), recipe="happier/inat", settings=settings
    )
    knobs = made.spec.job.method.knobs
    assert (knobs["start"], knobs["offset"]) == (0.25, 1.0)


@pytest.mark.parametrize(
    ("method", "knob", "value"), [("happier", "alpha", -1), ("hier", "num_lcas", 0)]
)
def test_a_fixed_knob_out_of_range_is_refused(plan, method, knob, value):
    with pytest.raises(ConfigError, match=f"`{knob}` of {method} must be .*, but got {value}."):
        plan(method, {f"method.{knob}": value})


def test_a_setting_that_is_no_knob_changes_the_job_alone(plan):
    made = plan("proxy_nca", {"image.scale": [0.5, 1.0], "schedule.epochs": 3})
    assert list(made.spec.space) == list(plan("proxy_nca").spec.space)
    assert made.spec.job.training.schedule.epochs == 3


def test_everything_set_is_an_error(plan):
    with pytest.raises(ConfigError, match="all knobs of proxy_nca are set"):
        plan("proxy_nca", {"method.scale": 9.0, "optimizer.lr.proxies": 0.1})


def test_the_default_name_follows_from_the_settings(plan):
    name = plan().default_name
    assert name == plan().default_name
    assert name.startswith("toy-hpl-")
    others = [plan(seed=1), plan(race=False), plan(settings={"method.coarse_weight": 1.0})]
    assert len({name, *(other.default_name for other in others)}) == 4


@pytest.mark.parametrize(
    ("data", "start"), [("Vögel 1", "V-gel-1-"), ("-x", "x-"), ("鳥.arrow", "data-")]
)
def test_the_default_name_is_no_option_whatever_the_data_is_called(plan, data, start):
    made = plan()
    job = made.spec.job.model_copy(update={"data": data})
    spec = made.spec.model_copy(update={"job": job})
    assert replace(made, spec=spec).default_name.startswith(f"{start}{job.method.name}-")


def test_batches_must_divide_among_the_workers(plan, tmp_path):
    plan("proxy_nca", {"batch.size": 32}).check_workers(4)
    with pytest.raises(ConfigError, match="got 32 and 3"):
        plan("proxy_nca", {"batch.size": 32}).check_workers(3)
    file = tmp_path / "space.yaml"
    file.write_text("knobs:\n  batch.size: {choices: [32, 36]}\n")
    with pytest.raises(ConfigError, match="got 36 and 8"):
        plan("proxy_nca", space_file=file).check_workers(8)


def test_a_range_is_described_with_its_condition():
    knob = KnobRange("a", Interval(1, 9, log=True), {"b": ("x", "y"), "c": (True,)})
    assert describe(knob) == "1 to 9, log; when b = x or y, c = true"
    assert describe(KnobRange("a", Choices((1, 2)))) == "1, 2"
