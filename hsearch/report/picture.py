"""The critical-difference picture: mean ranks on a line, and bars over what is not told apart.

Drawn on a figure of its own, without pyplot and its global state.
"""

import io
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hsearch.report.values import RankTable

_ROW = 0.28  # inches of a line of text
_BAR = 0.12  # inches between two bars


def rank_picture(table: RankTable, format: Literal["svg", "pdf", "png"]) -> bytes:
    """Returns the picture as a file, the same bytes for the same ranks.

    Args:
        table: Of at least two methods.
        format: Of the file.
    """
    count = len(table.ranks)
    bars = [group for group in table.groups if len(group) > 1]
    below = 0.15 + _BAR * len(bars) + _ROW * ((count + 1) // 2)
    height = 0.85 + below
    figure = Figure(figsize=(6.4, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(1 - 0.45 * (count - 1), count + 0.45 * (count - 1))
    axes.set_ylim(-below, height - below)  # inches, 0 at the line of ranks
    axes.set_axis_off()
    _draw_line(axes, count)
    _draw_distance(axes, min(table.critical_difference, count - 1.0), table.critical_difference)
    for number, group in enumerate(bars):
        _draw_bar(axes, table, group, -0.15 - _BAR * number)
    _draw_names(axes, table, -0.15 - _BAR * len(bars))
    return _file(figure, format)


def _draw_line(axes: Axes, count: int) -> None:
    axes.plot([1, count], [0, 0], color="black", linewidth=1)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, 0.07], color="black", linewidth=1)
        axes.text(rank, 0.11, str(rank), ha="center", va="bottom", fontsize=9)


def _draw_distance(axes: Axes, shown: float, value: float) -> None:
    """Draws the critical difference above the line; one beyond the line is cut off with a mark."""
    height = 0.45
    axes.plot([1, 1 + shown], [height, height], color="black", linewidth=1)
    axes.plot([1, 1], [height - 0.05, height + 0.05], color="black", linewidth=1)
    if shown == value:
        axes.plot([1 + shown] * 2, [height - 0.05, height + 0.05], color="black", linewidth=1)
    beyond = "" if shown == value else ", longer than the line"
    words = f"critical difference {value:.2f}{beyond}"
    axes.text(1 + shown / 2, height + 0.08, words, ha="center", va="bottom", fontsize=9)


def _draw_bar(axes: Axes, table: RankTable, group: tuple[str, ...], height: float) -> None:
    ranks = [table.ranks[name] for name in group]
    more = 0.005 * (len(table.ranks) - 1)
    ends = [min(ranks) - more, max(ranks) + more]
    axes.plot(ends, [height, height], color="#1f6f8b", linewidth=3.5, solid_capstyle="round")


def _draw_names(axes: Axes, table: RankTable, top: float) -> None:
    """Draws the better half to the left and the other half to the right, each with its rank."""
    count = len(table.ranks)
    half = (count + 1) // 2
    for number, (name, rank) in enumerate(table.ranks.items()):
        left = number < half
        row = number if left else count - 1 - number
        height = top - _ROW * (row + 0.7)
        side = 1 - 0.06 * (count - 1) if left else count + 0.06 * (count - 1)
        axes.plot([rank, rank, side], [0, height, height], color="black", linewidth=0.8)
        words = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
        align = "right" if left else "left"
        gap = -0.02 * (count - 1) if left else 0.02 * (count - 1)
        axes.text(side + gap, height, words, ha=align, va="center", fontsize=10)


def _file(figure: Figure, format: str) -> bytes:
    file = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[format]
    with matplotlib.rc_context({"svg.hashsalt": "hsearch"}):
        # `tight` grows the picture to the names, however long they are.
        figure.savefig(file, format=format, metadata=undated, dpi=150, bbox_inches="tight")
    return file.getvalue()
