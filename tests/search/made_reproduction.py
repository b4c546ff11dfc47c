"""Reproductions that nothing was trained for."""

from hsearch.data.store import Store
from hsearch.folds import NUM_FOLDS
from hsearch.results import Tested
from hsearch.search.record import StudyRecord, StudySpec
from hsearch.search.reproduced import Protocol, ReproductionSpec
from hsearch.search.reproduction import Reproduction
from hsearch.search.reproduction_plan import plan_reproduction
from tests.search.made_results import made_result
from tests.search.made_study import made_spec


def made_spec_on(store: Store) -> StudySpec:
    """A search on data that are there, as a reproduction wants them."""
    spec = made_spec()
    data = {"data": str(store.path), "data_digest": store.digest}
    return spec.model_copy(update={"job": spec.job.model_copy(update=data)})


def made_plan(study: StudyRecord, protocol: Protocol = "cross-validated") -> ReproductionSpec:
    """The plan of the study's best trial, with seeds from 1000 on."""
    assert study.best is not None
    return plan_reproduction(study, study.best, protocol, seed=1000, runs=10)


def made_test(score: float) -> Tested:
    """A test of four networks around a score, joined a little better."""
    models = [{"map_at_r": score + 0.01 * k, "ap": score} for k in range(-2, 2)]
    return Tested(
        models=tuple(models), concatenated={"map_at_r": score + 0.1, "ap": 0.9}, queries=7
    )


def finish_run(reproduction: Reproduction, number: int, score: float = 0.5) -> None:
    """Records a run as a driver does: its folds one after the other, then its test."""
    for fold in range(NUM_FOLDS):
        job = reproduction.spec.job_of(number, fold)
        reproduction.record_fold(number, made_result(job, score))
    reproduction.record_tested(number, made_test(score))
