"""Ray Tune over the study: a thin searcher, a scheduler for the race, and light trials.

Tune's trials train nothing: they hang jobs on the board and wait. What Tune keeps of its own
(pickles of searcher and scheduler, results) decides nothing and is thrown away with the session.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.actor import ActorHandle
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from hsearch.cluster.board import light
from hsearch.cluster.crew import Crew
from hsearch.cluster.desk import Desk
from hsearch.errors import ClusterError
from hsearch.folds import NUM_FOLDS

MAX_FAILURES = 3


def follow_trial(config: dict[str, Any]) -> None:
    """Body of a light trial: hangs out the jobs of its folds and reports every outcome.

    Tune lets it go on after a report only if the race does.

    Args:
        config: `number`, `board` (name of the actor), `ahead` (folds at once), and `jobs`: a list
            of (fold, FoldJob as JSON, run folder).
    """
    board = ray.get_actor(config["board"])
    waiting = list(config["jobs"])
    running: list[ray.ObjectRef] = []
    while waiting or running:
        while waiting and len(running) < config["ahead"]:
            fold, job, path = waiting.pop(0)
            running.append(board.train.remote((config["number"], fold), job, path))
        done, running = ray.wait(running)
        tune.report({"number": config["number"], "outcome": ray.get(done[0])})


class _Unkept:
    """What Tune would pickle into its own files, of which nothing is ever read."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StudySearcher(_Unkept, Searcher):  # type: ignore[misc]
    """Lets the desk propose."""

    def __init__(self, desk: Desk, board: str) -> None:
        super().__init__(metric=None, mode=None)
        self.desk, self.board = desk, board

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Returns the configuration of a light trial, None for "later", or FINISHED."""
        trial = self.desk.next_trial()
        if trial is None:
            return Searcher.FINISHED if self.desk.is_over else None
        jobs = [trial.job.model_copy(update={"fold": f}) for f in range(NUM_FOLDS)]
        return {
            "number": trial.number,
            "board": self.board,
            "ahead": self.desk.folds_ahead,
            "jobs": [
                (job.fold, job.model_dump_json(), str(self.desk.path(trial.number, job.fold)))
                for job in jobs
                if job.fold not in trial.folds
            ],
        }

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Notes if Ray cannot follow a trial; its outcomes the scheduler has entered."""
        if error and self.desk.trouble is None:
            self.desk.trouble = ClusterError(
                "Ray gave up following a trial; run the same command again to go on."
            )

    def save(self, checkpoint_path: str) -> None:
        """Saves nothing: the study is the record."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Restores nothing: the study is the record."""


class FoldScheduler(_Unkept, FIFOScheduler):  # type: ignore[misc]
    """Enters every outcome in the study and ends a trial when the record says so."""

    def __init__(self, desk: Desk, board: ActorHandle) -> None:
        super().__init__()
        self.desk, self.board = desk, board

    def on_trial_result(
        self,
        tune_controller: Any,  # noqa: ANN401 (Tune's own)
        trial: Any,  # noqa: ANN401
        result: dict[str, Any],
    ) -> str:
        """Returns whether Tune's trial goes on."""
        number, outcome = result["number"], _outcome(result)
        if not self.desk.enter(number, outcome):
            decision: str = TrialScheduler.CONTINUE
            return decision
        self.board.withdraw.remote(number)
        decision = TrialScheduler.STOP
        return decision


class EveryStep(_Unkept, tune.Callback):  # type: ignore[misc]
    """Calls a function in every round of Tune's loop, in the driver's thread."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function

    def on_step_end(self, iteration: int, trials: list[Any], **info: object) -> None:
        """Calls the function."""
        self.function()


class WhenHalted(_Unkept, tune.Stopper):  # type: ignore[misc]
    """Ends the whole search when a function says so."""

    def __init__(self, halted: Callable[[], bool]) -> None:
        self.halted = halted

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Never ends a single trial."""
        return False

    def stop_all(self) -> bool:
        """Whether the search is to end now."""
        return self.halted()


def run_tune(desk: Desk, crew: Crew, stopping: threading.Event) -> None:
    """Runs the search until the desk has nothing more, it is stopped, or there is trouble."""

    def step() -> None:
        crew.every_step()
        if stopping.is_set():
            desk.stop()
            crew.pause()

    def halted() -> bool:
        return crew.is_halted() or desk.trouble is not None

    tuner = tune.Tuner(
        tune.with_resources(follow_trial, light()),
        tune_config=tune.TuneConfig(
            search_alg=StudySearcher(desk, crew.name),
            scheduler=FoldScheduler(desk, crew.board),
            num_samples=-1,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(crew.session.scratch),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
            callbacks=[EveryStep(step)],
            stop=WhenHalted(halted),
        ),
    )
    tuner.fit()


def _outcome(result: dict[str, Any]) -> dict[str, Any]:
    """Takes the outcome out of a result, which Tune has flattened."""
    prefix = "outcome/"
    return {key.removeprefix(prefix): v for key, v in result.items() if key.startswith(prefix)}
