import pytest

from hsearch.cli.study_words import (
    count_words,
    duration_words,
    failure_lines,
    knob_words,
    print_result,
    saved_words,
    score_words,
    state_words,
)
from tests.cli.made_studies import made_record, made_trial

DONE = made_trial(0, [0.5, 0.6, 0.5, 0.6], "complete")
LOST = made_trial(1, [0.1, 0.2], "lost", "0.31 behind trial 0")
FAILED = made_trial(2, [], "failed", "the loss was nan in epoch 1")


def test_states_are_told_in_words():
    assert state_words(DONE) == "done"
    assert state_words(LOST) == "lost in the race after fold 1: 0.31 behind trial 0"
    assert state_words(FAILED) == "failed: the loss was nan in epoch 1"
    assert count_words([DONE, LOST, LOST]) == "1 done, 2 lost in the race"
    assert count_words([]) == "none"


def test_only_all_folds_make_a_score():
    assert score_words(DONE) == "0.5500 +- 0.0289"
    assert score_words(LOST) == "-"


def test_knobs_are_short():
    assert knob_words(DONE.knobs) == "method.scale=8 optimizer.lr.proxies=0.01235"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h")]
)
def test_durations(seconds, words):
    assert duration_words(seconds) == words


def test_what_the_race_saved():
    # every made fold took 1.5 s
    assert saved_words(made_record(DONE, LOST)) == (
        "6 fold trainings instead of 8: the race saved 2, about 3 s of training."
    )
    assert saved_words(made_record(DONE)) == ("4 fold trainings; the race has saved none so far.")
    assert saved_words(made_record(DONE, race=False)) == "No race: 4 fold trainings, none saved."


def test_equal_failures_share_a_line():
    again = FAILED.model_copy(update={"number": 7})
    assert failure_lines(made_record(DONE, FAILED, again)) == [
        "Trials 2, 7 failed: the loss was nan in epoch 1"
    ]


def test_many_reasons_are_cut_short():
    trials = [made_trial(number, [], "failed", f"nan in epoch {number}") for number in range(9)]
    lines = failure_lines(made_record(*trials))
    assert len(lines) == 6
    assert lines[-1] == "4 more failed otherwise."


def test_the_result_has_best_knobs_folds_mean_and_sem(capsys):
    print_result(made_record(DONE, LOST, FAILED))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Best: trial 0 (published), MAP@R 0.5500 +- 0.0289" in lines
    assert "method.scale 8" in lines
    assert "FOLD 0 FOLD 1 FOLD 2 FOLD 3 MEAN SEM" in lines
    assert "0.5000 0.6000 0.5000 0.6000 0.5500 0.0289" in lines
    assert "Trial 2 failed: the loss was nan in epoch 1" in lines


def test_a_study_without_a_whole_trial_has_no_best(capsys):
    print_result(made_record(LOST))
    assert "No trial has finished all folds" in capsys.readouterr().out
