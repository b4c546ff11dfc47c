"""What the race over folds saved, trial by trial."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hsearch.folds import NUM_FOLDS
from hsearch.report.canvas import AMBER, BLUE, INK, legend_above, new_figure, tidy, whole_numbers
from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.words import plural

_HOUR, _MINUTE = 3600.0, 60.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Savings:
    """Cumulated over the trials of a study, in their order.

    Attributes:
        folds_spent: (T,) fold trainings.
        folds_saved: (T,) fold trainings that trials would have had without the race.
        seconds_spent: (T,) of training and validation.
        seconds_saved: (T,) saved fold trainings times what one took on average in the study.
    """

    folds_spent: Floats
    folds_saved: Floats
    seconds_spent: Floats
    seconds_saved: Floats


def race_savings(record: StudyRecord) -> Savings:
    """Returns what the folds of a study cost and what the race saved."""
    spent = np.array([len(trial.folds) for trial in record.trials], dtype=np.float64)
    lost = np.array([trial.state == "lost" for trial in record.trials], dtype=np.float64)
    seconds = np.array([_seconds(trial) for trial in record.trials])
    saved = lost * (NUM_FOLDS - spent)
    per_fold = seconds.sum() / max(1.0, spent.sum())
    return Savings(spent.cumsum(), saved.cumsum(), seconds.cumsum(), saved.cumsum() * per_fold)


def draw_race(record: StudyRecord) -> Figure:
    """Draws fold trainings and hours, spent and saved, as they add up over the trials."""
    found = race_savings(record)
    folds, saved = int(found.folds_spent[-1]), int(found.folds_saved[-1])
    longest = found.seconds_spent[-1] + found.seconds_saved[-1]
    unit, word = (_HOUR, "hours") if longest >= 2 * _HOUR else (_MINUTE, "minutes")
    subtitle = (
        f"{plural(folds, 'fold training')} instead of {folds + saved}: {saved} saved, about "
        f"{found.seconds_saved[-1] / unit:.3g} {word} of training"
    )
    if not record.spec.race:
        subtitle = f"There was no race: {plural(folds, 'fold training')}, none saved"
    figure = new_figure(10, 4.4, f"What the race saved in {record.name}", subtitle)
    left, right = figure.subplots(1, 2)
    numbers = np.array([trial.number for trial in record.trials])
    _stack(left, numbers, found.folds_spent, found.folds_saved)
    _stack(right, numbers, found.seconds_spent / unit, found.seconds_saved / unit)
    tidy(left, x="trial", y="fold trainings, cumulated")
    tidy(right, x="trial", y=f"{word} of training, cumulated")
    legend_above(left, columns=2)
    return figure


def _stack(axes: Axes, numbers: NDArray[np.int64], spent: Floats, saved: Floats) -> None:
    steps = np.append(numbers, numbers[-1] + 1)
    below, above = np.append(spent, spent[-1]), np.append(spent + saved, (spent + saved)[-1])
    axes.fill_between(steps, below, step="post", color=BLUE, linewidth=0, label="spent")
    axes.fill_between(
        steps, below, above, step="post", color=AMBER, alpha=0.45, linewidth=0, label="saved"
    )
    axes.step(steps, above, where="post", color=INK, linewidth=1)
    axes.set_xlim(numbers[0], numbers[-1] + 1)
    axes.set_ylim(0, 1.05 * above[-1] or 1)
    whole_numbers(axes)


def _seconds(trial: TrialRecord) -> float:
    return sum(epoch.seconds for fold in trial.folds.values() for epoch in fold.history)
