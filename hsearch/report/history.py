"""The history of a study: every trial with its folds, and the best so far."""

import statistics
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hsearch.folds import NUM_FOLDS
from hsearch.report.canvas import (
    AMBER,
    BLUE,
    FAINT,
    GREY,
    INK,
    SKY,
    WINE,
    legend_above,
    new_figure,
    score_limits,
    tidy,
    whole_numbers,
)
from hsearch.search.importance import expected_scores
from hsearch.search.record import StudyRecord
from hsearch.words import plural

_FOLDS = ("#009e73", SKY, "#cc79a7", "#999933")


def best_so_far(record: StudyRecord) -> tuple[list[int], list[float]]:
    """Returns the numbers of the complete trials and the best score up to each."""
    numbers: list[int] = []
    scores: list[float] = []
    for trial in record.trials:
        if trial.state == "complete" and trial.score is not None:
            numbers.append(trial.number)
            scores.append(max([trial.score, *scores[-1:]]))
    return numbers, scores


def draw_history(record: StudyRecord) -> Figure:
    """Draws the folds of every trial as dashes and its score as a dot, filled if it is complete.

    What lost the race stands at the score that it could expect; what failed or is running has no
    score and stands at the foot.
    """
    best = record.best
    found = "no trial has finished all folds yet"
    if best is not None:
        found = f"best: {best.score:.4f}, trial {best.number} ({best.source})"
    subtitle = f"{plural(len(record.trials), 'trial')}; {found}"
    figure = new_figure(10, 5.4, f"History of {record.name}", subtitle)
    axes = figure.add_subplot()
    _draw_folds(axes, record)
    _draw_scores(axes, record)
    _draw_foot(axes, record)
    every = [score for trial in record.trials for score in trial.scores]
    every += expected_scores(record).values()
    low, high = score_limits(every or [0.0, 1.0])
    axes.set_ylim(low - 0.06 * (high - low), high)
    axes.set_xlim(-0.7, max(len(record.trials) - 0.3, 2.7))
    whole_numbers(axes)
    tidy(axes, x="trial", y=record.score_title)
    legend_above(axes, columns=5)
    return figure


def _draw_folds(axes: Axes, record: StudyRecord) -> None:
    for trial in record.trials:
        if len(trial.scores) > 1:
            ends = (min(trial.scores), max(trial.scores))
            axes.plot([trial.number] * 2, ends, color=FAINT, linewidth=1, zorder=1)
    for fold in range(NUM_FOLDS):
        marks = [(t.number, t.folds[fold].score) for t in record.trials if fold in t.folds]
        if marks:
            label = f"fold {fold}"
            axes.plot(*zip(*marks, strict=True), "_", color=_FOLDS[fold], ms=7, mew=2, label=label)


def _draw_scores(axes: Axes, record: StudyRecord) -> None:
    expected = expected_scores(record)
    complete = [t.number for t in record.trials if t.state == "complete"]
    lost = [t.number for t in record.trials if t.state == "lost" and t.number in expected]
    numbers, best = best_so_far(record)
    if numbers:
        last = record.trials[-1].number
        line = [*best, best[-1]]
        axes.step([*numbers, last], line, where="post", color=BLUE, lw=1.3, label="best so far")
    dots: dict[str, Any] = {"zorder": 4, "markersize": 6.5, "linestyle": "none", "marker": "o"}
    scores = [expected[number] for number in complete]
    axes.plot(complete, scores, color=BLUE, mec="white", label="mean of all folds", **dots)
    if lost:
        scores = [expected[number] for number in lost]
        label = "lost the race: expected mean"
        axes.plot(lost, scores, color="white", mec=AMBER, mew=1.6, label=label, **dots)
    if record.best is not None:
        x, y = record.best.number, statistics.fmean(record.best.scores)
        axes.plot(x, y, "*", color=INK, markersize=15, mec="white", zorder=5, label="best trial")


def _draw_foot(axes: Axes, record: StudyRecord) -> None:
    running = "running" if record.searching else "interrupted"
    for state, marker, colour, label in (
        ("failed", "x", WINE, "failed"),
        ("running", ">", GREY, running),
    ):
        numbers = [trial.number for trial in record.trials if trial.state == state]
        if numbers:
            axes.plot(
                numbers,
                [0.03] * len(numbers),
                marker,
                color=colour,
                markersize=6,
                markeredgewidth=1.8,
                transform=axes.get_xaxis_transform(),
                label=label,
                zorder=5,
            )
