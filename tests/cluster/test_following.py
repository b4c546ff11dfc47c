"""Many trials in few light trials of Tune's: real Tune, a real board and record, no training."""

import os
from contextlib import closing
from types import SimpleNamespace

import pytest

from hsearch.cluster import following
from hsearch.cluster.board import LIGHT, Board
from hsearch.cluster.desk import Desk
from hsearch.cluster.session import ray_session
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.spec import FoldJob
from tests.cluster.searches import kill, processes_of
from tests.search.made_study import SPACE, formula, made_spec

LIGHT_PROCESS = "ImplicitFunc"  # as Tune names them
GROUPS, TRIALS, FOLLOWERS = 6, 20, 2


class Trainers:
    """All groups in one actor; `trained` has the keys of all jobs."""

    def __init__(self):
        self.trained = []

    async def work(self):
        import asyncio

        import ray

        board = ray.get_actor("board")
        node = ray.get_runtime_context().get_node_id()

        async def group(number):
            await board.enter.remote(number, [node])
            while (taken := await board.take.remote(number, 20.0)) != "leave":
                if taken is not None:
                    self.trained.append(tuple(taken["key"]))
                    result = formula(FoldJob.model_validate_json(taken["job"]))
                    outcome = {"result": result.model_dump_json()}
                    await board.finish.remote(number, taken["key"], outcome)

        await asyncio.gather(*[group(number) for number in range(GROUPS)])

    async def keys(self):
        return self.trained


class Followers(Watch):
    """Kills a light process in the midst of the search, and counts them."""

    def __init__(self):
        self.most = self.changes = 0
        self.killed = False

    def trial(self, record):
        self.changes += 1
        if self.changes % 10 == 0:
            processes = processes_of(os.getpid(), LIGHT_PROCESS)
            self.most = max(self.most, len(processes))
            if self.changes >= 30 and processes and not self.killed:
                self.killed = True
                kill(processes[0])


@pytest.fixture
def ray_here(tmp_path):
    with ray_session(None, tmp_path / "ray") as session:
        yield session


def test_few_light_processes_follow_all_trials_and_one_that_dies_loses_nothing(
    tmp_path, ray_here, monkeypatch
):
    import ray

    from hsearch.cluster.tuning import run_tune

    monkeypatch.setattr(following, "MAX_FOLLOWERS", FOLLOWERS)
    light = {"num_cpus": 0, "resources": LIGHT}
    board = ray.remote(**light, max_concurrency=100)(Board).options(name="board").remote()
    trainers = ray.remote(**light, max_concurrency=10)(Trainers).remote()
    work = trainers.work.remote()
    watch = Followers()
    with closing(Study.open("s", str(tmp_path / "s.db"), made_spec(), SPACE)) as study:
        study.take_over()
        desk = Desk(study, TRIALS, tmp_path, watch, lambda: None, lambda: GROUPS)
        crew = SimpleNamespace(
            board=board,
            name="board",
            session=ray_here,
            is_halted=lambda: False,
            every_step=lambda: None,
        )
        run_tune(desk, crew)  # type: ignore[arg-type]
        trials = study.record().trials
    ray.get(board.close.remote())
    ray.get(work)
    assert desk.trouble is None
    assert watch.killed
    assert 0 < watch.most <= FOLLOWERS + 1  # one that was killed, until it is seen
    assert len(trials) == TRIALS
    assert {trial.state for trial in trials} == {"complete", "lost"}
    trained = ray.get(trainers.keys.remote())
    assert sorted(trained) == [(trial.number, fold) for trial in trials for fold in trial.folds]
