"""What all pictures share: paper, colours that colour-blind people tell apart, and saving.

Figures are drawn by matplotlib's objects on a canvas in memory; its global state is not touched.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from hsearch.files import write_whole

INK, GREY, FAINT = "#222222", "#767676", "#dddddd"
BLUE, AMBER, WINE, SKY = "#0072b2", "#e69f00", "#882255", "#56b4e9"
MANY = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#882255", "#999933", "#332288"),
    *("#d55e00", "#44aa99", "#aa4499", "#117733", "#ddaa33", "#6699cc", "#661100", "#b2df8a"),
    *("#4d4d4d", "#fb9a99", "#8dd3c7", "#bc80bd"),
)
"""Colours of labels, those that are most easily told apart first."""

OTHERS = "#c8c8c8"
"""The colour of all labels beyond those."""

UNTRAINED = "#a9bcc9"
"""The colour of a network before training."""

DPI = 120
_TITLE, _TEXT, _SMALL = 13, 9.5, 8.5
_HEAD = 0.64  # inches above the panels


def new_figure(width: float, height: float, title: str, subtitle: str = "") -> Figure:
    """Returns an empty figure of that size in inches, its title at the top left.

    Panels that are added to it lie below the title and do not overlap.
    """
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    left = 0.18 / width
    figure.text(left, 1 - 0.12 / height, title, size=_TITLE, color=INK, weight="bold", va="top")
    figure.text(left, 1 - 0.38 / height, subtitle, size=_TEXT, color=GREY, va="top")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.0, 0.0, 1.0, 1 - _HEAD / height), w_pad=0.12, h_pad=0.1)  # type: ignore[call-arg]
    return figure


def tidy(axes: Axes, *, x: str = "", y: str = "", title: str = "", grid: str = "y") -> None:
    """Gives a panel its labels, a faint grid along one axis, and no frame that says nothing."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.tick_params(colors=GREY, labelsize=_SMALL, labelcolor=INK)
    axes.set_xlabel(x, color=INK, size=_TEXT)
    axes.set_ylabel(y, color=INK, size=_TEXT)
    axes.set_title(title, color=INK, size=_TEXT, loc="left")
    if grid:
        axes.grid(axis=grid, color=FAINT, linewidth=0.7)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def legend_above(axes: Axes, columns: int) -> None:
    """Puts the legend above a panel, where it hides nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=_SMALL,
        labelcolor=INK,
        borderaxespad=0.2,
        handletextpad=0.4,
        columnspacing=1.4,
    )


def label_colours(labels: NDArray[np.int64], names: Sequence[str]) -> dict[int, str]:
    """Returns a colour for each of the most frequent labels, in the order of their names.

    Args:
        labels: (N,) labels of what is drawn.
        names: Of all labels.
    """
    ids, counts = np.unique(labels, return_counts=True)
    frequent = ids[np.argsort(-counts, kind="stable")][: len(MANY)].tolist()
    return dict(zip(sorted(frequent, key=lambda label: names[label]), MANY, strict=False))


def save(figure: Figure, path: Path) -> Path:
    """Writes a PNG, whole or not at all, and returns its path.

    Texts are shown as they are: a dollar sign in the name of a class begins no formula.
    """
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": "hsearch"})
    write_whole(path, file.getvalue())
    return path


def shortened(text: str, length: int) -> str:
    """Returns a text of at most so many characters, with dots where it was cut."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def two_lines(name: str) -> str:
    """Returns a dotted name broken after its first part."""
    return name.replace(".", ".\n", 1)


def score_limits(scores: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of an axis with room below the least score and above the largest."""
    low, high = min(scores), max(scores)
    room = 0.08 * (high - low) or 0.05
    return low - room, high + room


def whole_numbers(axes: Axes) -> None:
    """Lets a horizontal axis of trial numbers have no ticks between them."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def pixel_figure(width: int, height: int) -> tuple[Figure, Axes]:
    """Returns a figure of so many pixels and an axis whose units they are, y downwards."""
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    return figure, axes
