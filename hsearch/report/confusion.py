"""Which coarse class the nearest image belongs to."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hsearch.report.canvas import FAINT, GREY, INK, new_figure, shortened, tidy
from hsearch.report.looking import Look
from hsearch.report.retrieval import find_neighbors

MOST_LABELS = 30
_SHOWN_SHARE = 0.005

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Confusion:
    """Shares of the nearest images by coarse class.

    Attributes:
        labels: (C,) coarse labels of queries, those of the rows and of the first C columns.
        shares: (C, C) or (C, C + 1) with a last column for all other labels; every row sums to 1.
    """

    labels: NDArray[np.int64]
    shares: Floats


def coarse_confusion(queries: NDArray[np.int64], nearest: NDArray[np.int64]) -> Confusion:
    """Returns how often the nearest image is of which coarse class.

    Of more than MOST_LABELS labels, those that are found again the least often are shown.

    Args:
        queries: (Q,) coarse labels of the queries.
        nearest: (Q,) coarse labels of the image that each finds first.
    """
    labels = np.unique(queries)
    right = np.array([(nearest[queries == label] == label).mean() for label in labels])
    if len(labels) > MOST_LABELS:
        labels = np.sort(labels[np.argsort(right, kind="stable")[:MOST_LABELS]])
    rows = [[(nearest[queries == row] == label).mean() for label in labels] for row in labels]
    shares = np.array(rows)
    rest = 1.0 - shares.sum(axis=1)
    if rest.max() > 1e-9:
        shares = np.column_stack([shares, rest])
    return Confusion(labels, shares)


def draw_confusion(look: Look) -> Figure:
    """Draws the shares as a heat map, a row per coarse class of the queries."""
    embedded = look.after.embedded
    found = find_neighbors(embedded, 1)
    coarse = embedded.labels[:, 0]
    confusion = coarse_confusion(coarse[found.queries], coarse[found.neighbors[:, 0]])
    names = [shortened(look.names(0)[label], 18) for label in confusion.labels]
    count, columns = confusion.shares.shape
    side = float(np.clip(0.55 * columns, 4.2, 13))
    every = len(np.unique(coarse[found.queries]))
    which = f" (the {count} of {every} that are confused most)" if every > count else ""
    figure = new_figure(
        side + 2.6,
        side * count / columns + 2.0,
        f"{look.title}: which {look.levels[0]} is nearest",
        f"share of the nearest images, each row sums to 100 %{which}",
    )
    axes = figure.add_subplot()
    axes.imshow(confusion.shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(columns), [*names, "others"][:columns], rotation=45, ha="right")
    axes.set_yticks(range(count), names)
    tidy(
        axes,
        x=f"{look.levels[0]} of the nearest image",
        y=f"{look.levels[0]} of the query",
        grid="",
    )
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.6)
    axes.tick_params(which="both", length=0)
    size = 8.5 if columns <= 16 else 6
    for (row, column), share in np.ndenumerate(confusion.shares):
        if share >= _SHOWN_SHARE:
            ink = "white" if share > 0.55 else INK if row == column else GREY
            axes.text(
                column, row, f"{share:.0%}"[:-1], ha="center", va="center", size=size, color=ink
            )
    return figure
