"""What is seen of a search: plain lines in a pipe, a live display on a terminal."""

import contextlib
import os
import pty
import select
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsearch.cli.searching import Pace, SearchProgress, time_words
from hsearch.results import EpochRecord, FoldTime
from tests.cli.made_studies import made_record, made_trial

DONE = [0.5, 0.6, 0.5, 0.6]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def epoch(number: int) -> EpochRecord:
    return EpochRecord(
        epoch=number, loss=1.0, seconds=1.0, images_per_second=9.0, lr={}, validation=None
    )


def printed(capsys, *events, record=None, total=3):
    """The lines after the first, which tells the study, when these trials are told in turn."""
    with SearchProgress(record or made_record(), total) as progress:
        for trial in events:
            progress.trial(trial)
    return capsys.readouterr().out.splitlines()[1:]


def test_a_proposal_is_silent_and_every_fold_a_line(capsys):
    assert printed(capsys, made_trial(7, [])) == []
    assert printed(capsys, made_trial(7, []), made_trial(7, [0.412])) == [
        "trial 7  fold 0  MAP@R 0.4120  (2 s)"
    ]
    assert len(printed(capsys, made_trial(7, [0.4]), made_trial(7, [0.4]))) == 1


def test_the_end_of_a_trial_is_a_line_with_its_reason(capsys):
    lost = made_trial(7, [0.1, 0.1], "lost", "0.031 behind trial 4")
    assert printed(capsys, made_trial(7, [0.1]), lost)[1:] == [
        "trial 7  fold 1  MAP@R 0.1000  (2 s)",
        "trial 7  lost in the race after fold 1: 0.031 behind trial 4",
    ]
    failed = made_trial(8, [], "failed", "[loss] was nan")
    assert printed(capsys, failed) == ["trial 8  failed: [loss] was nan"]


def test_a_new_best_is_told_once(capsys):
    better, worse = [s + 0.1 for s in DONE], [s - 0.1 for s in DONE]
    events = [
        made_trial(0, DONE, "complete"),
        made_trial(1, worse, "complete"),
        made_trial(2, better, "complete"),
        made_trial(2, better, "complete"),
    ]
    ends = [line for line in printed(capsys, *events) if "done" in line]
    assert ends == [
        "trial 0  done  MAP@R 0.5500 +- 0.0289  new best",
        "trial 1  done  MAP@R 0.4500 +- 0.0289",
        "trial 2  done  MAP@R 0.6500 +- 0.0289  new best",
    ]


def test_the_objective_is_called_by_its_name_also_while_a_fold_runs(capsys):
    record = made_record()
    job = record.spec.job.model_copy(update={"objective": "h_violations"})
    record = record.model_copy(update={"spec": record.spec.model_copy(update={"job": job})})
    with SearchProgress(record, 3) as progress:
        progress.trial(made_trial(7, [0.412]))
        progress.epoch(7, 1, epoch(2).model_copy(update={"validation": {"h_violations": 0.25}}))
        (running,) = progress._running()
    assert "trial 7  fold 0  1 - violations 0.4120" in capsys.readouterr().out
    assert running.plain.endswith("1 - violations 0.7500")


def test_the_best_of_an_earlier_session_still_counts(capsys):
    record = made_record(made_trial(0, DONE, "complete"))
    lines = printed(capsys, made_trial(1, [0.3] * 4, "complete"), record=record)
    assert "new best" not in lines[-1]


def test_what_the_search_says_is_printed_as_it_is(capsys):
    with SearchProgress(made_record(), 3) as progress:
        progress.said("2 CPUs [here] / 1 per group = 2 groups")
    assert "2 CPUs [here] / 1 per group = 2 groups\n" in capsys.readouterr().out


def test_an_interrupt_says_what_is_kept(capsys):
    with contextlib.suppress(KeyboardInterrupt), SearchProgress(made_record(), 3) as progress:
        progress.trial(made_trial(0, [0.5, 0.5]))
        raise KeyboardInterrupt
    out = capsys.readouterr().out
    assert "keeps 2 finished fold trainings of 1 trial (1 interrupted)" in " ".join(out.split())
    assert "Run the same command again" in " ".join(out.split())


def test_an_epoch_that_comes_after_its_folds_result_or_its_trials_end_is_ignored():
    clock = Clock()
    with SearchProgress(made_record(), 3, clock) as progress:
        progress.trial(made_trial(0, []))
        progress.epoch(0, 0, epoch(1))
        progress.trial(made_trial(0, [0.5]))
        progress.epoch(0, 1, epoch(1))
        before = dict(progress.pace.shares)
        progress.epoch(0, 0, epoch(2))
        assert list(progress.epochs) == [(0, 1)]
        assert progress.pace.shares == before
        progress.trial(made_trial(0, [0.5], "lost", "behind"))
        progress.epoch(0, 1, epoch(2))
        assert (progress.epochs, progress.pace.shares) == ({}, {})


