"""Which labels a method holds alike, and whether images have them together."""

from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hsearch.evaluation.neighbors import nearest_neighbors
from hsearch.report.canvas import BLUE, FAINT, GREY, INK, SKY, new_figure, shortened, tidy
from hsearch.report.label_looking import LabelLook

NEAREST = 3
MOST_LABELS = 40

_LABEL, _CELL = 2.2, 1.75  # inches of the table's columns
_ROW = 0.32
_LONGEST = 18  # letters of a name
_BAR = 0.5  # inches of a bar that means all images

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelNeighbors:
    """The nearest labels of those that are shown.

    Attributes:
        labels: (C,) which are shown; similar ones stand together.
        nearest: (C, k) by the euclidean distance of their vectors, among all labels.
        together: (C, k) share of the images with the label that have the neighbour too; NaN if
            there are none.
        usual: (C, k) share of all images that have the neighbour.
        cosines: (C, C) of the vectors of the shown labels.
    """

    labels: IntArray
    nearest: IntArray
    together: Floats
    usual: Floats
    cosines: Floats


def label_neighbors(vectors: NDArray[np.floating], has: BoolArray) -> LabelNeighbors:
    """Returns the NEAREST labels of each of the MOST_LABELS most frequent ones.

    Args:
        vectors: (T, K) of the labels.
        has: (N, T) which labels each image has.
    """
    counts = has.sum(axis=0)
    shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_LABELS])
    labels = shown[_seriation(_cosines(vectors[shown]))]
    k = min(NEAREST, len(vectors) - 1)
    if k:
        nearest = nearest_neighbors(vectors, vectors, k, exclude_self=True)[labels]
    else:
        nearest = np.zeros((len(labels), 0), dtype=np.int64)
    both = np.array([has[has[:, label]].sum(axis=0) for label in labels])
    shares = np.take_along_axis(both, nearest, axis=1) / counts[labels, None].clip(1)
    together = np.where(counts[labels, None] > 0, shares, np.nan)
    usual = counts[nearest] / len(has)
    return LabelNeighbors(labels, nearest, together, usual, _cosines(vectors[labels]))


def draw_label_neighbors(look: LabelLook) -> Figure:
    """Draws the nearest labels of each with how often images have both, and all cosines beside.

    A bar is the share of the label's images that have the neighbour too, a stroke the share of all
    images: where the bar ends beyond it, images have the two together more often than by chance.
    """
    assert look.label_vectors is not None
    found = label_neighbors(look.label_vectors, look.after.labels)
    count = len(found.labels)
    side = float(np.clip(_ROW * count, 1.4, 9.0))
    longest = max(min(len(look.names[label]), _LONGEST) for label in found.labels)
    room = 0.085 * longest  # inches of a name
    figure = new_figure(
        max(_table_width(found) + side + room + 1.3, 9.2),
        _ROW * count + room + 1.3,
        f"{look.title}: labels that are alike",
        _subtitle(count, len(look.names)),
    )
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[_table_width(found), side + 0.4])
    _draw_table(left, look, found)
    _draw_cosines(figure, right, look, found)
    left.set_ylim(count - 0.5, -0.5)
    return figure


def _table_width(found: LabelNeighbors) -> float:
    return _LABEL + _CELL * max(int(found.nearest.shape[1]), 1)


def _draw_table(axes: Axes, look: LabelLook, found: LabelNeighbors) -> None:
    counts = look.after.labels.sum(axis=0)
    axes.set_xlim(0, _table_width(found))
    axes.set_axis_off()
    words = "label (its images) and those nearest to it"
    axes.set_title(words, color=INK, size=9.5, loc="left")
    for row, label in enumerate(found.labels):
        axes.axhline(row + 0.5, color=FAINT, linewidth=0.7)
        name = f"{shortened(look.names[label], _LONGEST)} ({counts[label]})"
        axes.text(0.05, row, name, size=8.5, color=INK, weight="bold", va="center")
    for (row, column), neighbor in np.ndenumerate(found.nearest):
        together, usual = found.together[row, column], found.usual[row, column]
        left, share = _LABEL + _CELL * column, f"{together:.0%} ({usual:.0%})"
        words = "no image" if np.isnan(together) else share
        name = shortened(look.names[neighbor], 20)
        axes.text(left, row - 0.16, name, size=8, color=INK, va="center")
        axes.text(left + _BAR + 0.07, row + 0.27, words, size=6.5, color=GREY, va="center")
    _draw_bars(axes, found)


def _draw_bars(axes: Axes, found: LabelNeighbors) -> None:
    """Draws the shares below the names of neighbours."""
    rows, columns = np.nonzero(np.isfinite(found.together))
    together, usual = found.together[rows, columns], found.usual[rows, columns]
    left = _LABEL + _CELL * columns
    colours = np.where(together > usual, BLUE, SKY).tolist()
    axes.barh(rows + 0.27, _BAR, 0.2, left=left, color=FAINT)
    axes.barh(rows + 0.27, _BAR * together, 0.2, left=left, color=colours)
    axes.vlines(left + _BAR * usual, rows + 0.12, rows + 0.42, color=INK, linewidth=1.2)


def _draw_cosines(figure: Figure, axes: Axes, look: LabelLook, found: LabelNeighbors) -> None:
    count = len(found.labels)
    others = np.where(np.eye(count, dtype=bool), np.nan, found.cosines)
    largest = float(np.nanmax(np.abs(others))) if count > 1 else 1.0
    limit = max(largest, 0.05)
    colours = matplotlib.colormaps["PuOr"].with_extremes(bad=FAINT)
    image = axes.imshow(others, cmap=colours, vmin=-limit, vmax=limit, aspect="auto")
    names = [shortened(look.names[label], _LONGEST) for label in found.labels]
    axes.set_xticks(range(count), names, rotation=90)
    axes.set_yticks(range(count), names)
    axes.tick_params(labelleft=True)
    tidy(axes, title="cosine of their vectors", grid="")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=GREY, labelsize=8)


def _subtitle(shown: int, every: int) -> str:
    words = "nearest by learned vectors; bar: how many of the label's images have it too, dark if "
    words += "more than of all images (stroke)"
    return words + f"; the {shown} most frequent of {every} labels" * (shown < every)


def _cosines(vectors: NDArray[np.floating]) -> Floats:
    """Returns (T, T); 0 beside a vector of length 0."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    units = wide / np.where(norms > 0, norms, 1)
    cosines: Floats = (units @ units.T).clip(-1, 1)
    return cosines


def _seriation(cosines: Floats) -> IntArray:
    """Returns (T,) an order in which similar ones stand together, by clustering."""
    if len(cosines) < 3:
        return np.arange(len(cosines))
    from scipy.cluster.hierarchy import leaves_list, linkage

    rows, columns = np.triu_indices(len(cosines), 1)
    distances = 1 - cosines[rows, columns]
    order: IntArray = leaves_list(linkage(distances, "average", optimal_ordering=True))
    return order.astype(np.int64)
