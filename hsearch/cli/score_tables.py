"""Metrics as people read them: one table of the levels, one of the metrics over all levels."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from hsearch.cli.output import print_table

if TYPE_CHECKING:
    from hsearch.evaluation.protocols import Spread
    from hsearch.results import Metrics

_HEADINGS = {
    "map_at_r": "MAP@R",
    "r_precision": "R-precision",
    "precision_at_1": "P@1",
    "ap": "AP",
    "asi": "ASI",
    "knn_accuracy": "k-NN",
    "linear_accuracy": "linear",
    "nmi": "NMI",
    "h_ap": "H-AP",
    "h_ap_map": "H-AP (map)",
    "h_asi": "ASI",
    "h_ndcg": "NDCG",
    "h_violations": "violations",
}
_ALL_LEVELS = "h_"


def print_scores(metrics: "Metrics", level_names: Sequence[str]) -> None:
    """Prints the metrics of one model: a row per level, and below those over all levels."""
    names = [name for name in metrics if "/" not in name and not name.startswith(_ALL_LEVELS)]
    rows = [
        [level, *(f"{metrics[prefix + name]:.4f}" for name in names)]
        for level, prefix in zip(level_names, _prefixes(level_names), strict=True)
    ]
    print_table(["level", *map(_heading, names)], rows)
    overall = [name for name in metrics if name.startswith(_ALL_LEVELS)]
    if len(level_names) > 1:
        click.echo()
        columns = ["levels", *map(_heading, overall)]
        print_table(columns, [["all", *(f"{metrics[name]:.4f}" for name in overall)]])


def print_fold_scores(
    separated: "Mapping[str, Spread]", concatenated: "Metrics", level_names: Sequence[str]
) -> None:
    """Prints the metrics of several models: a row per level and metric, both ways side by side."""
    rows = []
    levels = dict(zip(_prefixes(level_names), level_names, strict=True))
    for prefix, level in levels.items():
        names = [name for name in separated if _prefix(name) == prefix]
        rows += [[level, *_row(name, separated, concatenated)] for name in names]
    if len(level_names) > 1:
        names = [name for name in separated if name.startswith(_ALL_LEVELS)]
        rows += [["all", *_row(name, separated, concatenated)] for name in names]
    print_table(["level", "metric", "separated", "concatenated"], rows)


def _row(name: str, separated: "Mapping[str, Spread]", concatenated: "Metrics") -> list[str]:
    spread = separated[name]
    return [
        _heading(name.rpartition("/")[2]),
        f"{spread.mean:.4f} +- {spread.std or 0.0:.4f}",
        f"{concatenated[name]:.4f}",
    ]


def _prefixes(level_names: Sequence[str]) -> list[str]:
    """What the metrics of each level begin with, coarsest first."""
    return [*(f"level_{level}/" for level in range(len(level_names) - 1)), ""]


def _prefix(name: str) -> str | None:
    """What the name of a metric of one level begins with; None for one over all levels."""
    level, slash, _ = name.rpartition("/")
    return None if name.startswith(_ALL_LEVELS) else level + slash


def _heading(name: str) -> str:
    return _HEADINGS.get(name) or re.sub(r"^recall_at_", "R@", name)
