"""Two ways to drive a search in the virtual cluster: hsearch's own, and Ray's OptunaSearch."""

import statistics
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
from optuna.storages import RDBStorage
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from hsearch.cluster.desk import Desk
from hsearch.cluster.following import Following
from hsearch.cluster.preflight import concurrent_trials
from hsearch.cluster.tuning import FoldScheduler, StudySearcher
from hsearch.folds import NUM_FOLDS
from hsearch.search.space import SearchSpace
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.spec import FoldJob
from hsearch.tracking.tracker import Tracker
from scaling.virtual import Cluster

NEAR = 0.99  # a trial that is as good as this share of the best recorded one counts as found


class OurDriver:
    """The searcher, scheduler, desk and study of `hsearch tune`, on a board that is virtual.

    Args:
        cluster: Where it drives.
        study: Opened for searching.
        trials: How many it shall have.
        folder: Where networks would be.
    """

    def __init__(self, cluster: Cluster, study: Study, trials: int, folder: Path) -> None:
        self.cluster, self.study = cluster, study
        self.mlflow: MlflowThread | None = None
        groups = cluster.seen.groups
        self.desk = Desk(
            study, trials, folder, Watch(), self._changed, lambda: concurrent_trials(groups, 1)
        )
        board = SimpleNamespace(
            hang=SimpleNamespace(remote=self._hang),
            withdraw=SimpleNamespace(remote=cluster.withdraw),
        )
        following = Following(self.desk, board)
        self.searcher = StudySearcher(self.desk, following, "virtual")
        self.scheduler = FoldScheduler(following)
        self.rows: dict[int, int] = {}

    def suggest(self, follower: str) -> bool | None:
        before = self.desk.proposed
        answer = self.searcher.suggest(follower)
        if self.desk.proposed > before:
            self.cluster.seen.last_proposal = self.cluster.now()
        return None if answer == Searcher.FINISHED else answer is not None

    def report(self, follower: str, outcomes: list[dict[str, Any]]) -> bool:
        trial = SimpleNamespace(trial_id=follower)
        decision = self.scheduler.on_trial_result(None, trial, {"outcomes": outcomes})
        best, seen = self.study.best, self.cluster.seen
        score = best.score or 0.0 if best else 0.0
        if seen.to_best is None and score >= NEAR * self.cluster.recorded.best:
            seen.to_best = self.cluster.now()
        return bool(decision == TrialScheduler.CONTINUE)

    def _hang(self, follower: str, key: tuple[int, int], job: str, path: str) -> None:
        number, fold = key
        recorded = self.cluster.recorded
        if number not in self.rows:
            self.rows[number] = recorded.nearest(self.desk.running[number].knobs)
        row = self.rows[number]

        def make() -> dict[str, Any]:
            made = recorded.result(FoldJob.model_validate_json(job), row, number)
            return {"key": key, "result": made}

        seconds = recorded.seconds(row, fold)
        self.cluster.hang({"follower": follower, "key": key, "seconds": seconds, "make": make})

    def _changed(self) -> None:
        if self.mlflow is not None:
            self.mlflow.changed.append(self.cluster.now())


