from contextlib import closing

import pytest

from hsearch.errors import ConfigError
from hsearch.folds import ALL_CLASSES
from hsearch.intervals import mean_of
from hsearch.results import FloorScore
from hsearch.search.lease import Lease
from hsearch.search.reproduction import Reproduction, load_reproduction
from hsearch.search.reproduction_plan import plan_reproduction
from hsearch.search.study import study_names
from tests.search.made_reproduction import finish_run, made_plan, made_spec_on, made_test
from tests.search.made_results import made_result
from tests.search.made_study import search


@pytest.fixture
def study(opened, toy_store):
    """The record of a search of three trials."""
    return search(opened(made_spec_on(toy_store)), 3)


@pytest.fixture
def reproduction(study, storage):
    with closing(Reproduction.open(made_plan(study), storage)) as found:
        found.take_over()
        yield found


def test_the_best_trial_is_trained_with_other_seeds_on_all_folds(study):
    spec = made_plan(study)
    best = study.best
    assert (spec.study, spec.trial, spec.folds) == ("s", best.number, (0, 1, 2, 3))
    for run in range(3):
        for fold in range(4):
            job = spec.job_of(run, fold)
            assert job == best.job.model_copy(update={"seed": 1000 + run, "fold": fold})


def test_a_run_is_complete_once_it_is_tested(reproduction):
    reproduction.begin(2)
    for fold in range(4):
        job = reproduction.spec.job_of(0, fold)
        reproduction.record_fold(0, made_result(job, 0.5 + 0.01 * fold))
    first, second = reproduction.record().runs
    assert (first.state, first.seed, second.seed) == ("running", 1000, 1001)
    assert [first.folds[fold].score for fold in range(4)] == [0.5, 0.51, 0.52, 0.53]
    reproduction.record_tested(0, made_test(0.6))
    record = reproduction.record()
    assert [run.state for run in record.runs] == ["complete", "running"]
    assert record.runs[0].tested == made_test(0.6)
    assert record.runs[0].ended is not None
    assert record.complete == (record.runs[0],)


def test_means_are_over_the_complete_runs_alone(reproduction):
    reproduction.begin(4)
    for number, score in enumerate((0.4, 0.5, 0.7)):
        finish_run(reproduction, number, score)
    record = reproduction.record()
    separated = [score + 0.01 * -0.5 for score in (0.4, 0.5, 0.7)]
    assert record.means("separated")["map_at_r"].mean == pytest.approx(mean_of(separated).mean)
    assert record.means("separated")["map_at_r"].low == pytest.approx(mean_of(separated).low)
    assert record.means("concatenated")["map_at_r"] == mean_of([0.5, 0.6, 0.7999999999999999])


def test_what_is_recorded_is_there_again_and_more_runs_can_be_added(study, storage, reproduction):
    reproduction.begin(1)
    finish_run(reproduction, 0)
    reproduction.record_floor(FloorScore(metrics={"map_at_r": 0.1}, queries=40))
    reproduction.note_run("abc", 0)
    before = reproduction.record()
    with closing(Reproduction.open(made_plan(study), storage)) as again:
        assert again.record() == before == load_reproduction("s", "cross-validated", storage)
        again.begin(3)
        runs = again.record().runs
    assert runs[0] == before.runs[0]
    assert [(run.seed, run.state) for run in runs[1:]] == [(1001, "running"), (1002, "running")]
    assert (before.floor, before.run_ids) == ({"map_at_r": 0.1}, {0: "abc"})
    assert before.floor_queries == 40


def test_a_second_result_changes_nothing(reproduction):
    reproduction.begin(1)
    finish_run(reproduction, 0, 0.5)
    before = reproduction.record()
    reproduction.record_fold(0, made_result(reproduction.spec.job_of(0, 1), 0.9))
    reproduction.record_tested(0, made_test(0.9))
    reproduction.fail(0, "too late", final=True)
    assert reproduction.record() == before


def test_a_failed_run_has_its_reason_and_the_others_go_on(reproduction):
    reproduction.begin(2)
    reproduction.fail(0, "The loss\nran away.", final=True)
    finish_run(reproduction, 1)
    first, second = reproduction.record().runs
    assert (first.state, first.reason) == ("failed", "The loss ran away.")
    assert second.state == "complete"


def test_what_a_kill_left_half_recorded_is_completed(reproduction, monkeypatch):
    reproduction.begin(2)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reproduction._optuna, "set_trial_state_values", killed)
        with pytest.raises(KeyboardInterrupt):
            finish_run(reproduction, 0)
        with pytest.raises(KeyboardInterrupt):
            reproduction.fail(1, "why", final=True)
    reproduction.take_over()
    assert [run.state for run in reproduction.record().runs] == ["complete", "failed"]


