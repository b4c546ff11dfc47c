"""What failed trials have in common, for the sentence with which a search gives up."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.spec import KnobValue
from hsearch.words import typed

# So many failed trials in a row, or a third of all that have ended where that is more, end a
# search: fewer may be chance in a wide space, and a long study has shown that it can work.
FAILED_IN_A_ROW = 5
FAILED_SHARE = 1 / 3
MOST = 0.8  # a knob explains failures when it does so for this share of them

_ENDED = ("complete", "lost", "failed")


def diagnose(record: StudyRecord) -> str | None:
    """Says why a search should stop, or None while it should go on.

    Args:
        record: Of the study. Trials count in the order in which they ended; running ones do not.

    Returns:
        Sentences for the user: how many trials failed in a row, the most frequent reason, in which
        part of the ranges the failures lie, and what to do.
    """
    ended = sorted((t for t in record.trials if t.state in _ENDED), key=_end)
    row = _last_failures(ended)
    if len(row) < max(FAILED_IN_A_ROW, int(FAILED_SHARE * len(ended))):
        return None
    failed = [trial for trial in ended if trial.state == "failed"]
    others = [trial for trial in ended if trial.state != "failed"]
    reason, times = Counter(t.reason or "unknown" for t in row).most_common(1)[0]
    often = "each time" if times == len(row) else f"{times} times"
    return (
        f"The last {len(row)} trials failed, {often} because: {reason.rstrip('.')}. "
        f"{_shared(failed, others, record.spec.space)} Narrow these ranges in a search space of "
        "your own, or repair the cause and give the same command again to continue."
    )


def _end(trial: TrialRecord) -> tuple[float, int]:
    return (trial.ended or trial.started, trial.number)


def _last_failures(ended: Sequence[TrialRecord]) -> list[TrialRecord]:
    worked = [index for index, trial in enumerate(ended) if trial.state != "failed"]
    return list(ended[worked[-1] + 1 if worked else 0 :])


def _shared(
    failed: Sequence[TrialRecord], others: Sequence[TrialRecord], space: Mapping[str, str]
) -> str:
    """In which knobs the failed trials differ from the others."""
    if not others:
        lie = [f"{name} {_part(_values(failed, name))} (searched: {space[name]})" for name in space]
        return f"No trial has worked; the failed ones had {'; '.join(lie)}."
    found = [text for name in space if (text := _apart(name, failed, others))]
    return ". ".join(found or ["No single knob tells them from the trials that worked"]) + "."


def _apart(name: str, failed: Sequence[TrialRecord], others: Sequence[TrialRecord]) -> str | None:
    """How a knob tells most failed trials from the others, if it does."""
    good = _values(others, name)
    for beyond, words in _SIDES:
        apart = [value for value in _values(failed, name) if good and beyond(value, good)]
        if len(apart) >= MOST * len(failed):
            some = "all" if len(apart) == len(failed) else f"{len(apart)} of"
            return (
                f"{name} was {words(apart)} in {some} {len(failed)} failed trials and "
                f"{_part(good)} in the {len(good)} others"
            )
    return None


def _values(trials: Sequence[TrialRecord], name: str) -> list[KnobValue]:
    return [trial.knobs[name] for trial in trials if name in trial.knobs]


def _part(values: Sequence[KnobValue]) -> str:
    """The part of a range in which values lie, in words."""
    numbers = _numbers(values)
    if numbers:
        low, high = min(numbers), max(numbers)
        return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return " or ".join(sorted({typed(value) for value in values})) or "unused"


def _numbers(values: Sequence[KnobValue]) -> list[float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def _above(value: KnobValue, good: Sequence[KnobValue]) -> bool:
    return bool(_numbers([value])) and float(value) > max(_numbers(good))


def _below(value: KnobValue, good: Sequence[KnobValue]) -> bool:
    return bool(_numbers([value])) and float(value) < min(_numbers(good))


def _unlike(value: KnobValue, good: Sequence[KnobValue]) -> bool:
    return not _numbers([value]) and value not in good


# A value that lies beyond all that worked, and the words for the values that do.
_SIDES: tuple[tuple[Callable[..., bool], Callable[[list[KnobValue]], str]], ...] = (
    (_above, lambda values: f"{min(_numbers(values)):.3g} or more"),
    (_below, lambda values: f"{max(_numbers(values)):.3g} or less"),
    (_unlike, _part),
)
