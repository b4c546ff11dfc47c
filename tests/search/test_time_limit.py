"""A search whose time is up winds down, and its record says so."""

import threading

from hsearch.cluster.run import TIME_IS_UP, _time_limit


def test_the_search_is_asked_to_stop_when_its_time_is_up(opened):
    study, stopping = opened(), threading.Event()
    with _time_limit(0.05 / 3600, study, stopping):
        assert stopping.wait(30)
    assert study.attribute(TIME_IS_UP) == 0.05 / 3600


def test_a_search_that_ends_in_time_leaves_no_note(opened):
    study, stopping = opened(), threading.Event()
    for hours in (None, 1.0):
        with _time_limit(hours, study, stopping):
            pass
    assert not stopping.is_set()
    assert study.attribute(TIME_IS_UP) is None
    assert not any(
        isinstance(thread, threading.Timer) and not thread.finished.is_set()
        for thread in threading.enumerate()
    )
