"""Searches on images with several labels, and their classic reproduction, as planned."""

import pytest

from hsearch.folds import ALL_CLASSES, NUM_FOLDS
from hsearch.search.plan import plan_study
from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.search.reproduction_plan import plan_reproduction
from hsearch.spec import KnobValue
from hsearch.training.resolve import with_knobs
from tests.conftest import TINY
from tests.search.made_results import made_result

FOUND: dict[str, dict[str, KnobValue]] = {
    "mulcon": {"method.temperature": 0.31, "optimizer.lr.attention": 0.0123},
    "bce": {"optimizer.lr.classifiers": 0.0123},
}


@pytest.fixture(params=["mulcon", "bce"])
def study(request, label_store) -> StudyRecord:
    """A study whose one trial has knobs of its own."""
    settings = {**TINY, "schedule.epochs": 4}
    plan = plan_study(method=request.param, data=str(label_store.path), settings=settings)
    knobs = FOUND[request.param]
    assert knobs.keys() <= plan.spec.space.keys()
    job = with_knobs(plan.spec.job, knobs)
    folds = [job.model_copy(update={"fold": fold}) for fold in range(NUM_FOLDS)]
    trial = TrialRecord(
        number=0,
        state="complete",
        source="tpe",
        knobs=knobs,
        job=job,
        folds={fold.fold: made_result(fold, 0.5) for fold in folds},
        started=0.0,
        ended=1.0,
    )
    return StudyRecord(name="s", spec=plan.spec, trials=(trial,))


def test_a_search_maximises_mean_average_precision_by_the_recipe_of_labels(study):
    job = study.spec.job
    assert (job.objective, job.training.recipe) == ("map", "small-labels")
    assert job.training.batch.sampler == "shuffle"


def test_the_classic_protocol_trains_on_all_but_the_test_by_any_recipe(study):
    spec = plan_reproduction(
        study, study.trials[0], "classic", seed=1000, runs=2, recipe="small-labels"
    )
    assert (spec.job.fold, spec.folds) == (ALL_CLASSES, (ALL_CLASSES,))
    assert spec.job.training.recipe == "small-labels"
    assert spec.job.objective == "map"
    assert spec.job.method == study.trials[0].job.method
    found = FOUND[spec.job.method.name]
    for group, rate in spec.job.training.optimizer.lr.items():
        assert rate == found.get(f"optimizer.lr.{group}", rate)


def test_by_default_the_classic_recipe_is_that_of_the_paper(study):
    spec = plan_reproduction(study, study.trials[0], "classic", seed=1000, runs=2)
    assert spec.job.training.recipe == "mulcon/coco"
    assert spec.job.training.model.backbone == "resnet101.tv_in1k"
    assert spec.job.training.image.crop == 448


def test_cross_validation_trains_the_very_trial(study):
    spec = plan_reproduction(study, study.trials[0], "cross-validated", seed=1000, runs=2)
    assert spec.job == study.trials[0].job.model_copy(update={"seed": 1000})
    assert spec.folds == tuple(range(NUM_FOLDS))


def test_stages_that_are_left_out_do_not_come_back_with_the_knobs_that_were_found(study):
    trial = study.trials[0]
    found = trial.model_copy(update={"knobs": {**trial.knobs, "stages.classify.share": 0.4}})
    for settings, shares in (({}, [0.4]), ({"stages": None}, [])):
        spec = plan_reproduction(study, found, "classic", seed=1000, runs=2, settings=settings)
        assert [stage.share for stage in spec.job.training.stages.values()] == shares
