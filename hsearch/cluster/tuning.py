"""Ray Tune over the study: a thin searcher, a scheduler for the race, and light trials.

Tune's trials train nothing: they wait for outcomes and report them. What Tune keeps of its own
(pickles of searcher and scheduler, results) decides nothing and is thrown away with the session.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from hsearch.cluster.board import light
from hsearch.cluster.crew import Crew
from hsearch.cluster.desk import Desk
from hsearch.cluster.following import Following
from hsearch.errors import ClusterError

MAX_FAILURES = 3


def follow_trials(config: dict[str, Any]) -> None:
    """Body of a light trial: reports the outcomes of the jobs that hang on the board for it.

    The board keeps an outcome until its report has returned: one that is started anew loses none.

    Args:
        config: `board` (name of the actor) and `follower` (name of this one).
    """
    board = ray.get_actor(config["board"])
    reported: list[tuple[int, int]] = []
    while True:
        outcomes = ray.get(board.outcomes.remote(config["follower"], reported))
        tune.report({"outcomes": outcomes})
        reported = [outcome["key"] for outcome in outcomes]


class _Unkept:
    """What Tune would pickle into its own files, of which nothing is ever read."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StudySearcher(_Unkept, Searcher):  # type: ignore[misc]
    """Lets the desk propose."""

    def __init__(self, desk: Desk, following: Following, board: str) -> None:
        super().__init__(metric=None, mode=None)
        self.desk, self.following, self.board = desk, following, board

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Returns the configuration of a light trial, None for "later", or FINISHED."""
        while (trial := self.desk.next_trial()) is not None:
            follower = self.following.with_room()
            self.following.begin(follower or trial_id, trial)
            if follower is None:
                return {"board": self.board, "follower": trial_id}
        return Searcher.FINISHED if self.desk.is_over else None

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
    """Enters every outcome in the study and ends a light trial that has nothing more to follow."""

    def __init__(self, following: Following) -> None:
        super().__init__()
        self.following = following

    def on_trial_result(
        self,
        tune_controller: Any,  # noqa: ANN401 (Tune's own)
        trial: Any,  # noqa: ANN401
        result: dict[str, Any],
    ) -> str:
        """Returns whether Tune's trial goes on."""
        for outcome in result["outcomes"]:
            self.following.enter(outcome)
        goes_on = self.following.has_work(trial.trial_id)
        decision: str = TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP
        return decision


class EveryStep(_Unkept, tune.Stopper):  # type: ignore[misc]
    """Calls a function in every round of Tune's loop, which says whether the whole search must end.

    A callback would do too, but to count the kinds of callbacks Tune imports MLflow.
    """

    def __init__(self, must_end: Callable[[], bool]) -> None:
        self.must_end = must_end

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Never ends a single trial."""
        return False

    def stop_all(self) -> bool:
        """Whether the search is to end now."""
        return self.must_end()


def run_tune(desk: Desk, crew: Crew, stopping: threading.Event) -> None:
    """Runs the search until the desk has nothing more, it is stopped, or there is trouble."""

    def must_end() -> bool:
        crew.every_step()
        if stopping.is_set():
            desk.stop()
            crew.pause()
        return crew.is_halted() or desk.trouble is not None

    following = Following(desk, crew.board)
    tuner = tune.Tuner(
        tune.with_resources(follow_trials, light()),
        tune_config=tune.TuneConfig(
            search_alg=StudySearcher(desk, following, crew.name),
            scheduler=FoldScheduler(following),
            num_samples=-1,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(crew.session.scratch),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
            stop=EveryStep(must_end),
        ),
    )
    tuner.fit()