class PeerDriver:
    """Ray's own way: OptunaSearch asks and tells, one process per trial, all folds of each."""

    def __init__(
        self, cluster: Cluster, space: SearchSpace, storage: RDBStorage, trials: int, name: str
    ) -> None:
        self.cluster, self.trials = cluster, trials
        self.searcher = OptunaSearch(
            space=lambda trial: self._draw(space, trial),
            metric="score",
            mode="max",
            sampler=optuna.samplers.TPESampler(seed=0),
            storage=storage,
            study_name=name,
        )
        self.scores: dict[str, list[float]] = {}
        self.rows: dict[str, int] = {}
        self.proposed = 0

    def _draw(self, space: SearchSpace, trial: optuna.Trial) -> None:
        space.suggest(trial)

    def suggest(self, follower: str) -> bool | None:
        if self.proposed >= self.trials:
            return None
        if len(self.scores) >= self.cluster.seen.groups:
            return False
        knobs = self.searcher.suggest(follower)
        self.rows[follower] = self.cluster.recorded.nearest(knobs)
        self.scores[follower] = []
        self._hang(follower, self.proposed, 0, later=self.cluster.cost.start)
        self.proposed += 1
        self.cluster.seen.last_proposal = self.cluster.now()
        return True

    def report(self, follower: str, outcomes: list[dict[str, Any]]) -> bool:
        (outcome,) = outcomes
        number, fold = outcome["key"]
        scores = self.scores[follower]
        scores.append(outcome["score"])
        result = {"score": statistics.fmean(scores), "training_iteration": fold + 1}
        if fold + 1 < NUM_FOLDS:
            self.searcher.on_trial_result(follower, result)
            self._hang(follower, number, fold + 1)
            return True
        self.searcher.on_trial_complete(follower, result)
        del self.scores[follower]
        seen = self.cluster.seen
        if seen.to_best is None and result["score"] >= NEAR * self.cluster.recorded.best:
            seen.to_best = self.cluster.now()
        return False

    def _hang(self, follower: str, number: int, fold: int, later: float = 0.0) -> None:
        recorded, row = self.cluster.recorded, self.rows[follower]
        key = (number, fold)

        def make() -> dict[str, Any]:
            return {"key": key, "score": recorded.score(row, number, fold)}

        seconds = recorded.seconds(row, fold)
        ticket = {"follower": follower, "key": key, "seconds": seconds, "make": make}
        self.cluster.hang(ticket, later)


class Calls:
    """A client of MLflow that counts its calls and keeps nothing."""

    def __init__(self) -> None:
        self.count = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (any method of the client)
        def call(*arguments: object, **named: object) -> object:
            self.count += 1
            if name == "create_run":
                return SimpleNamespace(info=SimpleNamespace(run_id=f"run-{self.count}"))
            if name == "search_runs":
                return _Page()
            if name == "get_experiment":
                return SimpleNamespace(experiment_id="1", tags={})
            return None

        return call


class _Page(list[object]):
    token = None


class _Still(Tracker):
    """The tracker without its thread: the simulation says when it looks."""

    def _run(self) -> None:
        pass


class MlflowThread:
    """The real tracker in virtual time: calls take what was measured, the rest is timed.

    Args:
        cluster: In whose time.
        driver: What it follows.
        call_seconds: Of one call.

    Attributes:
        changed: When the record changed since it was last looked at.
        lags: Seconds from each change until MLflow shows it.
        calls: Moments of all calls.
    """

    def __init__(self, cluster: Cluster, driver: OurDriver, call_seconds: float) -> None:
        self.cluster, self.call_seconds = cluster, call_seconds
        study = driver.study
        self.tracker = _Still(study.record, study.note_run, "http://127.0.0.1:1", threading.Event())
        self.client = Calls()
        self.tracker._client = self.client  # type: ignore[assignment]
        self.changed: list[float] = []
        self.lags: list[tuple[float, float]] = []
        self.busy_until = 0.0
        self.debt = 0.0
        driver.mlflow = self
        cluster.after_call = self.after_call

    def after_call(self, now: float) -> float:
        """Looks if it is free; returns the seconds for which it held the interpreter."""
        self.look(now)
        debt, self.debt = self.debt, 0.0
        return debt

    def look(self, now: float) -> None:
        """Brings MLflow up to the record, if it is free and there is something to write."""
        if now < self.busy_until or not self.changed:
            return
        changed, self.changed = self.changed, []
        before = self.client.count
        worked, seconds = self.cluster.stopwatch.time(self.tracker._attempt)
        assert worked, self.tracker._reason
        self.debt += seconds
        self.busy_until = now + seconds + (self.client.count - before) * self.call_seconds
        self.lags += [(moment, self.busy_until - moment) for moment in changed]
        self.cluster.at(self.busy_until, self.look)
