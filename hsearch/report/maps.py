"""Maps of the embeddings before and after training, with the method's proxies and their tree."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hsearch.methods import ProxyView
from hsearch.report.canvas import GREY, INK, OTHERS, label_colours, new_figure, shortened
from hsearch.report.layout import lay_out
from hsearch.report.looking import Look, Seen
from hsearch.seeds import rng_for
from hsearch.words import plural

MOST_IMAGES = 3000
MOST_PROXIES = 1000

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mapped:
    """What one network's map shows.

    Attributes:
        images: (S, 2) places of the images of a sample.
        proxies: (P, 2) places of the proxies; P may be 0.
        classes: (P,) the store's class of each proxy, -1 for none.
        parents: (P,) which proxy is above it, -1 where none is.
        how: How the places were found.
    """

    images: NDArray[np.float64]
    proxies: NDArray[np.float64]
    classes: IntArray
    parents: IntArray
    how: str

    @property
    def edges(self) -> IntArray:
        """(E, 2): child and parent."""
        children = np.flatnonzero(self.parents >= 0)
        return np.stack([children, self.parents[children]], axis=1)


def choose_images(look: Look) -> IntArray:
    """Returns the images that maps show: all, or a sample that follows from the run's seed."""
    count = len(look.rows)
    if count <= MOST_IMAGES:
        return np.arange(count)
    chosen = rng_for(look.job.seed, "map").choice(count, MOST_IMAGES, replace=False)
    return np.sort(chosen)


def map_network(look: Look, seen: Seen, images: IntArray) -> Mapped:
    """Lays out a sample of the images, and the proxies among them."""
    embedded = seen.embedded
    points = embedded.embeddings[images].astype(np.float32)
    proxies, classes, parents = _proxy_arrays(look, seen.proxies, points.shape[1])
    layout = lay_out(points, proxies, geometry=embedded.geometry, curvature=embedded.curvature)
    return Mapped(layout.images, layout.proxies, classes, parents, layout.how)


def draw_map(look: Look, images: IntArray, maps: tuple[Mapped, Mapped], level: int) -> Figure:
    """Draws the maps before and after training, coloured by the labels of one level."""
    labels = look.after.embedded.labels[images, level]
    colours = label_colours(labels, look.names(level))
    after = maps[1]
    height = max(5.6, 1.4 + 0.21 * (len(colours) + 6))
    title = f"{look.title}: coloured by {look.levels[level]}"
    subtitle = f"{plural(len(images), 'image')} of {len(look.rows)}; {after.how}"
    figure = new_figure(13.5, height, title, subtitle)
    panels = figure.subplots(1, 2)
    for panel, mapped, words in zip(panels, maps, ("before training", "trained"), strict=True):
        _draw_images(panel, mapped, labels, colours)
        _draw_proxies(panel, mapped, look, level, colours)
        panel.set_title(words, loc="left", size=10.5, color=INK)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_aspect("equal", adjustable="datalim")
        for spine in panel.spines.values():
            spine.set_color(OTHERS)
    names = {colours[label]: look.names(level)[label] for label in colours}
    _add_legend(figure, names, len(np.unique(labels)) - len(colours), after)
    return figure


def _draw_images(axes: Axes, mapped: Mapped, labels: IntArray, colours: dict[int, str]) -> None:
    inks = [colours.get(int(label), OTHERS) for label in labels]
    order = np.argsort([ink != OTHERS for ink in inks], kind="stable")
    x, y = mapped.images[order].T
    size = float(np.clip(14000 / len(labels), 5, 26))
    axes.scatter(x, y, s=size, c=[inks[i] for i in order], linewidths=0, alpha=0.75, zorder=1)


def _draw_proxies(
    axes: Axes, mapped: Mapped, look: Look, level: int, colours: dict[int, str]
) -> None:
    if not len(mapped.proxies):
        return
    lines = [mapped.proxies[edge] for edge in mapped.edges]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.6, alpha=0.35, zorder=0.5))
    of_class = mapped.classes >= 0
    paths = look.store.hierarchy.paths
    fills = [colours.get(int(paths[label, level]), "white") for label in mapped.classes[of_class]]
    x, y = mapped.proxies[of_class].T
    axes.scatter(x, y, s=26, marker="D", c=fills, edgecolors=INK, linewidths=0.8, zorder=3)
    x, y = mapped.proxies[~of_class].T
    axes.scatter(
        x, y, s=34, marker="s", facecolors="none", edgecolors=INK, linewidths=1.0, zorder=4
    )


def _add_legend(figure: Figure, names: dict[str, str], more: int, mapped: Mapped) -> None:
    dot = {"marker": "o", "linestyle": "none", "markeredgewidth": 0}
    handles = [
        Line2D([], [], color=colour, label=shortened(name, 26), **dot)  # type: ignore[arg-type]
        for colour, name in names.items()
    ]
    if more > 0:
        handles.append(Line2D([], [], color=OTHERS, label=f"{more} more labels", **dot))  # type: ignore[arg-type]
    for marker, there, words in (
        ("D", (mapped.classes >= 0).any(), "proxy of a training class"),
        ("s", (mapped.classes < 0).any(), "proxy above others"),
    ):
        if there:
            handles.append(
                Line2D([], [], marker=marker, color="white", mec=INK, label=words, linestyle="none")
            )
    figure.legend(
        handles=handles,
        loc="outside right center",
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handletextpad=0.3,
    )


def _proxy_arrays(
    look: Look, view: ProxyView | None, dim: int
) -> tuple[NDArray[np.float32], IntArray, IntArray]:
    """Points, classes and parents of all proxies, or of a sample; those of no class come first."""
    if view is None:
        return np.zeros((0, dim), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    points, parents = view.points.numpy(), view.parents.numpy()
    classes = np.where(view.classes >= 0, look.train_classes[view.classes], -1)
    if len(points) <= MOST_PROXIES:
        return points, classes, parents
    chance = rng_for(look.job.seed, "proxies").permutation(len(points))
    kept = np.sort(np.lexsort((chance, classes >= 0))[:MOST_PROXIES])
    numbers = np.full(len(points) + 1, -1)  # the last entry serves the parent -1
    numbers[kept] = np.arange(len(kept))
    return points[kept], classes[kept], numbers[parents[kept]]
