"""Words that several rooms say alike."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_LEVEL = re.compile(r"level_(\d+)")

_TITLES = {
    "map_at_r": "MAP@R",
    "r_precision": "R-precision",
    "precision_at_1": "P@1",
    "ap": "AP",
    "asi": "ASI",
    "h_ap": "H-AP",
    "h_ap_map": "H-AP (map)",
    "h_asi": "H-ASI",
    "h_ndcg": "H-NDCG",
    "h_violations": "violations",
    "knn_accuracy": "k-NN",
    "linear_accuracy": "linear",
    "nmi": "NMI",
    "map": "mAP",
    **{name: name.upper() for name in ("cp", "cr", "cf1", "op", "or", "of1")},
}


class FloorWords(NamedTuple):
    """How the floor is called, what a method must beat.

    Attributes:
        short: In the head of a column.
        row: In a table of methods.
        noun: In a sentence.
    """

    short: str
    row: str
    noun: str


FLOORS = {
    "retrieval": FloorWords(
        "untrained features", "frozen backbone, no training", "the backbone's own features"
    ),
    "multilabel": FloorWords(
        "label frequencies", "label frequencies, no image seen", "label frequencies alone"
    ),
}
"""By task, what needs no training."""


def plural(count: int, noun: str) -> str:
    """Returns `1 trial` or `3 trials`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size_words(num_bytes: int) -> str:
    """Returns a size with a unit: `0.3 MB`, `545.0 MB`, `1.2 GB`."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


def typed(value: object) -> str:
    """Returns a value as it is typed after `--set`: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def level_title(name: str, level_names: Sequence[str]) -> str:
    """Returns what the level `level_0` is called, or the name as it is where nobody knows."""
    number = _LEVEL.fullmatch(name)
    known = number is not None and int(number[1]) < len(level_names)
    return level_names[int(number[1])] if number and known else name


def metric_title(name: str, level_names: Sequence[str] = ()) -> str:
    """Returns a metric as people write it: `H-AP`, `R@4`, `MAP@R at family`.

    Args:
        name: Of the metric, such as `level_0/map_at_r`.
        level_names: What the levels are called, coarsest first; none if that is not known.
    """
    level, _, metric = name.rpartition("/")
    base, top, number = metric.partition("_top_")
    title = f"{_TITLES[base]} top-{number}" if top else _TITLES.get(metric, _at(metric))
    return f"{title} at {level_title(level, level_names)}" if level else title


def _at(metric: str) -> str:
    """`recall_at_4` as `R@4`, and `label_precision_at_3` as `label P@3`."""
    short = metric.replace("label_", "label ")
    return short.replace("recall_at_", "R@").replace("precision_at_", "P@")