def test_pace_counts_running_folds_by_their_epochs():
    clock = Clock()
    pace = Pace(clock)
    assert pace.folds_per_minute() is None
    assert pace.seconds_left([], 3) is None
    clock.now = 70.0  # starting up is not training; an epoch takes a second here
    pace.epoch(0, 0, epoch(1), 60)
    assert pace.folds_per_minute() == pytest.approx(1.0)
    clock.now = 99.0
    pace.epoch(0, 0, epoch(30), 60)
    assert pace.folds_per_minute() == pytest.approx(1.0)
    clock.now = 129.0
    pace.fold(0, 0)
    assert pace.folds_per_minute() == pytest.approx(1.0)


def test_pace_leaves_out_what_an_earlier_session_has_trained():
    clock = Clock()
    pace = Pace(clock)
    clock.now = 31.0
    pace.epoch(0, 0, epoch(51), 60)
    assert pace.folds_per_minute() == pytest.approx(1.0), "one epoch of sixty in a second"
    clock.now = 40.0
    pace.fold(0, 0)
    assert pace.folds_per_minute() == pytest.approx(1.0), "the last ten of sixty in ten seconds"


def test_time_left_uses_the_mean_folds_of_ended_trials():
    clock = Clock()
    pace = Pace(clock)
    clock.now = 1.0
    pace.epoch(0, 0, epoch(1), 60)
    clock.now = 60.0
    pace.fold(0, 0)  # one fold a minute
    assert pace.seconds_left([], 2) == pytest.approx(8 * 60), "all folds, before one has ended"
    ended = [made_trial(0, DONE, "complete"), made_trial(1, [0.1, 0.1], "lost")]
    assert pace.seconds_left(ended, 4) == pytest.approx(2 * 3 * 60)
    running = [*ended, made_trial(2, [0.5])]
    assert pace.seconds_left(running, 4) == pytest.approx((3 + 2) * 60)
    assert pace.seconds_left(ended, 2) == 0


def test_time_left_counts_down_between_two_epochs():
    clock = Clock()
    pace = Pace(clock)
    clock.now = 1.0
    pace.epoch(0, 0, epoch(1), 60)
    before = pace.seconds_left([], 2)
    clock.now = 11.0
    assert before is not None
    assert pace.seconds_left([], 2) == pytest.approx(before - 10)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=20))
def test_time_left_is_never_negative(events):
    clock = Clock()
    pace = Pace(clock)
    for number, fold, done in events:
        clock.now += 1.0
        pace.epoch(number, fold, epoch(done), 5)
        if done == 5:
            pace.fold(number, fold)
    left = pace.seconds_left([made_trial(0, [0.1])], 1)
    assert left is None or left >= 0


PROGRAM = """
import time
from hsearch.cli.searching import SearchProgress
from tests.cli.made_studies import made_record, made_trial
from tests.cli.test_searching import epoch
with SearchProgress(made_record(), 3) as progress:
    progress.groups(2, 2)
    best = made_trial(0, [0.5, 0.6, 0.5, 0.6], "complete")
    knobs = {**best.knobs, **{f"method.knob_{n}": 0.5 for n in range(9)}, "method.last": 7}
    progress.trial(best.model_copy(update={"knobs": knobs}))
    progress.trial(made_trial(1, []))
    progress.epoch(1, 0, epoch(2))
    time.sleep(1.2)
"""


def test_a_terminal_shows_counts_best_and_running_folds():
    shown = on_a_terminal(PROGRAM)
    assert "1 of 3: 1 done, 1 running" in shown
    assert "2 of 2 worker groups" in shown
    assert "folds a minute" in shown
    assert "best: trial 0, MAP@R 0.5500 +- 0.0289" in shown
    assert "method.scale=8" in shown
    assert "method.last=7" in shown, "long lines are folded, not cut"
    assert "trial 1 fold 0: epoch 2 of" in shown
    assert "trial 0  fold 0" not in shown, "folds are lines in a pipe alone"


def on_a_terminal(program: str) -> str:
    """Everything that the program writes to a terminal of 100 columns."""
    main_end, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    with os.fdopen(main_end, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=terminal, stderr=terminal, env=environment
        )
        os.close(terminal)
        shown = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if not select.select([screen], [], [], 0.2)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                shown += screen.read(100_000)
            except OSError:  # the other end is closed
                break
        assert process.wait(timeout=10) == 0, shown.decode()
    return shown.decode()


def test_the_time_is_told_before_it_is_spent(capsys):
    full, frozen = FoldTime(seconds=240.0), FoldTime(seconds=6.0, features=120.0)
    told = time_words(full, frozen, 2, 50, race=True)
    own, other = told.split("; `")
    assert own == "About 4 min a fold here; 50 trials with the race about 2.7 h"
    assert other == "--regime frozen` about 5 min."
    alone = FoldTime(seconds=240.0, may_stop_early=True)
    assert time_words(alone, None, 4, 10, race=False) == (
        "At most 4 min a fold here; 10 trials at most 40 min."
    )


def test_features_and_floor_are_lines_in_a_pipe(capsys):
    with SearchProgress(made_record(), 3) as progress:
        progress.features(0, 1000)
        progress.features(1000, 1000)
        progress.features(1000, 1000)
        progress.validation_floor(0.2378)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0].startswith("Computing what the frozen backbone makes of the images: 1,000 ")
    assert lines[1].startswith("Features are ready, after ")
    assert lines[2].startswith("Floor: MAP@R 0.2378, by the backbone's own features without any")
    assert len(lines) == 3
