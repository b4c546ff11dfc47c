"""What a training gives: frozen values that survive a round trip through JSON."""

import statistics
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from pydantic import Field

from hsearch.folds import NUM_FOLDS
from hsearch.spec import FoldJob, Spec
from hsearch.words import metric_title

Metrics = dict[str, float]
TestedKind = Literal["separated", "concatenated"]
"""The networks of a run one by one, or their embeddings joined."""

RECALL_AT = (1, 2, 4, 8)
"""The k of recall_at_k where nobody asks for others."""

TOP = 3
"""How many of its highest scores an image with several labels has in the metrics `_top_3`."""

OBJECTIVES = {"retrieval": "map_at_r", "multilabel": "map"}
"""By task, what decides where nobody says."""

ALL_LEVEL_METRICS = ("h_ap", "h_ap_map", "h_asi", "h_ndcg", "h_violations")
"""Metrics over all levels at once; of all others each level has its own."""

_LOWER_IS_BETTER = "h_violations"


def level_prefix(level: int, num_levels: int) -> str:
    """Returns what the names of a level's metrics begin with: nothing for the finest."""
    return "" if level == num_levels - 1 else f"level_{level}/"


def metric_names(
    num_levels: int, recall_at: Sequence[int] = RECALL_AT, *, whole_list: bool = True
) -> list[str]:
    """Returns the names of all metrics of an evaluation on so many levels, the finest first.

    Args:
        num_levels: At least 1.
        recall_at: The k of recall_at_k.
        whole_list: Whether with those that need the whole ranking of every query.
    """
    recalls = [f"recall_at_{k}" for k in recall_at]
    of_one = ["map_at_r", "r_precision", "precision_at_1", *recalls]
    if whole_list:
        of_one += ["ap", "asi"]
    names = of_one + (list(ALL_LEVEL_METRICS) if whole_list else [])
    for level in reversed(range(num_levels - 1)):
        names += [level_prefix(level, num_levels) + name for name in of_one]
    return names


def label_metric_names(top: int = TOP) -> list[str]:
    """Returns the names of the metrics of images with several labels, but of retrieval by label."""
    names = ("cp", "cr", "cf1", "op", "or", "of1")
    return ["map", *names, *(f"{name}_top_{top}" for name in names)]


def score_of(metrics: Metrics, objective: str) -> float:
    """Returns what a training or a search maximises: the metric, or 1 - h_violations."""
    value = metrics[objective]
    return 1.0 - value if objective == _LOWER_IS_BETTER else value


def score_title(objective: str, level_names: Sequence[str] = ()) -> str:
    """Returns what `score_of` is called where people read it, such as `MAP@R`.

    Args:
        objective: Name of the metric.
        level_names: What the levels are called, coarsest first; none if that is not known.
    """
    title = metric_title(objective, level_names)
    return f"1 - {title}" if objective == _LOWER_IS_BETTER else title


class EpochRecord(Spec):
    """One epoch of one job.

    Attributes:
        epoch: From 1; 0 is the network before training, with its random head.
        loss: Mean training loss of the epoch; null for epoch 0.
        seconds: Wall-clock time of the epoch's training and validation.
        images_per_second: Training throughput over all ranks; null for epoch 0.
        lr: Learning rate of each parameter group at the end of the epoch.
        validation: Metrics on the fold's validation classes; null where none was due.
    """

    epoch: int
    loss: float | None
    seconds: float
    images_per_second: float | None
    lr: dict[str, float]
    validation: Metrics | None


class FoldResult(Spec):
    """The outcome of one job.

    Attributes:
        job: What was trained.
        score: `score_of` the best epoch on the validation classes, by the job's objective; null
            where there are none.
        best_epoch: The epoch whose weights are kept: the best one, or the last without validation.
        validation: All metrics of the best epoch; none without validation.
        untrained: All metrics of the network before training, with its random head; none without
            validation.
        history: Every epoch, epoch 0 first.
        stopped: Why training ended: all `epochs` done, or `patience` exhausted.
        versions: Of the packages that decide numbers.
        ranks: Processes that trained together; as `threads`, it decides how sums are rounded.
        threads: Of torch in each rank; null in records from before this was kept.
        floor: All metrics of what needs no training, on the same images: the backbone's own
            features without a head, or for several labels to know their frequencies. None in
            records from before this was kept, and without validation.
    """

    job: FoldJob
    score: float | None
    best_epoch: int
    validation: Metrics
    untrained: Metrics
    history: tuple[EpochRecord, ...]
    stopped: Literal["epochs", "patience"]
    versions: dict[str, str]
    ranks: int = 1
    threads: int | None = None
    floor: Metrics = Field(default_factory=dict)


FOLDS_IN_A_RACE = 1.6
"""Folds of a trial that a race trains on the average: 2.2 to 2.7 times fewer than all four,
replayed on two tables of real studies."""


class FoldTime(Spec):
    """How long the training of a fold takes on the machine at hand.

    Attributes:
        seconds: Of a fold with all its epochs, without features.
        features: Seconds for all features that are to be cached, by one worker group alone.
        may_stop_early: Whether a training may end before its last epoch.
    """

    seconds: float
    features: float = 0.0
    may_stop_early: bool = False

    def study_seconds(self, trials: int, groups: int, *, race: bool) -> float:
        """Returns how long so many trials take on so many worker groups."""
        folds = trials * (FOLDS_IN_A_RACE if race else NUM_FOLDS)
        return (self.features + folds * self.seconds) / max(1, groups)


class Tested(Spec):
    """Scores of one run, the networks of all its folds, on the test classes.

    Attributes:
        models: All metrics of each of its networks alone.
        concatenated: All metrics of their embeddings joined; null where there is one network.
        queries: How many images queried.
    """

    models: tuple[Metrics, ...]
    concatenated: Metrics | None = None
    queries: int

    @property
    def separated(self) -> Metrics:
        """The mean over the networks of every metric."""
        names = self.models[0]
        return {name: statistics.fmean(each[name] for each in self.models) for name in names}

    def metrics(self, kind: TestedKind) -> Metrics | None:
        """Returns the metrics of the networks one by one, or joined."""
        return self.separated if kind == "separated" else self.concatenated


class FloorScore(Spec):
    """Scores on the test images of what needs no training.

    Attributes:
        metrics: All of them.
        queries: How many queries were scored one by one, into a file; 0 where none are.
    """

    metrics: Metrics
    queries: int


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Returns the versions of those of the packages that are installed."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
