"""What a comparison found: frozen values that survive a round trip through JSON."""

from typing import Literal

from hsearch.results import Metrics
from hsearch.search.reproduced import Protocol
from hsearch.spec import Spec

Kind = Literal["separated", "concatenated"]
KINDS: tuple[Kind, ...] = ("separated", "concatenated")


class Estimate(Spec):
    """A mean over runs with its 95 % interval by Student's t; null bounds below two runs."""

    mean: float
    low: float | None
    high: float | None


class Contrast(Spec):
    """Two methods and whether they can be told apart.

    Attributes:
        one: Name of the row that stands higher in the table.
        other: Name of the lower one.
        difference: Of their scores, `one` minus `other`, over the runs whose seeds both have; null
            without such runs.
        runs: How many those are.
        p_runs: Of the paired t-test over runs, adjusted by Holm; null below two runs.
        p_queries: Of the paired bootstrap over queries and runs, adjusted by Holm; null where
            scores query by query are missing.
        different: Whether each test that could be made says so, and the one over runs was made.
    """

    one: str
    other: str
    difference: Estimate | None
    runs: int
    p_runs: float | None
    p_queries: float | None
    different: bool


Better = Literal["yes", "no", "cannot be told"]


class AgainstFloor(Spec):
    """A method and its floor: whether it is better than not training at all.

    Attributes:
        floor: Name of the floor's row; null where none is recorded.
        difference: Score of the method minus that of the floor, over the runs; null without a
            floor.
        p_runs: Of the t-test of the runs against the floor's score, adjusted by Holm; null below
            two runs.
        p_queries: Of the paired bootstrap over queries and runs, adjusted by Holm; null where
            scores query by query are missing.
        better: `yes` or `no` where each test that could be made says that they differ.
        reason: Why it cannot be told whatever the scores are; null otherwise.
    """

    floor: str | None
    difference: Estimate | None
    p_runs: float | None
    p_queries: float | None
    better: Better
    reason: str | None


class Row(Spec):
    """A method in a table.

    Attributes:
        name: Of the method, or of the study where two studies have that method.
        study: Name of the study.
        method: Name of the method.
        runs: Score by seed.
        score: Mean of the runs.
        metrics: Estimates of all metrics as they are, by name.
        group: Letters; rows that share one cannot be told apart.
        against_floor: Whether it is better than not training at all.
    """

    name: str
    study: str
    method: str
    runs: dict[int, float]
    score: Estimate
    metrics: dict[str, Estimate]
    group: str
    against_floor: AgainstFloor


class Floor(Spec):
    """What the backbone's own features score without any training: one evaluation, no runs.

    Attributes:
        name: In the table.
        rows: Names of the rows whose floor it is.
        score: By the metric of the table.
        metrics: All metrics as they are.
    """

    name: str
    rows: tuple[str, ...]
    score: float
    metrics: Metrics


class Table(Spec):
    """Methods on one data set, by the metrics of one kind.

    Attributes:
        kind: `separated`, the networks of a run one by one; or `concatenated`, joined.
        rows: The best first.
        floors: One, or several where backbones differ.
        contrasts: Every pair of rows.
        queries: How many queries the bootstrap draws from; null where no test could use it.
    """

    kind: Kind
    rows: tuple[Row, ...]
    floors: tuple[Floor, ...]
    contrasts: tuple[Contrast, ...]
    queries: int | None

    def to_best(self, row: Row) -> Contrast | None:
        """Returns the contrast of a row with the best one; None for the best itself."""
        best = self.rows[0].name
        pairs = {(found.one, found.other): found for found in self.contrasts}
        return pairs.get((best, row.name))

    def best_against(self, floor: Floor) -> AgainstFloor | None:
        """Returns the best row against a floor; None if that is not its floor."""
        found = self.rows[0].against_floor
        return found if found.floor == floor.name else None


class Finding(Spec):
    """One point of the fairness audit.

    Attributes:
        topic: What was looked at.
        same: Whether it is the same for all.
        words: In a sentence or more.
    """

    topic: str
    same: bool
    words: str


class Leaderboard(Spec):
    """All that was compared on one data set.

    Attributes:
        data: Name of the data set.
        data_digest: Of its store.
        protocol: How networks were trained for the test.
        splits: How classes were split.
        metric: Which metric decides.
        level_names: What the levels of the data are called, coarsest first; empty where none of
            the studies has kept it.
        tables: One per kind.
        audit: Whether the comparison is fair.
        notes: What could not be done, in sentences.
    """

    data: str
    data_digest: str
    protocol: Protocol
    splits: str
    metric: str
    level_names: tuple[str, ...] = ()
    tables: tuple[Table, ...]
    audit: tuple[Finding, ...]
    notes: tuple[str, ...]


class RankTable(Spec):
    """Methods over several data sets.

    Attributes:
        kind: Of the scores that are ranked.
        data: Names of the data sets.
        ranks: Mean rank by method, the best (lowest) first.
        friedman_p: Of "all methods are alike".
        critical_difference: Of mean ranks, at 5 %.
        groups: Methods that cannot be told apart, as far as they do not stand in another group.
    """

    kind: Kind
    data: tuple[str, ...]
    ranks: dict[str, float]
    friedman_p: float
    critical_difference: float
    groups: tuple[tuple[str, ...], ...]


class Comparison(Spec):
    """Everything that `hsearch compare` tells.

    Attributes:
        leaderboards: By data set.
        ranks: By kind, where several data sets have been compared.
        notes: Why there are no ranks, where one might expect them.
    """

    leaderboards: tuple[Leaderboard, ...]
    ranks: tuple[RankTable, ...] = ()
    notes: tuple[str, ...] = ()
