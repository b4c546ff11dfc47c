"""Metrics of every level, before and after training."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hsearch.report.canvas import BLUE, INK, UNTRAINED, new_figure, tidy
from hsearch.results import Metrics, level_prefix
from hsearch.words import metric_title

_OF_LEVELS = ("map_at_r", "r_precision", "precision_at_1", "ap")
_OVERALL = ("h_ap", "h_asi", "h_ndcg")


def draw_levels(title: str, levels: tuple[str, ...], before: Metrics, after: Metrics) -> Figure:
    """Draws a panel per metric with a pair of bars per level, and one over all levels.

    Args:
        title: Of the picture.
        levels: Their names, coarsest first.
        before: Metrics of the network before training.
        after: Metrics of the trained network.
    """
    panels = [
        (
            metric_title(name),
            list(levels),
            [level_prefix(n, len(levels)) + name for n in range(len(levels))],
        )
        for name in _OF_LEVELS
    ]
    if len(levels) > 1:
        panels.append(("over all levels", [metric_title(name) for name in _OVERALL], [*_OVERALL]))
    width = 1.2 + 0.95 * sum(len(names) for _, _, names in panels)
    figure = new_figure(max(8.0, width), 4.0, title, "metrics of every level, more is better")
    widths = [len(names) for _, _, names in panels]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=widths)[0]
    for panel, (words, ticks, names) in zip(axes, panels, strict=True):
        _draw_pairs(panel, [before[name] for name in names], [after[name] for name in names])
        panel.set_xticks(range(len(ticks)), ticks)
        tidy(panel, title=words)
    axes[0].set_ylim(0, 1.08)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower left",
        ncols=2,
        frameon=False,
        fontsize=8.5,
    )
    return figure


def _draw_pairs(axes: Axes, before: list[float], after: list[float]) -> None:
    places = np.arange(len(before))
    for shift, values, colour, label in (
        (-0.2, before, UNTRAINED, "before training"),
        (0.2, after, BLUE, "trained"),
    ):
        bars = axes.bar(places + shift, values, 0.38, color=colour, label=label)
        axes.bar_label(bars, [f"{value:.2f}" for value in values], size=7.5, color=INK, padding=1.5)
