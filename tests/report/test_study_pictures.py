"""From a record to files, or to a sentence."""

from hsearch.report.study_pictures import undrawn, write_study_pictures
from tests.report.conftest import pixels_of
from tests.report.made_trials import made_record, made_trial

ALL = {"history.png", "race.png", "parallel.png", "slices.png", "importance.png"}


def test_a_study_has_five_pictures(tmp_path):
    written = write_study_pictures(made_record(30), tmp_path / "new")
    assert {path.name for path in written} == ALL
    for path in written:
        pixels = pixels_of(path)
        assert min(pixels.shape[:2]) > 200
        assert 0.005 < (pixels.min(axis=2) < 200).mean() < 0.6
    assert undrawn(made_record(30)) == []


def test_a_small_study_has_no_importances_but_a_sentence(tmp_path):
    record = made_record(4)
    written = write_study_pictures(record, tmp_path)
    assert {path.name for path in written} == ALL - {"importance.png"}
    assert "needs 10 trials" in undrawn(record)[0]


def test_without_a_complete_trial_knobs_are_not_drawn(tmp_path):
    record = made_record(0).model_copy(update={"trials": (made_trial(0, "running", [0.4]),)})
    written = write_study_pictures(record, tmp_path)
    assert {path.name for path in written} == {"history.png", "race.png"}
    assert "No trial has finished" in undrawn(record)[0]


def test_a_study_without_trials_has_nothing_to_draw(tmp_path):
    assert write_study_pictures(made_record(0), tmp_path) == []
    assert "no trial yet" in undrawn(made_record(0))[0]


def test_the_same_record_gives_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        write_study_pictures(made_record(12), tmp_path / folder)
    for name in ALL:
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("a", "b"))
        assert first == second
