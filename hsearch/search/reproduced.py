"""What the record of a reproduction holds: frozen values that survive a round trip through JSON."""

from typing import Literal

from pydantic import Field

from hsearch.addresses import P
from hsearch.folds import folds_of_run
from hsearch.intervals import Mean, mean_of
from hsearch.results import FoldResult, Metrics, Tested, TestedKind
from hsearch.spec import FoldJob, Spec

Protocol = Literal["cross-validated", "classic"]
PROTOCOLS: tuple[Protocol, ...] = ("cross-validated", "classic")
RunState = Literal["running", "complete", "failed"]


PICTURES = "pictures"
"""Of a run's folder: what its first network looks like on the test classes."""


def run_name(number: int) -> str:
    """Returns how a run is called: `run-003`."""
    return f"run-{number:03d}"


class ReproductionSpec(Spec):
    """What is trained again, and by which protocol.

    Attributes:
        study: Name of the study.
        trial: Number of its best trial when the reproduction began.
        protocol: `cross-validated`, a network per fold; or `classic`, one network that is trained
            on all classes but the test classes, without a validation.
        job: The first training of run 0; run r has `seed` + r, and a job for each of `folds`.
    """

    study: str
    trial: int
    protocol: Protocol
    job: FoldJob

    @property
    def folds(self) -> tuple[int, ...]:
        """The folds that every run trains."""
        return folds_of_run(self.job.fold)

    def job_of(self, run: int, fold: int) -> FoldJob:
        """Returns the training of one fold of a run."""
        return self.job.model_copy(update={"seed": self.job.seed + run, "fold": fold})

    def objective(self, tested: Metrics) -> str:
        """Returns the metric of a test that counts: the search's, or AP on data without it."""
        return self.job.objective if self.job.objective in tested else "ap"


def runs_folder(folder: P, spec: ReproductionSpec) -> P:
    """Returns where a reproduction's runs lie, `run-000` and so on, in the place of studies."""
    return folder / spec.study / f"reproduce-{spec.protocol}"


class RunRecord(Spec):
    """One run: the same knobs with another seed.

    Attributes:
        number: From 0.
        seed: Root of all its draws, shared by all methods' runs of that number.
        state: `complete` once it is tested, `failed` with a reason.
        folds: Results of its trainings, by fold.
        tested: Its scores on the test classes.
        reason: Why it failed.
        started: Seconds since the epoch.
        ended: Seconds since the epoch; null while running.
    """

    number: int
    seed: int
    state: RunState
    folds: dict[int, FoldResult] = Field(default_factory=dict)
    tested: Tested | None = None
    reason: str | None = None
    started: float
    ended: float | None = None


class ReproductionRecord(Spec):
    """A reproduction as recorded at one moment.

    Attributes:
        spec: What is reproduced.
        runs: By number.
        floor: All metrics on the test images of what needs no training: the backbone's own
            features without a head, or label frequencies where images have several labels.
        floor_queries: How many queries of the floor were scored one by one; 0 where images have
            several labels, and null where that was not asked, by an older hsearch.
        run_ids: Of MLflow's runs, by run.
        token: Tells it from one that was begun anew.
        command: That the last driver was started with.
        versions: Of the packages that ran it.
        level_names: What the levels of the data are called, coarsest first; empty in records from
            before this was kept.
    """

    spec: ReproductionSpec
    runs: tuple[RunRecord, ...] = ()
    floor: Metrics | None = None
    floor_queries: int | None = None
    run_ids: dict[int, str] = Field(default_factory=dict)
    token: str = ""
    command: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    level_names: tuple[str, ...] = ()

    def means(self, kind: TestedKind) -> dict[str, Mean]:
        """Returns every metric's mean over the complete runs; none where nothing is joined."""
        tests = [run.tested.metrics(kind) for run in self.complete if run.tested]
        found = [metrics for metrics in tests if metrics is not None]
        names = [name for name in found[0] if all(name in m for m in found)] if found else []
        return {name: mean_of([metrics[name] for metrics in found]) for name in names}

    @property
    def complete(self) -> tuple[RunRecord, ...]:
        """The runs that are tested."""
        return tuple(run for run in self.runs if run.state == "complete")
