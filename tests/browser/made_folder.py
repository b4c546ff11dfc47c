"""A folder as users have it after two small studies and their reproductions."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hsearch.evaluation.query_table import FLOOR_NAME
from hsearch.folds import NUM_FOLDS
from hsearch.report.model_pictures import write_model_pictures
from hsearch.search.plan import plan_study
from hsearch.search.reproduced import PICTURES, Protocol, run_name
from hsearch.search.reproduction import Reproduction
from hsearch.search.reproduction_plan import plan_reproduction
from hsearch.search.study import Study
from hsearch.tracking.reproductions import ReproductionTracker
from hsearch.tracking.tracker import Tracker
from hsearch.tracking.writer import open_client
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.testing import score_floor, score_run
from tests.conftest import TINY
from tests.search.made_results import made_result

METHODS = {"proxy_nca": 0.31, "hpl": 0.37}
"""With the score around which the made trials of its search lie."""
FLOOR = 0.21
"""Of the validation, on the first fold."""
EXPERIMENT = "hsearch/toy"
NUM_TRIALS, NUM_RUNS = 3, 2
PROTOCOL: Protocol = "cross-validated"


@dataclass(frozen=True)
class MadeFolder:
    """Where the studies lie.

    Attributes:
        path: Holds hsearch.db, mlflow.db, mlruns/ and studies/.
        studies: Names of the studies.
    """

    path: Path
    studies: tuple[str, ...]

    @property
    def storage(self) -> str:
        return str(self.path / "hsearch.db")

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.path / 'mlflow.db'}"

    def children(self, study: str) -> list[str]:
        """Names of the MLflow runs below a study's."""
        trials = [f"trial-{number:03d} of {study}" for number in range(NUM_TRIALS)]
        runs = [f"{run_name(number)} of {study} ({PROTOCOL})" for number in range(NUM_RUNS)]
        return trials + runs

    def pictures(self, study: str) -> Path:
        return self.path / "studies" / study / f"reproduce-{PROTOCOL}" / run_name(0) / PICTURES


def run_of(folder: MadeFolder, name: str) -> Any:
    """The MLflow run of that name."""
    client = open_client(folder.tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], f"run_name = '{name}'")
    return run


def make_folder(path: Path, data: Path) -> MadeFolder:
    """Records two studies of made trials, and really trains and tests their reproductions."""
    names = []
    for method, score in METHODS.items():
        folder = MadeFolder(path, ())
        plan = plan_study(method=method, data=str(data), recipe="small", settings=TINY)
        with closing(Study.open(plan.default_name, folder.storage, plan.spec, plan.space)) as study:
            study.take_over()
            study.set_attribute("command", f"hsearch tune --method {method} --data toy --trials 3")
            _search(study, score, folder.tracking_uri)
            _reproduce(study, folder)
        names.append(plan.default_name)
    return MadeFolder(path, tuple(names))


def _search(study: Study, score: float, uri: str) -> None:
    for number in range(NUM_TRIALS):
        trial = study.propose()
        for fold in range(NUM_FOLDS):
            if trial.state == "running":
                job = trial.job.model_copy(update={"fold": fold})
                made = made_result(job, score + 0.02 * fold + 0.011 * number)
                floor = {"map_at_r": FLOOR + 0.01 * fold}
                made = made.model_copy(update={"floor": floor})
                trial = study.record_fold(trial.number, made)
    tracker = Tracker(study.record, study.note_run, uri)
    assert tracker.close(timeout=120), tracker.behind


def _reproduce(study: Study, folder: MadeFolder) -> None:
    record = study.record()
    assert record.best is not None
    spec = plan_reproduction(record, record.best, PROTOCOL, seed=1000, runs=NUM_RUNS)
    runs = folder.pictures(study.name).parents[1]
    with closing(Reproduction.open(spec, folder.storage)) as reproduction:
        reproduction.take_over()
        reproduction.begin(NUM_RUNS)
        reproduction.record_floor(score_floor(spec.job, runs / FLOOR_NAME))
        for number in range(NUM_RUNS):
            for fold in spec.folds:
                place = runs / run_name(number) / f"fold-{fold}"
                result = train_locally(spec.job_of(number, fold), Report(), place)
                reproduction.record_fold(number, result)
            reproduction.record_tested(number, score_run(runs / run_name(number), spec.folds))
        write_model_pictures(runs / run_name(0) / "fold-0", folder.pictures(study.name), "test")
        tracker = ReproductionTracker(study, reproduction, folder.tracking_uri, runs)
        assert tracker.bring_up(), tracker.behind
