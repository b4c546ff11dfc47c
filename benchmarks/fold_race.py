"""What the fold race saves and what it costs, replayed on recorded fold scores of real trainings.

    python benchmarks/fold_race.py [--quick] [--check] [--sweep]

The tables in `fold_race/` come from `record_folds.py`. Every rule sees the configurations of a
table in the same random orders, one after the other and fold by fold, and may end one after each
fold. Spent: fold trainings begun, and how many times fewer than without a race. Regret: how far
the mean of the chosen configuration is below the best mean of the table, in % of the best.

Which fold is the first one is an accident of how classes are numbered, and much depends on it: so
every order draws an order of the folds as well, the same for all its configurations, which tells
what to expect of other data. The same with folds as they are numbered stands beside it.

Peers: Optuna's own WilcoxonPruner and MedianPruner (on running means) with their defaults, and the
simplest rule of all, ending a configuration whose mean so far is below the incumbent's full mean.
"""

import argparse
import json
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning

from hsearch.folds import NUM_FOLDS
from hsearch.search import race

TABLES = Path(__file__).parent / "fold_race"
FEWER, MEDIAN_REGRET, WORST_REGRET = 2.5, 0.5, 3.0
OURS = "hsearch's fold race"
Row = list[float | None]  # a configuration's scores by fold; None where it diverged


class Rule:
    """Ends nothing: the full schedule."""

    def __init__(self) -> None:
        self.complete: list[list[float]] = []

    def ends(self, scores: Sequence[float]) -> bool:
        """Whether the configuration with these first scores ends; called after every fold."""
        return False

    def keep(self, scores: list[float]) -> None:
        """A configuration has all its folds."""
        self.complete.append(scores)


class MeanRule(Rule):
    """Ends what is below the incumbent's mean over all folds."""

    def ends(self, scores: Sequence[float]) -> bool:
        best = max(map(statistics.fmean, self.complete), default=float("-inf"))
        return statistics.fmean(scores) < best


class RaceRule(Rule):
    """Asks hsearch."""

    def ends(self, scores: Sequence[float]) -> bool:
        if not self.complete:
            return False
        incumbent = max(self.complete, key=statistics.fmean)
        return race.verdict(scores, incumbent, race.noise_sd(self.complete)).lost


class OptunaRule(Rule):
    """Asks a pruner of Optuna, in a study in memory."""

    pruner: Callable[[], optuna.pruners.BasePruner]
    running_means = False

    def __init__(self) -> None:
        super().__init__()
        sampler = optuna.samplers.RandomSampler(seed=0)
        with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
            pruner = type(self).pruner()
        self.study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)

    def ends(self, scores: Sequence[float]) -> bool:
        if len(scores) == 1:
            self.trial = self.study.ask()
        value = statistics.fmean(scores) if self.running_means else scores[-1]
        self.trial.report(value, step=len(scores) - 1)
        ended = self.trial.should_prune() and len(scores) < NUM_FOLDS
        if ended:
            self.study.tell(self.trial, state=optuna.trial.TrialState.PRUNED)
        return ended

    def keep(self, scores: list[float]) -> None:
        super().keep(scores)
        self.study.tell(self.trial, statistics.fmean(scores))


class WilcoxonRule(OptunaRule):
    pruner = optuna.pruners.WilcoxonPruner


class MedianRule(OptunaRule):
    pruner = optuna.pruners.MedianPruner
    running_means = True


RULES: dict[str, type[Rule]] = {
    "no race": Rule,
    "Optuna WilcoxonPruner": WilcoxonRule,
    "Optuna MedianPruner": MedianRule,
    "mean against incumbent": MeanRule,
    OURS: RaceRule,
}


@dataclass(frozen=True)
class Outcome:
    """Of one rule over all orders: times fewer fold trainings, and regrets in %."""

    fewer: float
    regrets: list[float]

    def __str__(self) -> str:
        return f"{self.fewer:>13.2f}{self.median:>11.2f}{self.worst:>11.2f}"

    @property
    def median(self) -> float:
        return statistics.median(self.regrets)

    @property
    def worst(self) -> float:
        return max(self.regrets)

    @property
    def meets_targets(self) -> bool:
        good = self.median <= MEDIAN_REGRET and self.worst <= WORST_REGRET
        return good and self.fewer >= FEWER


def replay(rows: Sequence[Row], rule: Rule) -> int:
    """Shows the rule all configurations; returns the fold trainings begun."""
    begun = 0
    for row in rows:
        scores: list[float] = []
        for score in row:
            begun += 1
            if score is None:
                break
            scores.append(score)
            if rule.ends(scores):
                break
        else:
            rule.keep(scores)
    return begun


