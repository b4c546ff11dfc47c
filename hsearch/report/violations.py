"""Where rankings break the hierarchy: an image that shares less with the query comes first."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hsearch.evaluation.neighbors import neighbor_blocks
from hsearch.evaluation.scoring import Embedded
from hsearch.evaluation.task import RetrievalTask
from hsearch.report.canvas import BLUE, INK, MANY, UNTRAINED, new_figure, tidy
from hsearch.report.looking import Look
from hsearch.results import Metrics
from hsearch.seeds import rng_for

MOST_QUERIES = 300
_BINS = 20

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """How images are ranked that share 0..L levels with the query, over some queries.

    Attributes:
        ranks: (L + 1, BINS) the share of the images that share so many levels whose place in the
            ranking lies in each twentieth of it, the nearest first.
        broken: (L + 1, L + 1): of the pairs of an image that shares `i` levels and one that shares
            j > i, the share in which the first comes before the second; NaN where none is.
    """

    ranks: Floats
    broken: Floats


def ranking_order(embedded: Embedded, rng: np.random.Generator) -> Order:
    """Counts the pairs in the rankings of at most MOST_QUERIES queries of a seeded sample."""
    task = RetrievalTask.of(
        embedded.labels, len(embedded.embeddings), embedded.queries, embedded.gallery
    )
    queries = np.arange(len(task.query_rows))
    if len(queries) > MOST_QUERIES:
        queries = np.sort(rng.choice(queries, MOST_QUERIES, replace=False))
    levels = embedded.labels.shape[1] + 1
    ranks, broken = np.zeros((levels, _BINS)), np.zeros((levels, levels))
    pairs = np.zeros((levels, levels))
    blocks = neighbor_blocks(
        embedded.embeddings[task.query_rows[queries]],
        embedded.embeddings[task.gallery_rows],
        len(task.gallery_rows),
        own=task.own[queries],
        geometry=embedded.geometry,
        curvature=embedded.curvature,
    )
    for rows, found in blocks:
        for query, ranking in zip(queries[rows], found, strict=True):
            same = task.gallery_paths[ranking[ranking >= 0]] == task.query_paths[query]
            _count(same.sum(axis=1), ranks, broken, pairs)
    totals = ranks.sum(axis=1, keepdims=True)
    shares = np.divide(broken, pairs, out=np.full_like(broken, np.nan), where=pairs > 0)
    return Order(ranks / np.maximum(totals, 1), shares)


def _count(shared: IntArray, ranks: Floats, broken: Floats, pairs: Floats) -> None:
    """Adds one ranking: how many levels every image shares, the nearest first."""
    bins = np.arange(len(shared)) * _BINS // len(shared)
    np.add.at(ranks, (shared, bins), 1)
    of_levels = shared[None, :] == np.arange(len(ranks))[:, None]
    before = of_levels.cumsum(axis=1)  # of every level, up to each place
    for less in range(len(ranks)):
        for more in range(less + 1, len(ranks)):
            broken[less, more] += before[less, of_levels[more]].sum()
            pairs[less, more] += of_levels[less].sum() * of_levels[more].sum()


def draw_violations(look: Look, before: Metrics, after: Metrics) -> Figure:
    """Draws where images of each kind are ranked, and how often two kinds are in wrong order."""
    orders = [
        ranking_order(seen.embedded, rng_for(look.job.seed, "violations"))
        for seen in (look.before, look.after)
    ]
    subtitle = (
        f"pairs of images in wrong order: {after['h_violations']:.1%}, before training "
        f"{before['h_violations']:.1%} (less is better)"
    )
    figure = new_figure(11.5, 4.4, f"{look.title}: violations of the hierarchy", subtitle)
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    _draw_ranks(left, orders[1], look.levels)
    _draw_broken(right, orders, look.levels)
    return figure


def kind_words(shared: int, levels: tuple[str, ...]) -> str:
    """Returns what images that share so many levels with a query have in common with it."""
    return "nothing" if shared == 0 else f"same {levels[shared - 1]}"


def _draw_ranks(axes: Axes, order: Order, levels: tuple[str, ...]) -> None:
    edges = np.linspace(0, 1, _BINS + 1)
    for shared in reversed(range(len(order.ranks))):
        heights = order.ranks[shared]
        if heights.any():
            words = kind_words(shared, levels)
            axes.stairs(heights, edges, color=MANY[shared], linewidth=2, label=words)
    tidy(axes, x="place in the ranking, nearest first", y="share of the images of a kind")
    axes.set_title("trained: where images are found", loc="left", size=9.5, color=INK)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, None)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    title = "in common with the query"
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, title=title, title_fontsize=8.5)


def _draw_broken(axes: Axes, orders: list[Order], levels: tuple[str, ...]) -> None:
    pairs = [tuple(pair) for pair in np.argwhere(~np.isnan(orders[1].broken))]
    names = [f"{kind_words(i, levels)}\nbefore {kind_words(j, levels)}" for i, j in pairs]
    places = np.arange(len(pairs))
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    for shift, order, colour, label in (
        (-0.2, orders[0], UNTRAINED, "before training"),
        (0.2, orders[1], BLUE, "trained"),
    ):
        values = [float(order.broken[pair]) for pair in pairs]
        bars = axes.barh(places + shift, values, 0.38, color=colour, label=label)
        axes.bar_label(
            bars, [f"{value:.1%}" for value in values], size=8, color=INK, padding=3, bbox=paper
        )
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlim(0, 0.78)
    tidy(axes, x="share of pairs in this wrong order; 50 % is chance", grid="x")
    axes.axvline(0.5, color=INK, linewidth=1, linestyle=":", zorder=0.5)
    axes.set_title("who comes before whom", loc="left", size=9.5, color=INK)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="lower right")
