"""Maps of the embeddings before and after training, with the method's proxies and their tree."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hsearch.methods import ProxyView
from hsearch.report.canvas import GREY, INK, MANY, new_figure, shortened
from hsearch.report.layout import Layout, lay_out
from hsearch.report.looking import Look, Seen
from hsearch.seeds import rng_for
from hsearch.words import plural

MOST_IMAGES = 3000
MOST_PROXIES = 1000
_OTHERS = "#c8c8c8"

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
    """Lays out a sample of the images and the proxies together."""
    embedded = seen.embedded
    proxies = _some_proxies(seen.proxies, look.job.seed)
    points = embedded.embeddings[images].astype(np.float32)
    classes = parents = np.zeros(0, dtype=np.int64)
    if proxies is not None:
        points = np.concatenate([points, proxies.points.numpy()])
        own, parents = proxies.classes.numpy(), proxies.parents.numpy()
        classes = np.where(own >= 0, look.train_classes[own], -1)
    layout: Layout = lay_out(points, embedded.geometry, embedded.curvature)
    shown = len(images)
    return Mapped(layout.places[:shown], layout.places[shown:], classes, parents, layout.how)


def draw_map(look: Look, images: IntArray, maps: tuple[Mapped, Mapped], level: int) -> Figure:
    """Draws the maps before and after training, coloured by the labels of one level."""
    labels = look.after.embedded.labels[images, level]
    ids, counts = np.unique(labels, return_counts=True)
    frequent = ids[np.argsort(-counts, kind="stable")][: len(MANY)]
    colours = {int(label): MANY[i] for i, label in enumerate(np.sort(frequent))}
    after = maps[1]
    height = max(5.6, 1.4 + 0.21 * (len(colours) + 6))
    title = f"{look.title}: coloured by {look.levels[level]}"
    subtitle = f"{plural(len(images), 'image')} of {len(look.rows)}; {after.how}"
    figure = new_figure(13.5, height, title, subtitle)
    panels = figure.subplots(1, 2)
    for panel, mapped, words in zip(panels, maps, ("untrained", "trained"), strict=True):
        _draw_images(panel, mapped, labels, colours)
        _draw_proxies(panel, mapped, look, level, colours)
        panel.set_title(words, loc="left", size=10.5, color=INK)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_aspect("equal", adjustable="datalim")
        for spine in panel.spines.values():
            spine.set_color(_OTHERS)
    names = {colours[label]: look.names(level)[label] for label in colours}
    _add_legend(figure, names, len(ids) - len(colours), after)
    return figure


def _draw_images(axes: Axes, mapped: Mapped, labels: IntArray, colours: dict[int, str]) -> None:
    inks = [colours.get(int(label), _OTHERS) for label in labels]
    order = np.argsort([ink != _OTHERS for ink in inks], kind="stable")
    x, y = mapped.images[order].T
    size = float(np.clip(14000 / len(labels), 5, 26))
    axes.scatter(x, y, s=size, c=[inks[i] for i in order], linewidths=0, alpha=0.75, zorder=1)


def _draw_proxies(
    axes: Axes, mapped: Mapped, look: Look, level: int, colours: dict[int, str]
) -> None:
    if not len(mapped.proxies):
        return
    lines = [mapped.proxies[edge] for edge in mapped.edges]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.7, alpha=0.7, zorder=2))
    of_class = mapped.classes >= 0
    paths = look.store.hierarchy.paths
    fills = [colours.get(int(paths[label, level]), "white") for label in mapped.classes[of_class]]
    x, y = mapped.proxies[of_class].T
    axes.scatter(x, y, s=26, marker="D", c=fills, edgecolors=INK, linewidths=0.8, zorder=3)
    x, y = mapped.proxies[~of_class].T
    axes.scatter(x, y, s=60, marker="s", c="white", edgecolors=INK, linewidths=1.4, zorder=4)


def _add_legend(figure: Figure, names: dict[str, str], more: int, mapped: Mapped) -> None:
    dot = {"marker": "o", "linestyle": "none", "markeredgewidth": 0}
    handles = [
        Line2D([], [], color=colour, label=shortened(name, 26), **dot)  # type: ignore[arg-type]
        for colour, name in names.items()
    ]
    if more > 0:
        handles.append(Line2D([], [], color=_OTHERS, label=f"{more} more labels", **dot))  # type: ignore[arg-type]
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


def _some_proxies(view: ProxyView | None, seed: int) -> ProxyView | None:
    """All proxies, or a sample in which those of no class come first."""
    if view is None or len(view.points) <= MOST_PROXIES:
        return view
    chance = rng_for(seed, "proxies").permutation(len(view.points))
    order = np.lexsort((chance, (view.classes >= 0).numpy()))
    kept = np.sort(order[:MOST_PROXIES])
    numbers = np.full(len(view.points) + 1, -1)  # the last entry serves the parent -1
    numbers[kept] = np.arange(len(kept))
    parents = view.parents.new_tensor(numbers[view.parents.numpy()[kept]])
    return ProxyView(view.points[kept], view.classes[kept], parents)
