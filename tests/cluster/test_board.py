"""The board as the real actor that trials and worker groups speak to."""

import pytest

from hsearch.cluster.board import LEAVE, MAX_CRASHES, Board, light
from hsearch.cluster.session import ray_session


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A Ray session; gives the id of its only node."""
    import ray

    with ray_session(None):
        yield ray.get_runtime_context().get_node_id()


def test_what_is_light_lives_on_the_driver_s_node(here):
    import ray

    (node,) = [node for node in ray.nodes() if node["NodeID"] == here]
    (name,) = light()
    assert 0 < light()[name] < node["Resources"][name]


@pytest.fixture
def board(here):
    import ray

    actor = ray.remote(num_cpus=0, max_concurrency=100)(Board).remote()
    yield Calls(actor)
    ray.kill(actor)


class Calls:
    """Calls methods of the actor: `now` waits for the answer, `later` returns its reference."""

    def __init__(self, actor):
        self.actor = actor

    def later(self, method, *arguments):
        return getattr(self.actor, method).remote(*arguments)

    def now(self, method, *arguments):
        import ray

        return ray.get(self.later(method, *arguments), timeout=30)


def answer(reference):
    import ray

    return ray.get(reference, timeout=30)


def hang_out(board, key):
    """Hangs out a job and waits until it hangs there."""
    outcome = board.later("train", key, "{}", "path")
    board.now("events", 0.0)
    return outcome


def test_jobs_are_taken_in_order_and_their_outcomes_come_back(board, here):
    board.now("enter", 0, [here])
    first, second = hang_out(board, (0, 0)), hang_out(board, (0, 1))
    for key, score in (((0, 0), "a"), ((0, 1), "b")):
        assert tuple(board.now("take", 0, 5.0)["key"]) == key
        board.now("finish", 0, key, {"result": score})
    assert (answer(first), answer(second)) == ({"result": "a"}, {"result": "b"})


def test_a_group_waits_only_so_long_and_goes_home_at_the_end(board, here):
    board.now("enter", 0, [here])
    assert board.now("take", 0, 0.1) is None
    waiting = board.later("take", 0, 30.0)
    board.now("close")
    assert answer(waiting) == LEAVE


def test_a_job_that_hangs_out_already_is_not_doubled(board, here):
    board.now("enter", 0, [here])
    outcomes = [hang_out(board, (3, 1)), hang_out(board, (3, 1))]
    board.now("take", 0, 5.0)
    outcomes.append(hang_out(board, (3, 1)))
    board.now("finish", 0, (3, 1), {"result": "x"})
    assert [answer(outcome) for outcome in outcomes] == [{"result": "x"}] * 3
    assert board.now("take", 0, 0.1) is None


def test_a_lost_group_gives_its_job_back_before_all_others(board, here):
    for group in (0, 1):
        board.now("enter", group, [here])
    hang_out(board, (0, 0))
    board.now("take", 0, 5.0)
    hang_out(board, (1, 0))
    board.now("leave", 0)
    assert tuple(board.now("take", 1, 5.0)["key"]) == (0, 0)


def test_the_word_of_a_group_that_lost_its_job_is_ignored(board, here):
    for group in (0, 1):
        board.now("enter", group, [here])
    outcome = hang_out(board, (0, 0))
    board.now("take", 0, 5.0)
    board.now("leave", 0)
    board.now("take", 1, 5.0)
    board.now("finish", 0, (0, 0), {"result": "from the dead"})
    board.now("finish", 1, (0, 0), {"result": "from the living"})
    assert answer(outcome) == {"result": "from the living"}


def test_a_job_that_keeps_killing_its_worker_is_given_up(board, here):
    outcome = hang_out(board, (0, 2))
    for _ in range(MAX_CRASHES):
        board.now("enter", 0, [here])
        board.now("take", 0, 5.0)
    board.now("enter", 0, [here])
    assert "died 3 times while training fold 2" in answer(outcome)["failed"]


def test_a_lost_machine_is_not_counted_against_the_job(board, here):
    outcome = hang_out(board, (0, 0))
    for _ in range(2 * MAX_CRASHES):
        board.now("enter", 0, ["a machine that is gone"])
        board.now("take", 0, 5.0)
        board.now("look")
    board.now("enter", 0, [here])
    board.now("take", 0, 5.0)
    board.now("finish", 0, (0, 0), {"result": "at last"})
    assert answer(outcome) == {"result": "at last"}


def test_the_waiting_jobs_of_an_ended_trial_are_taken_down(board, here):
    board.now("enter", 0, [here])
    hang_out(board, (0, 1))
    hang_out(board, (1, 0))
    board.now("withdraw", 0)
    assert tuple(board.now("take", 0, 5.0)["key"]) == (1, 0)


def test_epochs_and_groups_are_told_once(board, here):
    board.now("enter", 0, [here])
    hang_out(board, (0, 0))
    board.now("take", 0, 5.0)
    board.now("epoch", 0, (0, 0), "{}")
    told = board.now("events", 5.0)
    assert {"event": "epoch", "key": (0, 0), "record": "{}"} in told
    assert board.now("events", 0.1) == []


def test_a_group_that_died_while_it_waited_takes_no_job_with_it(board, here):
    board.now("enter", 0, [here])
    of_the_dead = board.later("take", 0, 5.0)
    board.now("events", 0.0)
    board.now("enter", 0, [here])
    alive = board.later("take", 0, 5.0)
    hang_out(board, (0, 0))
    assert tuple(answer(alive)["key"]) == (0, 0)
    assert answer(of_the_dead) is None


def test_the_running_job_of_an_ended_trial_is_not_hung_out_again(board, here):
    board.now("enter", 0, [here])
    hang_out(board, (0, 1))
    board.now("take", 0, 5.0)
    board.now("withdraw", 0)
    board.now("enter", 0, [here])
    assert board.now("take", 0, 0.2) is None


def test_a_group_on_a_node_that_ends_gives_its_job_back_after_the_epoch(board, here):
    board.now("enter", 0, [here, "ending"])
    board.now("enter", 1, [here])
    outcome = hang_out(board, (0, 0))
    board.now("take", 0, 5.0)
    assert not board.now("must_pause", 0)
    board.now("empty_nodes", ["ending"])
    assert [board.now("must_pause", group) for group in (0, 1)] == [True, False]
    board.now("finish", 0, (0, 0), {"paused": "yes"})
    assert board.now("take", 0, 5.0) == LEAVE
    assert tuple(board.now("take", 1, 5.0)["key"]) == (0, 0)
    board.now("finish", 1, (0, 0), {"result": "x"})
    assert answer(outcome) == {"result": "x"}
    told = board.now("events", 0.0)
    assert {"event": "group", "alive": 2, "leaving": [0]} in told
    assert [event["key"] for event in told if event["event"] == "paused"] == [(0, 0)]


def test_all_pause_when_the_board_closes_so(board, here):
    import ray

    board.now("enter", 0, [here])
    hang_out(board, (0, 0))
    board.now("take", 0, 5.0)
    ray.get(board.actor.close.remote(after_epoch=True), timeout=30)
    assert board.now("must_pause", 0)
    assert board.now("take", 0, 5.0) == LEAVE


def test_who_is_taken_for_dead_pauses_and_goes_home(board, here):
    board.now("enter", 0, [here])
    board.now("leave", 0)
    assert board.now("must_pause", 0)
    assert board.now("take", 0, 5.0) == LEAVE


def test_what_a_machine_could_not_do_is_tried_on_another_one(board, here):
    board.now("enter", 0, ["a bad machine"])
    board.now("enter", 1, [here])
    outcome = hang_out(board, (0, 0))
    board.now("take", 0, 5.0)
    board.now("finish", 0, (0, 0), {"broken": "bad: no space left"})
    assert board.now("take", 0, 5.0) == LEAVE
    assert tuple(board.now("take", 1, 5.0)["key"]) == (0, 0)
    told = board.now("events", 0.0)
    assert {"event": "warning", "sentence": "bad: no space left"} in told
    board.now("leave", 0)
    board.now("finish", 1, (0, 0), {"broken": "here as well"})
    assert answer(outcome) == {"broken": "here as well"}


def test_an_outcome_is_kept_for_its_follower_until_it_was_reported(board, here):
    board.now("enter", 0, [here])
    for key in ((0, 0), (1, 0)):
        board.now("hang", "a", key, "{}", "path")
        board.now("take", 0, 5.0)
        board.now("finish", 0, key, {"result": str(key)})
    told = board.now("outcomes", "a", [])
    assert [outcome["key"] for outcome in told] == [(0, 0), (1, 0)]
    assert board.now("outcomes", "a", []) == told, "a follower that was started anew"
    assert board.now("outcomes", "a", [(0, 0)]) == told[1:]


def test_nobody_is_told_of_a_trial_that_has_ended(board, here):
    board.now("enter", 0, [here])
    for key in ((0, 0), (0, 1), (1, 0)):
        board.now("hang", "a", key, "{}", "path")
        board.now("take", 0, 5.0)
        if key == (0, 1):
            board.now("withdraw", 0)
        board.now("finish", 0, key, {"result": str(key)})
    assert [outcome["key"] for outcome in board.now("outcomes", "a", [])] == [(1, 0)]
