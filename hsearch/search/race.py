"""The fold race: when a trial has lost against the best one, before all its folds are trained.

The model: score[c, k] = quality[c] + difficulty[k] + noise, for configuration c on fold k, with
independent noise of standard deviation sigma. Folds run in a fixed order, so that a trial and the
incumbent (the best trial with all folds) share the difficulty of the folds that both have:

    D_n = mean over folds 0..n-1 of (trial - incumbent)

The verdict of a full schedule of K folds is the sign of D_K. After n < K folds it is known up to
sd(D_n - D_K) = sqrt(2) * sigma * sqrt(1/n - 1/K), so a trial has lost once

    D_n < -MARGIN * sqrt(2) * sigma * sqrt(1/n - 1/K)

Everything here is a pure function of scores, so a resumed study decides the same.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hsearch.folds import NUM_FOLDS

# Chosen by benchmarks/fold_race.py --sweep on recorded tables of two data sets; CHANGELOG.md says
# how flat the optimum is.
MARGIN = 1.25
PRIOR_SHARE = 0.25  # sigma before anything is known, as a share of the sd of the incumbent's folds
PRIOR_DOF = 3


@dataclass(frozen=True)
class Verdict:
    """What the race says about a trial.

    Attributes:
        lost: Whether the trial ends.
        behind: How far it is behind the incumbent on the same folds, on average; may be negative.
        margin: How far behind it may be, >= 0.
        folds: On how many folds that was judged.
    """

    lost: bool
    behind: float
    margin: float
    folds: int

    def sentence(self, incumbent: int) -> str:
        """Says it in words; `incumbent` is the number of the best trial."""
        folds = "1 fold" if self.folds == 1 else f"{self.folds} folds"
        return (
            f"{self.behind:.4f} behind the best trial ({incumbent}) on {folds}, "
            f"margin {self.margin:.4f}"
        )


def noise_sd(
    complete: Sequence[Sequence[float]], reproductions: Sequence[Sequence[float]] = ()
) -> float:
    """Estimates sigma, the noise of one fold's score.

    Three sources are pooled by their degrees of freedom: a prior of PRIOR_DOF that knows only the
    spread of the incumbent's folds; the residuals of the additive table of complete trials; and
    repeated runs. The table is that of the better half of the trials: a configuration that hardly
    learns does not share the folds' difficulty, and the race is about the best ones.

    Args:
        complete: Scores of every complete trial, NUM_FOLDS each, in the order of the folds.
        reproductions: Groups of scores of the same knobs on the same fold under other seeds. A
            search gives none: what it decides must not depend on when it was reproduced.

    Returns:
        Sigma >= 0; infinity without a complete trial, so that nobody loses.
    """
    if not complete:
        return math.inf
    ranked = sorted(complete, key=statistics.fmean, reverse=True)
    best = ranked[: max(2, math.ceil(len(ranked) / 2))]
    squares = PRIOR_DOF * (PRIOR_SHARE * statistics.stdev(best[0])) ** 2
    squares += _residual_squares(best)
    dof = PRIOR_DOF + (len(best) - 1) * (len(best[0]) - 1)
    for group in reproductions:
        mean = statistics.fmean(group)
        squares += sum((score - mean) ** 2 for score in group)
        dof += len(group) - 1
    return math.sqrt(squares / dof)


def verdict(scores: Sequence[float], incumbent: Sequence[float], sigma: float) -> Verdict:
    """Judges a trial by its folds so far.

    Args:
        scores: Of folds 0..n-1, 1 <= n <= NUM_FOLDS.
        incumbent: Scores of the best trial on all NUM_FOLDS folds.
        sigma: Noise of one fold's score, as `noise_sd` estimates it.

    Returns:
        The verdict; with all folds a trial is complete and never lost.
    """
    count = len(scores)
    same = incumbent[:count]
    behind = statistics.fmean(b - s for s, b in zip(scores, same, strict=True))
    left = 1 / count - 1 / NUM_FOLDS
    margin = MARGIN * math.sqrt(2 * left) * sigma if left > 0 else 0.0
    return Verdict(count < NUM_FOLDS and behind > margin, behind, margin, count)


def _residual_squares(table: Sequence[Sequence[float]]) -> float:
    """Squares left after each row's mean and each column's mean are taken out."""
    rows = [statistics.fmean(row) for row in table]
    columns = [statistics.fmean(column) for column in zip(*table, strict=True)]
    grand = statistics.fmean(rows)
    return sum(
        (score - row - column + grand) ** 2
        for row, scores in zip(rows, table, strict=True)
        for column, score in zip(columns, scores, strict=True)
    )
