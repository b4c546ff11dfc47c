"""How well every label is found, before and after training."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.evaluation.multilabel import label_scores
from hsearch.report.canvas import BLUE, INK, UNTRAINED, new_figure, shortened, tidy
from hsearch.report.label_looking import LabelLook

MOST_LABELS = 40
_ROW = 0.3  # inches of a label
_BAR = 0.38

Floats = NDArray[np.float64]


def draw_label_scores(look: LabelLook) -> Figure:
    """Draws the average precision of every label, the highest at the top.

    Of more than MOST_LABELS labels the best and the worst are drawn. Labels that no image has have
    no average precision and are left out.
    """
    before, after = (_precisions(embedded) for embedded in (look.before, look.after))
    labels = ordered_labels(after)
    known = int(np.isfinite(after).sum())
    figure = new_figure(
        9.0,
        2.1 + _ROW * len(labels),
        f"{look.title}: average precision of labels",
        f"mAP {np.nanmean(before):.3f} before training, {np.nanmean(after):.3f} trained"
        f"; number of images in brackets{_left_out(len(labels), known, len(after))}",
    )
    axes = figure.add_subplot()
    places = np.arange(len(labels), dtype=np.float64)
    cut = len(labels) // 2 if known > len(labels) else len(labels)
    places[cut:] += 1.0  # a gap where labels are left out
    for shift, values, colour, words in (
        (-0.2, before, UNTRAINED, "before training"),
        (0.2, after, BLUE, "trained"),
    ):
        bars = axes.barh(places + shift, values[labels], _BAR, color=colour, label=words)
        axes.bar_label(bars, [f"{v:.2f}" for v in values[labels]], size=7, color=INK, padding=2)
    counts = look.after.labels.sum(axis=0)
    names = [f"{shortened(look.names[label], 28)}  ({counts[label]})" for label in labels]
    axes.set_yticks(places, names)
    axes.set_ylim(places[-1] + 0.6, -0.6)
    axes.set_xlim(0, 1.06)
    tidy(axes, x="average precision, more is better", grid="x")
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=8.5)
    return figure


def ordered_labels(precisions: Floats) -> NDArray[np.int64]:
    """Returns the labels that are drawn: by average precision, the highest first.

    Args:
        precisions: (T,) NaN for labels that are left out.
    """
    order = np.argsort(-precisions, kind="stable")  # NaN comes last
    order = order[: int(np.isfinite(precisions).sum())]
    if len(order) <= MOST_LABELS:
        return order
    half = MOST_LABELS // 2
    return np.concatenate([order[:half], order[-half:]])


def _precisions(embedded: LabelEmbedded) -> Floats:
    return label_scores(embedded.scores, embedded.labels).average_precision


def _left_out(shown: int, known: int, every: int) -> str:
    words = f"; the {shown // 2} best and the {shown // 2} worst of {known}" * (shown < known)
    absent = every - known
    return words + f"; without {absent} that no image has" * (absent > 0)
