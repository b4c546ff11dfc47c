"""Knobs against scores: what is drawn where."""

from typing import Any

import numpy as np
import pytest

from hsearch.report.knob_axis import knob_axes
from hsearch.report.knobs import draw_importances, draw_parallel, draw_slices
from hsearch.search.importance import expected_scores
from tests.report.made_trials import made_record


def test_every_trial_with_a_score_is_a_line_through_its_knobs():
    record = made_record(25)
    scores = expected_scores(record)
    axes: Any = draw_parallel(record).axes[0]
    lines = {collection.get_segments()[0][-1, 1] for collection in axes.collections}
    low, high = min(scores.values()), max(scores.values())
    assert sorted(lines) == pytest.approx(sorted((s - low) / (high - low) for s in scores.values()))
    names = [axis.name for axis in knob_axes(record)]
    margin = names.index("method.fine_margin")
    below = [c for c in axes.collections if c.get_segments()[0][margin, 1] < 0]
    scored = [t for t in record.trials if t.number in scores]
    without = [t for t in scored if "method.fine_margin" not in t.knobs]
    assert len(below) == len(without)


def test_a_slice_shows_all_trials_that_have_the_knob():
    record = made_record(25)
    scores = expected_scores(record)
    panels: list[Any] = draw_slices(record).axes
    for panel in panels:
        knob = panel.get_xlabel()
        trials = [t for t in record.trials if t.number in scores and knob in t.knobs]
        filled, hollow, best = (collection.get_offsets() for collection in panel.collections)
        assert len(filled) == sum(t.state == "complete" for t in trials)
        assert len(hollow) == sum(t.state == "lost" for t in trials)
        assert len(best) == 1
        assert panel.get_xscale() == ("log" if record.spec.is_log(knob) else "linear")
        heights = np.concatenate([filled, hollow])[:, 1]
        assert sorted(heights) == pytest.approx(sorted(scores[t.number] for t in trials))


def test_bars_are_as_long_as_the_shares():
    shares = {"method.a": 0.75, "method.b": 0.25}
    axes: Any = draw_importances(made_record(1), shares).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    lengths = [bar.get_width() for bar in axes.patches]
    assert dict(zip(names, lengths, strict=True)) == shares
