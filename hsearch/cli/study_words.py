"""How a study is told: the same words during a search, at its end and in `hsearch studies`."""

from collections import Counter
from collections.abc import Iterable, Mapping

import click

from hsearch.cli.output import print_table
from hsearch.search.record import StudyRecord, TrialRecord, TrialState
from hsearch.spec import KnobValue
from hsearch.words import FLOORS, plural, typed

_SHOWN_REASONS = 5

STATES: dict[TrialState, str] = {
    "complete": "done",
    "running": "running",
    "lost": "lost in the race",
    "failed": "failed",
}


INTERRUPTED = "interrupted"  # what is called running while nobody searches


def state_words(trial: TrialRecord, *, searching: bool = True) -> str:
    """Returns `done`, `running`, `lost in the race after fold 1: ...` or `failed: ...`.

    Args:
        trial: Whose state is told.
        searching: Whether a driver is at work; otherwise a running trial is `interrupted`.
    """
    words = _state(trial.state, searching)
    if trial.state == "lost" and trial.folds:
        words += f" after fold {max(trial.folds)}"
    return f"{words}: {trial.reason}" if trial.reason else words


def knob_words(knobs: Mapping[str, KnobValue]) -> str:
    """Returns `method.scale=9 optimizer.lr.proxies=0.03`, short enough to read."""
    return " ".join(f"{name}={value_words(value)}" for name, value in knobs.items())


def value_words(value: KnobValue) -> str:
    """Returns a value with four digits, which is what people compare."""
    return f"{value:.4g}" if isinstance(value, float) else typed(value)


def score_words(trial: TrialRecord) -> str:
    """Returns `0.5512 +- 0.0101` (mean and its standard error), or a dash without all folds."""
    return "-" if trial.score is None else f"{trial.score:.4f} +- {trial.sem:.4f}"


def count_words(trials: Iterable[TrialRecord], *, searching: bool = True) -> str:
    """Returns `7 done, 1 running, 12 lost in the race`, without the states that nobody is in.

    Args:
        trials: Whose states are counted.
        searching: Whether a driver is at work; otherwise running trials are `interrupted`.
    """
    counts = Counter(trial.state for trial in trials)
    parts = [f"{counts[state]} {_state(state, searching)}" for state in STATES if counts[state]]
    return ", ".join(parts) or "none"


def kept_words(record: StudyRecord) -> str:
    """Returns `5 finished fold trainings of 2 trials (1 done, 1 interrupted)`."""
    folds, trials = plural(record.folds_trained, "finished fold training"), len(record.trials)
    counts = count_words(record.trials, searching=False)
    return f"{folds} of {plural(trials, 'trial')} ({counts})"


def stopped_words(record: StudyRecord, host: str = "") -> str:
    """Returns what is said of a search that is not over.

    Args:
        record: What is kept of it.
        host: From where it was stopped; empty for here.
    """
    stopped = f"Stopped from {host}" if host else "Stopped"
    if not record.trials:
        return f"{stopped} before the first trial; none is recorded."
    return (
        f"{stopped}. The record of {record.name} keeps {kept_words(record)}. Run the same command "
        "again to go on; interrupted folds continue after their last epoch."
    )


def _state(state: TrialState, searching: bool) -> str:
    return INTERRUPTED if state == "running" and not searching else STATES[state]


def fold_seconds(trial: TrialRecord, fold: int) -> float:
    """Returns how long a finished fold has trained and validated."""
    return sum(epoch.seconds for epoch in trial.folds[fold].history)


def saved_words(record: StudyRecord) -> str:
    """Returns what the race saved, in fold trainings and in hours of training."""
    spent, saved = record.folds_trained, record.folds_saved
    if not record.spec.race:
        return f"No race: {plural(spent, 'fold training')}, none saved."
    if not saved:
        return f"{plural(spent, 'fold training')}; the race has saved none so far."
    seconds = sum(fold_seconds(trial, fold) for trial in record.trials for fold in trial.folds)
    per_fold = seconds / max(1, spent)
    return (
        f"{plural(spent, 'fold training')} instead of {spent + saved}: the race saved {saved}, "
        f"about {duration_words(saved * per_fold)} of training."
    )


def duration_words(seconds: float) -> str:
    """Returns `45 s`, `12 min` or `3.4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def floor_words(record: StudyRecord) -> str | None:
    """Returns how the best trial stands beside what needs no training; None if not recorded."""
    floor, best = record.floor, record.best
    if floor is None:
        return None
    title = record.score_title
    words = f"Floor ({_floor_noun(record)}, no training): {title} {floor:.4f}"
    if best is None or best.score is None or best.sem is None:
        return f"{words}."
    gain = best.score - floor
    if gain > 0:
        return f"{words}; the best trial is {gain:.4f} above it."
    return (
        f"{words}. Training has not helped: the best trial is {-gain:.4f} below what needs none. "
        "Try more trials or epochs, lower rates, or another --regime."
    )


def _floor_noun(record: StudyRecord) -> str:
    from hsearch.methods import load_method

    return FLOORS[load_method(record.spec.job.method.name).task].noun


def failure_lines(record: StudyRecord) -> list[str]:
    """Returns a line for each of the first reasons why trials failed, and how many more there are.

    The whole list stands in the table of trials.
    """
    numbers: dict[str, list[str]] = {}
    for trial in record.trials:
        if trial.state == "failed":
            numbers.setdefault(trial.reason or "no reason recorded", []).append(str(trial.number))
    lines = [
        f"{'Trial' if len(found) == 1 else 'Trials'} {', '.join(found)} failed: {reason}"
        for reason, found in numbers.items()
    ]
    more = len(lines) - _SHOWN_REASONS
    return lines if more <= 0 else [*lines[:_SHOWN_REASONS], f"{more} more failed otherwise."]


def print_trial(trial: TrialRecord, title: str) -> None:
    """Prints the knobs of a trial and its scores, with mean and standard error if it has all."""
    rows = [(name, value_words(value)) for name, value in trial.knobs.items()]
    print_table(("knob", "value"), rows, title=title)
    scores = {f"fold {fold}": f"{trial.folds[fold].score:.4f}" for fold in sorted(trial.folds)}
    if trial.score is not None:
        scores |= zip(("mean", "sem"), score_words(trial).split(" +- "), strict=True)
    if scores:
        print_table(list(scores), [list(scores.values())], title="")


def print_result(record: StudyRecord) -> None:
    """Prints the best knobs, its scores per fold, what the race saved, and what failed."""
    best = record.best
    if best is None:
        click.echo("No trial has finished all folds, so there is no best one.")
    else:
        score = f"{record.score_title} {score_words(best)}"
        print_trial(best, f"Best: trial {best.number} ({best.source}), {score}")
    if floor := floor_words(record):
        click.echo(f"\n{floor}")
    click.echo(f"\n{saved_words(record)}")
    for line in failure_lines(record):
        click.echo(line)
