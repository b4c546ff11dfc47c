import io
import os
import threading

import pytest

from hsearch.data.intake import take_in
from hsearch.data.records import Record
from tests.data.toy import encode, photo

IMAGE = encode(photo(0, 4, 4), "PNG")


class Labels(tuple):
    """A label path that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Labels.compared += 1
        return tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


def test_several_images_are_read_at_the_same_time(monkeypatch):
    """Each waits until another one is read as well; one after the other would wait in vain."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    meeting = threading.Barrier(2, timeout=20)

    def image():
        meeting.wait()
        return IMAGE

    records = [Record(str(i), image, ("x",)) for i in range(6)]
    entries, _ = take_in(records, io.BytesIO(), None, lambda done, total: None)
    assert len(entries) == 6


@pytest.mark.parametrize("singles", [100, 200])
def test_many_classes_with_a_single_image_cost_no_more_per_class(singles, monkeypatch):
    monkeypatch.setattr(Labels, "compared", 0)
    records = [Record(f"{i:03d}", IMAGE, Labels((f"class-{i:03d}",))) for i in range(singles)]
    records += [Record(f"pair-{i}", IMAGE, Labels(("pair",))) for i in range(2)]
    entries, report = take_in(records, io.BytesIO(), None, lambda done, total: None)
    assert [entry.record.id for entry in entries] == ["pair-0", "pair-1"]
    assert [problem.where for problem in report.problems] == [
        f"class-{i:03d}" for i in range(singles)
    ]
    assert Labels.compared < 10 * singles
