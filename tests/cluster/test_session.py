"""Starting Ray on this machine; how sessions end is seen in the tests of searches."""

import subprocess

import pytest
import ray

from hsearch.cluster.session import START_ATTEMPTS, ray_session
from hsearch.errors import ClusterError

BUSY = Exception("The current node timed out during startup.")  # as Ray raises it


@pytest.fixture
def starts(monkeypatch):
    """What each start of Ray does: raises, with a process left over, or nothing."""
    outcomes: list[Exception | None] = []
    left: list[subprocess.Popen[bytes]] = []

    def init(**arguments: object) -> None:
        left.append(subprocess.Popen(["sleep", "600"]))
        if (error := outcomes.pop(0)) is not None:
            raise error

    monkeypatch.setattr(ray, "init", init)
    yield outcomes, left
    for process in left:
        process.kill()
        process.wait()


def test_a_busy_machine_is_given_another_try_and_nothing_is_left_of_the_first(starts):
    outcomes, left = starts
    outcomes += [BUSY, None]
    with ray_session(None):
        assert [process.poll() for process in left] == [-9, None]
    assert outcomes == []


@pytest.mark.parametrize("errors", [[BUSY] * START_ATTEMPTS, [RuntimeError("no such folder")]])
def test_a_start_that_fails_is_one_sentence(starts, errors):
    outcomes, left = starts
    outcomes += errors
    with (
        pytest.raises(ClusterError, match="could not be started on this machine: "),
        ray_session(None),
    ):
        pass
    assert outcomes == []
    assert all(process.wait(5) == -9 for process in left)