def test_a_run_that_failed_for_no_fault_of_its_own_is_tried_again(reproduction):
    reproduction.begin(1)
    reproduction.record_fold(0, made_result(reproduction.spec.job_of(0, 0), 0.5))
    reproduction.fail(0, "The worker process died 3 times.", final=False)
    (failed,) = reproduction.record().runs
    assert (failed.state, failed.reason) == ("failed", "The worker process died 3 times.")
    reproduction.take_over()
    (again,) = reproduction.record().runs
    assert (again.state, again.reason, list(again.folds)) == ("running", None, [0])
    finish_run(reproduction, 0)
    assert reproduction.record().runs[0].state == "complete"


def test_it_stands_beside_the_study_and_is_none(study, storage, reproduction):
    reproduction.begin(1)
    assert study_names(storage) == ["s"]
    assert load_reproduction("s", "classic", storage) is None
    assert load_reproduction("other", "cross-validated", storage) is None


def test_one_without_a_finished_training_binds_nobody(study, storage, reproduction):
    reproduction.begin(2)
    other = made_plan(study).model_copy(update={"trial": 99})
    with closing(Reproduction.open(other, storage)) as replaced:
        assert (replaced.record().spec.trial, replaced.record().runs) == (99, ())


def test_another_best_trial_is_refused_until_it_is_begun_anew(study, storage, reproduction):
    reproduction.begin(2)
    reproduction.record_fold(0, made_result(reproduction.spec.job_of(0, 0), 0.5))
    other = made_plan(study).model_copy(update={"trial": 99})
    with pytest.raises(ConfigError, match=r"begun with trial \d, but trial 99 is the best"):
        Reproduction.open(other, storage)
    with closing(Reproduction.open(other, storage, anew=True)) as anew:
        assert (anew.record().spec.trial, anew.record().runs) == (99, ())


def test_nothing_is_begun_anew_while_another_driver_is_at_work(study, storage, reproduction):
    reproduction.begin(1)
    with Lease(reproduction):
        with pytest.raises(ConfigError, match="is being run by another process"):
            Reproduction.open(made_plan(study), storage, anew=True)
        assert len(reproduction.record().runs) == 1


def test_seeds_of_the_search_are_refused(study):
    with pytest.raises(ConfigError, match=r"seeds that the search has not seen, but 0 .* 0\.\.4"):
        plan_reproduction(study, study.best, "cross-validated", seed=0, runs=5)


def test_a_trial_without_all_folds_is_refused(study):
    lost = study.best.model_copy(update={"state": "lost", "number": 9})
    with pytest.raises(ConfigError, match="Only a trial with all folds"):
        plan_reproduction(study, lost, "cross-validated", seed=1, runs=5)


@pytest.mark.parametrize("protocol", ["cross-validated", "classic"])
def test_other_data_than_those_of_the_search_are_refused(study, protocol):
    old = study.best.job.model_copy(update={"data_digest": "0" * 64})
    best = study.best.model_copy(update={"job": old})
    with pytest.raises(ConfigError, match=r"has changed since 's' was searched"):
        plan_reproduction(study, best, protocol, seed=1000, runs=2)


def test_a_cross_validated_one_takes_no_settings(study):
    with pytest.raises(ConfigError, match="belong to `--protocol classic`"):
        plan_reproduction(
            study, study.best, "cross-validated", seed=1, runs=5, recipe="hpl/classic"
        )


class TestClassic:
    def test_one_network_of_all_classes_by_the_shared_settings_of_the_papers(self, study):
        spec = made_plan(study, "classic")
        model, schedule = spec.job.training.model, spec.job.training.schedule
        optimizer = spec.job.training.optimizer
        assert spec.folds == (ALL_CLASSES,)
        assert (model.backbone, model.embedding_dim) == ("resnet50.tv_in1k", 512)
        assert (model.pooling, model.weights) == ("avg+max", "pretrained")
        assert (optimizer.name, optimizer.lr["backbone"], schedule.epochs) == ("adamw", 1e-4, 30)

    def test_the_knobs_are_those_of_the_trial(self, study):
        best = study.best
        job = made_plan(study, "classic").job
        assert job.method == best.job.method
        assert job.training.optimizer.lr["proxies"] == best.knobs["optimizer.lr.proxies"]

    def test_another_recipe_and_settings_go_before(self, study):
        spec = plan_reproduction(
            study,
            study.best,
            "classic",
            seed=1000,
            runs=2,
            recipe="small",
            settings={"schedule.epochs": 3, "method.fine_scale": 8.0},
        )
        assert spec.job.training.recipe == "small"
        assert spec.job.training.schedule.epochs == 3
        assert spec.job.method.knobs["fine_scale"] == 8.0