def judge(
    rows: Sequence[Row], kind: type[Rule], orders: int, *, shuffle_folds: bool = True
) -> Outcome:
    """Replays a table in so many orders, the same for every rule."""
    rng = random.Random(0)
    full = Rule()
    all_folds = replay(rows, full)
    best = max(map(statistics.fmean, full.complete))
    begun, regrets = [], []
    for _ in range(orders):
        rule = kind()
        folds = rng.sample(range(NUM_FOLDS), NUM_FOLDS) if shuffle_folds else range(NUM_FOLDS)
        order = rng.sample(rows, len(rows))
        begun.append(replay([[row[fold] for fold in folds] for row in order], rule))
        chosen = max(map(statistics.fmean, rule.complete))
        regrets.append(100 * (best - chosen) / best)
    return Outcome(all_folds / statistics.fmean(begun), regrets)


def read_tables(folder: Path) -> dict[str, tuple[list[Row], list[list[float]]]]:
    """By data set: its rows, and groups of scores of the same knobs and fold under other seeds."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        table = json.loads(path.read_text(encoding="utf-8"))
        rows = [e["scores"] for e in table["configurations"] if None not in e["seconds"]]
        again: dict[int, list[Row]] = {}
        for entry in table["reproductions"]:
            number = entry["configuration"]
            again.setdefault(number, [rows[number]]).append(entry["scores"])
        groups = [list(group) for runs in again.values() for group in zip(*runs, strict=True)]
        found[path.stem] = rows, [group for group in groups if None not in group]
    return found


def describe(name: str, rows: list[Row], seeds: list[list[float]]) -> None:
    """Prints what is in a table: spread, noise of a fold, and noise of a mean."""
    complete = [[s for s in row if s is not None] for row in rows if None not in row]
    means = sorted(map(statistics.fmean, complete), reverse=True)
    print(
        f"\n{name}: {len(rows)} configurations ({len(rows) - len(complete)} diverged), means: best "
        f"{means[0]:.4f}, second {means[1]:.4f}, median {statistics.median(means):.4f}, worst "
        f"{means[-1]:.4f}"
    )
    sigma = race.noise_sd(complete)
    print(f"noise of one fold as the race sees it: {100 * sigma / means[0]:.1f} % of the best mean")
    if seeds:
        sd = statistics.fmean(statistics.variance(group) for group in seeds) ** 0.5
        share = 100 * sd / statistics.fmean(statistics.fmean(group) for group in seeds)
        print(
            f"the same knobs and fold under other seeds: sd {share:.1f} % of the score, so a mean "
            f"of {NUM_FOLDS} folds is only known to {share / NUM_FOLDS**0.5:.1f} %"
        )


def compare(rows: list[Row], orders: int) -> tuple[Outcome, Outcome]:
    """Prints one line per rule; returns ours, with folds in random order and as numbered."""
    print(f"{'':<24}{'folds in random order':^35}{'folds as numbered':^35}")
    print(f"{'rule':<24}" + 2 * f"{'times fewer':>13}{'median %':>11}{'worst %':>11}")
    for name, kind in RULES.items():
        outcome = judge(rows, kind, orders)
        numbered = judge(rows, kind, orders, shuffle_folds=False)
        print(f"{name:<24}{outcome}{numbered}")
    return outcome, numbered


def sweep(rows: list[Row], orders: int) -> None:
    """Prints what other constants of the race would give."""
    print(f"{'MARGIN':>11} {'PRIOR_SHARE':>11}{'times fewer':>13}{'median %':>11}{'worst %':>11}")
    chosen = race.MARGIN, race.PRIOR_SHARE
    for margin in (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0):
        for share in (0.25, 0.5, 1.0):
            race.MARGIN, race.PRIOR_SHARE = margin, share
            print(f"{margin:>11} {share:>11}{judge(rows, RaceRule, orders)}")
    race.MARGIN, race.PRIOR_SHARE = chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="5 orders instead of 50")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--sweep", action="store_true", help="also try other constants of the race")
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of recorded tables")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    orders = 5 if options.quick else 50
    ours = {}
    for name, (rows, seeds) in read_tables(options.tables).items():
        describe(name, rows, seeds)
        ours[name] = compare(rows, orders)
        if options.sweep:
            sweep(rows, orders)
    figures = "; ".join(
        f"{name} {o.fewer:.2f}x fewer ({numbered.fewer:.2f}x with folds as numbered), regret "
        f"{o.median:.2f} % median, {o.worst:.2f} % worst"
        for name, (o, numbered) in ours.items()
    )
    targets = f"at least {FEWER}x, at most {MEDIAN_REGRET} % and {WORST_REGRET} %"
    print(f"\nfold_race: {figures} (target {targets})")
    return int(options.check and not all(o.meets_targets for o, _ in ours.values()))


if __name__ == "__main__":
    sys.exit(main())
