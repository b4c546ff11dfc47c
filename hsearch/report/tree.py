"""The hierarchy that a method has learned, as a tree over the training classes."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hsearch.methods import ProxyView
from hsearch.report.canvas import GREY, INK, OTHERS, label_colours, new_figure, shortened
from hsearch.report.looking import Look
from hsearch.seeds import rng_for

MOST_LEAVES = 120

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """Who is above whom, without those that only pass on a single child.

    Attributes:
        children: Of every node that has any, by node; they are numbered as proxies.
        roots: Nodes that nobody is above.
        leaves: (N,) leaves from top to bottom, so that no two branches cross.
        heights: Of every node: 0 for a leaf, else one more than its highest child.
    """

    children: dict[int, list[int]]
    roots: list[int]
    leaves: IntArray
    heights: dict[int, int]


def grow_tree(parents: IntArray, leaves: IntArray) -> Tree:
    """Returns the tree above some leaves.

    Args:
        parents: (P,) the parent of every node, -1 where there is none; no circles.
        leaves: Nodes that stand at the ends of branches.
    """
    below: dict[int, list[int]] = {}
    roots: list[int] = []
    seen: set[int] = set()
    for leaf in leaves.tolist():
        node = leaf
        while node not in seen:
            seen.add(node)
            parent = int(parents[node])
            below.setdefault(parent, []).append(node) if parent >= 0 else roots.append(node)
            node = parent if parent >= 0 else node
    roots = [_skipped(root, below) for root in roots]
    children, heights, order = {}, {}, []

    def visit(node: int) -> int:
        own = [_skipped(child, below) for child in below.get(node, [])]
        if own:
            children[node] = own
        else:
            order.append(node)
        heights[node] = 1 + max((visit(child) for child in own), default=-1)
        return heights[node]

    for root in roots:
        visit(root)
    return Tree(children, roots, np.array(order, dtype=np.int64), heights)


def has_tree(look: Look) -> bool:
    """Whether the method of a run puts several training classes below the same proxy."""
    view = look.after.proxies
    if view is None:
        return False
    above = view.parents[view.classes >= 0].tolist()
    return -1 not in above and 0 < len(set(above)) < len(above)


def siblings_alike(parents: IntArray, labels: IntArray) -> tuple[float, float]:
    """Returns how many pairs of classes share a label: with the same parent, and of all pairs.

    Args:
        parents: (C,) the node above every class.
        labels: (C,) a coarse label of every class.
    """
    siblings, all_pairs = _pairs(parents), len(labels) * (len(labels) - 1) / 2
    both = _pairs(np.unique(np.column_stack([parents, labels]), axis=0, return_inverse=True)[1])
    return both / siblings if siblings else 0.0, _pairs(labels) / all_pairs if all_pairs else 0.0


def _pairs(labels: IntArray) -> float:
    """How many pairs have the same label."""
    counts = np.unique(labels.ravel(), return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def draw_tree(look: Look) -> Figure:
    """Draws the tree from its root at the left to the training classes, coloured by coarse class.

    Of very many classes a sample is drawn.
    """
    view = look.after.proxies
    assert view is not None
    parents, leaves = view.parents.numpy(), np.flatnonzero(view.classes.numpy() >= 0)
    classes = look.train_classes[view.classes.numpy()[leaves]]
    alike, chance = siblings_alike(parents[leaves], look.store.hierarchy.paths[classes, 0])
    if len(leaves) > MOST_LEAVES:
        drawn = rng_for(look.job.seed, "tree").choice(leaves, MOST_LEAVES, replace=False)
    else:
        drawn = leaves
    tree = grow_tree(parents, np.sort(drawn))
    of = f" of {len(leaves)}" if len(leaves) > len(drawn) else ""
    subtitle = f"{len(drawn)}{of} training classes"
    if len(look.levels) > 1:
        subtitle += f"; same {look.levels[0]} in {alike:.0%} of the pairs under one parent"
        subtitle += f", by chance in {chance:.0%}"
    title = f"{look.job.method.name} on {look.job.data_name}: the hierarchy of its proxies"
    width = 6.8 + 0.5 * min(7, max(tree.heights.values()))
    figure = new_figure(width, 1.2 + 0.155 * len(drawn), title, subtitle)
    axes = figure.add_subplot()
    _draw_branches(axes, tree)
    _draw_leaves(axes, look, tree, view)
    axes.set_axis_off()
    axes.set_ylim(len(tree.leaves), -1)
    return figure


def _draw_branches(axes: Axes, tree: Tree) -> None:
    places = {int(leaf): float(row) for row, leaf in enumerate(tree.leaves)}
    top = max(tree.heights.values())
    for node in sorted(tree.children, key=lambda node: tree.heights[node]):
        rows = [places[child] for child in tree.children[node]]
        places[node] = (min(rows) + max(rows)) / 2
        x = -tree.heights[node]
        axes.plot([x, x], [min(rows), max(rows)], color=GREY, linewidth=0.9)
        for child, row in zip(tree.children[node], rows, strict=True):
            axes.plot([x, -tree.heights[child]], [row, row], color=GREY, linewidth=0.9)
    for root in tree.roots:
        if root in tree.children:
            x = -tree.heights[root]
            axes.plot([x - 0.05 * top, x], [places[root]] * 2, color=GREY, linewidth=0.9)
    across = [float(-tree.heights[node]) for node in tree.children]
    down = [places[node] for node in tree.children]
    axes.scatter(
        across, down, s=18, marker="s", c="white", edgecolors=INK, linewidths=0.9, zorder=3
    )
    axes.set_xlim(-1.12 * top - 0.1, 0.38 * top + 0.1)


def _draw_leaves(axes: Axes, look: Look, tree: Tree, view: ProxyView) -> None:
    hierarchy = look.store.hierarchy
    classes = look.train_classes[view.classes.numpy()[tree.leaves]]
    coarse = hierarchy.paths[classes, 0]
    colours = label_colours(coarse, look.names(0)) if len(look.levels) > 1 else {}
    rows = np.arange(len(tree.leaves))
    inks = [colours.get(int(label), OTHERS) for label in coarse]
    axes.scatter(np.zeros(len(rows)), rows, s=26, marker="D", c=inks, linewidths=0, zorder=3)
    room = 0.02 * max(tree.heights.values())
    for row, label in enumerate(classes):
        words = shortened(" > ".join(look.store.label_path(int(label))), 44)
        axes.text(room, row, words, va="center", size=7, color=INK)
    dots = [
        Line2D([], [], marker="D", color=colours[label], linestyle="none", markersize=5)
        for label in colours
    ]
    names = [shortened(look.names(0)[label], 24) for label in colours]
    if dots:
        axes.figure.legend(
            dots, names, loc="outside right upper", frameon=False, fontsize=8, labelcolor=INK
        )


def _skipped(node: int, below: dict[int, list[int]]) -> int:
    """The first node from here downwards that has not just one child."""
    while len(below.get(node, [])) == 1:
        node = below[node][0]
    return node
