"""When a search gives up, and what it says then."""

import pytest

from hsearch.search.diagnosis import FAILED_IN_A_ROW, diagnose
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord, TrialState
from hsearch.spec import KnobValue
from tests.search.made_results import made_job

JOB = made_job()
SPACE = {"optimizer.lr.proxies": "0.0001 to 1, log", "method.scale": "1 to 64, log"}
NAN = "The loss is nan at iteration 3."


def trial(
    number: int, state: TrialState, rate: float, scale: float = 9.0, base: str | None = None
) -> TrialRecord:
    knobs: dict[str, KnobValue] = {"optimizer.lr.proxies": rate, "method.scale": scale}
    return TrialRecord(
        number=number,
        state=state,
        source="tpe",
        knobs=knobs if base is None else {**knobs, "method.base": base},
        job=JOB,
        reason=NAN if state == "failed" else None,
        started=float(number),
        ended=None if state == "running" else float(number) + 0.5,
    )


def study(*trials: TrialRecord, space: dict[str, str] = SPACE) -> StudyRecord:
    return StudyRecord(name="s", spec=StudySpec(job=JOB, space=space), trials=trials)


def failures(count: int, first: int = 0, rate: float = 0.3) -> list[TrialRecord]:
    return [trial(first + i, "failed", rate + 0.1 * i, scale=5.0 + 3 * i) for i in range(count)]


@pytest.mark.parametrize("count", range(FAILED_IN_A_ROW))
def test_few_failures_say_nothing(count):
    assert diagnose(study(*failures(count))) is None


def test_failures_with_a_success_between_say_nothing():
    trials = [*failures(4), trial(4, "lost", 0.01), *failures(4, first=5)]
    assert diagnose(study(*trials)) is None


def test_a_running_trial_does_not_break_the_row():
    trials = [*failures(3), trial(3, "running", 0.01), *failures(2, first=4)]
    assert diagnose(study(*trials)) is not None


def test_the_knob_that_tells_failures_from_the_others_is_named_with_both_parts():
    good = [trial(i, "complete", rate, scale=s) for i, (rate, s) in enumerate(GOOD)]
    said = diagnose(study(*good, *failures(6, first=4, rate=0.21)))
    assert said is not None
    assert "The last 6 trials failed, each time because: The loss is nan at iteration 3. " in said
    assert (
        "optimizer.lr.proxies was 0.21 or more in all 6 failed trials and 0.001 to 0.08 in the 4 "
        "others." in said
    )
    assert "method.scale" not in said


GOOD = [(0.001, 4.0), (0.02, 60.0), (0.05, 9.0), (0.08, 20.0)]


def test_values_below_those_that_worked_are_named_too():
    good = [trial(0, "complete", 0.5)]
    said = diagnose(study(*good, *(trial(i, "failed", 1e-4 * i) for i in range(1, 6))))
    assert "optimizer.lr.proxies was 0.0005 or less in all 5 failed trials and 0.5" in str(said)


def test_one_exception_among_many_is_counted():
    good = [trial(i, "complete", rate, scale=s) for i, (rate, s) in enumerate(GOOD)]
    bad = [*failures(6, first=4), trial(10, "failed", 0.03)]
    assert "0.3 or more in 6 of 7 failed trials" in str(diagnose(study(*good, *bad)))


def test_choices_are_compared_by_value():
    space = {"method.base": "proxy_anchor, proxy_nca"}
    good = [trial(0, "complete", 0.1, base="proxy_anchor")]
    bad = [trial(i, "failed", 0.1, base="proxy_nca") for i in range(1, 6)]
    said = str(diagnose(study(*good, *bad, space=space)))
    assert "method.base was proxy_nca in all 5 failed trials and proxy_anchor in the 1 oth" in said


def test_where_nothing_worked_it_says_where_the_failures_lie():
    said = str(diagnose(study(*failures(5))))
    assert "No trial has worked; the failed ones had optimizer.lr.proxies 0.3 to 0.7 (sea" in said
    assert "searched: 0.0001 to 1, log" in said


def test_failures_without_pattern_are_said_to_have_none():
    good = [trial(0, "complete", 1e-4, scale=1.0), trial(1, "complete", 1.0, scale=64.0)]
    assert "No single knob tells" in str(diagnose(study(*good, *failures(6, first=2))))


def test_a_long_study_that_worked_bears_more_failures():
    good = [trial(i, "complete", 0.001 * (i + 1)) for i in range(30)]
    assert diagnose(study(*good, *failures(6, first=30))) is None
    assert diagnose(study(*good, *failures(15, first=30))) is not None
