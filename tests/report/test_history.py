"""The history of a study: which marks stand where."""

import numpy as np
import pytest

from hsearch.report.history import best_so_far, draw_history
from hsearch.search.importance import expected_scores
from tests.report.made_trials import made_record, made_trial


def marks(figure, label):
    """The points of the one line with that label; none if there is no such line."""
    lines = [line for line in figure.axes[0].lines if line.get_label() == label]
    return np.column_stack(lines[0].get_data()).tolist() if lines else []


def test_the_best_so_far_never_falls():
    record = made_record(30)
    complete = [t for t in record.trials if t.state == "complete"]
    numbers, best = best_so_far(record)
    assert numbers == [t.number for t in complete]
    assert best == list(np.maximum.accumulate([t.score or 0.0 for t in complete]))


def test_every_trial_stands_at_its_number_in_its_own_way():
    record = made_record(30)
    figure = draw_history(record)
    states = {state: [t for t in record.trials if t.state == state] for state in ("lost", "failed")}
    assert states["lost"]
    assert states["failed"]
    for fold in range(4):
        expected = [[t.number, t.folds[fold].score] for t in record.trials if fold in t.folds]
        assert marks(figure, f"fold {fold}") == pytest.approx(np.array(expected))
    scores = expected_scores(record)
    lost = [[t.number, scores[t.number]] for t in states["lost"]]
    assert marks(figure, "lost the race: expected mean") == pytest.approx(np.array(lost))
    assert [x for x, _ in marks(figure, "failed")] == [t.number for t in states["failed"]]
    best = record.best
    assert best is not None
    assert marks(figure, "best trial") == [[best.number, pytest.approx(best.score)]]


def test_a_trial_without_a_score_is_running_or_was_interrupted():
    record = made_record(1)
    record = record.model_copy(update={"trials": (made_trial(0, "running", [0.4]),)})
    assert len(marks(draw_history(record), "interrupted")) == 1
    searching = record.model_copy(update={"searching": True})
    assert len(marks(draw_history(searching), "running")) == 1
