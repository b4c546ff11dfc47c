"""Axes of knobs: linear, logarithmic and of choices."""

import pytest

from hsearch.report.knob_axis import KnobAxis, knob_axes
from tests.report.made_trials import made_record


def test_places_lie_between_the_ends():
    assert KnobAxis("a", (), 0.0, 4.0).places([0, 1, 4]).tolist() == [0, 0.25, 1]
    assert KnobAxis("a", (), 0.01, 1.0, log=True).places([0.01, 0.1, 1]) == pytest.approx(
        [0, 0.5, 1]
    )
    assert KnobAxis("a", ("x", "y")).places(["y", "x"]).tolist() == [0.75, 0.25]
    assert KnobAxis("a", (), 2.0, 2.0).places([2, 2]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (KnobAxis("a", (), 0.0, 0.4), ["0", "0.1", "0.2", "0.3", "0.4"]),
        (KnobAxis("a", (), 1e-4, 1.0, log=True), ["0.0001", "0.001", "0.01", "0.1", "1"]),
        (KnobAxis("a", (), 4.0, 64.0, log=True), ["5", "10", "20", "50"]),
        (KnobAxis("a", (), 3.0, 3.0), ["3"]),
        (KnobAxis("a", (), 0.006, 0.03, log=True), ["0.006", "0.008", "0.02", "0.03"]),
        (KnobAxis("a", (True, False)), ["true", "false"]),
    ],
)
def test_ticks_are_round_numbers_or_all_choices(axis, texts):
    assert [text for _, text in axis.ticks()] == texts


def test_a_study_has_an_axis_for_every_knob_it_tried():
    record = made_record(30)
    axes = {axis.name: axis for axis in knob_axes(record)}
    assert set(axes) == set(record.spec.space)
    assert axes["method.base"].choices == ("proxy_anchor", "proxy_nca")
    rates = [t.knobs["optimizer.lr.proxies"] for t in record.trials]
    rate = axes["optimizer.lr.proxies"]
    assert (rate.low, rate.high, rate.log) == (min(rates), max(rates), True)
    assert not axes["method.fine_margin"].log
