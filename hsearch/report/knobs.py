"""Knobs of a study against its scores: importance, parallel coordinates and slices."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from hsearch.report.canvas import (
    BLUE,
    FAINT,
    GREY,
    INK,
    new_figure,
    score_limits,
    tidy,
    two_lines,
)
from hsearch.report.knob_axis import KnobAxis, knob_axes
from hsearch.search.importance import expected_scores
from hsearch.search.record import StudyRecord, TrialRecord

_COLUMNS = 4
_ABSENT = -0.12  # where the line of a trial without the knob passes, below the axis
_JITTER = 0.09


def draw_importances(record: StudyRecord, shares: Mapping[str, float]) -> Figure:
    """Draws a bar for the share of every knob; `shares` as `knob_importances` gives them."""
    subtitle = "share in what sets the best trials apart (PED-ANOVA)"
    figure = new_figure(
        8, 1.5 + 0.36 * len(shares), f"Knobs that mattered in {record.name}", subtitle
    )
    axes = figure.add_subplot()
    names = list(shares)[::-1]
    bars = axes.barh(names, [shares[name] for name in names], color=BLUE, height=0.65)
    axes.bar_label(bars, [f"{shares[name]:.0%}" for name in names], padding=4, size=9, color=INK)
    axes.set_xlim(0, 1.12 * max(shares.values()))
    tidy(axes, grid="x")
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.tick_params(axis="y", length=0)
    return figure


def draw_parallel(record: StudyRecord) -> Figure:
    """Draws every trial with a score as a line through its knobs, good ones dark and on top.

    A line passes below the axis of a knob that the trial has not, because its condition did not
    hold.
    """
    scores = expected_scores(record)
    axes_of_knobs = knob_axes(record)
    title = record.score_title
    score_axis = KnobAxis(title, (), min(scores.values()), max(scores.values()))
    trials = sorted(
        (t for t in record.trials if t.number in scores), key=lambda t: scores[t.number]
    )
    lines = [_line(trial, axes_of_knobs, score_axis, scores) for trial in trials]
    colours = _colours(scores)
    figure = new_figure(
        max(7.0, 1.9 * (len(axes_of_knobs) + 1)),
        5.2,
        f"Knobs and scores of {record.name}",
        f"a line per trial, coloured by {title}; dotted: lost the race, at its expected {title}",
    )
    axes = figure.add_subplot()
    for trial, line in zip(trials, lines, strict=True):
        best = record.best is not None and trial.number == record.best.number
        colour = colours.to_rgba(np.array(scores[trial.number]))
        drawn = LineCollection([line], colors=[colour], linewidths=3.2 if best else 1.3)
        drawn.set_linestyle(":" if trial.state == "lost" else "-")
        axes.add_collection(drawn)
    _draw_scales(axes, [*axes_of_knobs, score_axis])
    figure.colorbar(colours, ax=axes, label=title, pad=0.06, aspect=30)
    return figure


def draw_slices(record: StudyRecord) -> Figure:
    """Draws a panel per knob: its values against the scores, later trials darker."""
    scores = expected_scores(record)
    knobs = knob_axes(record)
    columns = min(_COLUMNS, len(knobs))
    rows = -(-len(knobs) // columns)
    subtitle = "a dot per trial, dark ones late in the search; hollow: lost the race; star: best"
    figure = new_figure(3.0 * columns + 1, 2.7 * rows + 0.9, f"Slices of {record.name}", subtitle)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for panel, knob in zip(panels, knobs, strict=False):
        _draw_slice(panel, record, knob, scores)
        first = panel.get_subplotspec().is_first_col()
        tidy(panel, x=knob.name, y=record.score_title if first else "")
    for panel in panels[len(knobs) :]:
        panel.set_visible(False)
    return figure


def _line(
    trial: TrialRecord, knobs: list[KnobAxis], score: KnobAxis, scores: Mapping[int, float]
) -> list[tuple[float, float]]:
    heights = [
        float(knob.places([trial.knobs[knob.name]])[0]) if knob.name in trial.knobs else _ABSENT
        for knob in knobs
    ]
    heights.append(float(score.places([scores[trial.number]])[0]))
    return [(float(x), y) for x, y in enumerate(heights)]


def _draw_scales(axes: Axes, scales: list[KnobAxis]) -> None:
    for x, scale in enumerate(scales):
        axes.plot([x, x], [0, 1], color=INK, linewidth=1, zorder=3)
        for place, text in scale.ticks():
            axes.plot([x - 0.02, x], [place, place], color=INK, linewidth=1, zorder=3)
            box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8}
            axes.text(
                x - 0.04,
                place,
                text,
                ha="right",
                va="center",
                size=8,
                color=INK,
                bbox=box,
                zorder=4,
            )
        axes.text(x, 1.04, two_lines(scale.name), ha="center", va="bottom", size=9, color=INK)
    axes.text(-0.3, _ABSENT, "not used", ha="right", va="center", size=8, color=GREY)
    axes.plot([-0.25, len(scales) - 1], [_ABSENT] * 2, color=FAINT, linewidth=0.8, zorder=0)
    axes.set_xlim(-0.6, len(scales) - 0.8)
    axes.set_ylim(_ABSENT - 0.05, 1.16)
    axes.set_axis_off()


def _draw_slice(
    axes: Axes, record: StudyRecord, knob: KnobAxis, scores: Mapping[int, float]
) -> None:
    trials = [t for t in record.trials if t.number in scores and knob.name in t.knobs]
    values = [trial.knobs[knob.name] for trial in trials]
    if knob.choices:
        shifts = _JITTER * np.sin(np.array([trial.number for trial in trials]) * 2.4)
        x = np.array([knob.choices.index(value) for value in values]) + shifts
        axes.set_xticks(range(len(knob.choices)), [text for _, text in knob.ticks()])
        axes.set_xlim(-0.5, len(knob.choices) - 0.5)
    else:
        x = np.array(values, dtype=np.float64)
        axes.set_xscale("log" if knob.log else "linear")
        axes.set_xticks(knob.tick_values(), [text for _, text in knob.ticks()])
        axes.minorticks_off()
    y = np.array([scores[trial.number] for trial in trials])
    shade = Normalize(-0.35 * len(record.trials), len(record.trials) - 1)
    colours: Any = mpl.colormaps["Blues"](shade([trial.number for trial in trials]))
    filled = np.array([trial.state == "complete" for trial in trials], dtype=bool)
    axes.scatter(x[filled], y[filled], s=30, c=colours[filled], edgecolors="white", linewidths=0.6)
    axes.scatter(x[~filled], y[~filled], s=24, facecolors="none", edgecolors=colours[~filled])
    best = [i for i, t in enumerate(trials) if record.best and t.number == record.best.number]
    axes.scatter(x[best], y[best], s=190, marker="*", c=INK, edgecolors="white", zorder=4)
    axes.set_ylim(*score_limits(list(scores.values())))


def _colours(scores: Mapping[int, float]) -> ScalarMappable:
    """Dark for good scores; the worst tenth share the palest colour."""
    values = np.array(list(scores.values()))
    low, high = float(np.quantile(values, 0.1)), float(values.max())
    return ScalarMappable(Normalize(low, high if high > low else low + 1e-9), "viridis_r")
