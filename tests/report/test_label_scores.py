"""Bars of the labels."""

from typing import Any

import numpy as np
import pytest

from hsearch.evaluation.multilabel import label_scores
from hsearch.report import label_scores as module
from hsearch.report.canvas import save
from hsearch.report.label_scores import draw_label_scores, ordered_labels
from tests.report.made_label_looks import made_look, names_of


def test_labels_come_by_precision_and_those_of_no_image_not_at_all(monkeypatch):
    precisions = np.array([0.2, np.nan, 0.9, 0.5, 0.5, 0.1])
    assert ordered_labels(precisions).tolist() == [2, 3, 4, 0, 5]
    monkeypatch.setattr(module, "MOST_LABELS", 2)
    assert ordered_labels(precisions).tolist() == [2, 5]


def test_bars_are_average_precisions_before_and_after(tmp_path, toy_job):
    marks = np.random.default_rng(1).random((30, 5)) < 0.4
    marks[:, 4] = False
    look = made_look(tmp_path, toy_job(), marks[:, :5], names=("a", "b", "c", "$d", "never"))
    figure: Any = draw_label_scores(look)
    before, after = (
        label_scores(seen.scores, seen.labels).average_precision
        for seen in (look.before, look.after)
    )
    labels = ordered_labels(after)
    assert sorted(labels.tolist()) == [0, 1, 2, 3]
    axes = figure.axes[0]
    for bars, values in zip(axes.containers, (before, after), strict=True):
        assert [bar.get_width() for bar in bars] == pytest.approx(values[labels].tolist())
    ticks = [tick.get_text() for tick in axes.get_yticklabels()]
    assert ticks == [f"{look.names[label]}  ({marks[:, label].sum()})" for label in labels]
    subtitle = figure.texts[1].get_text()
    assert (
        f"mAP {np.nanmean(before):.3f} before training, {np.nanmean(after):.3f} trained" in subtitle
    )
    assert subtitle.endswith("; without 1 that no image has")


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (40, 40), (41, 40), (100, 40)])
def test_few_and_many_labels_are_drawn(tmp_path, toy_job, count, shown):
    marks = np.random.default_rng(0).random((20, count)) < 0.3
    marks[0] = True
    names = (*names_of(count - 1), "$a^{ a name much longer than there is room for it")
    look = made_look(tmp_path, toy_job(), marks, names=names)
    figure: Any = draw_label_scores(look)
    assert len(figure.axes[0].get_yticklabels()) == shown
    cut = f"; the 20 best and the 20 worst of {count}"
    assert (cut in figure.texts[1].get_text()) == (count > shown)
    assert save(figure, tmp_path / "scores.png").stat().st_size > 0
