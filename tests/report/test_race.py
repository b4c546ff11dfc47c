"""What the race saved, against a calculation by hand."""

import pytest

from hsearch.report.race import draw_race, race_savings
from tests.report.made_trials import HOUR, made_record, made_trial


def test_savings_add_up_over_trials():
    trials = (
        made_trial(0, "complete", [0.5, 0.5, 0.5, 0.5], hours=1.0),
        made_trial(1, "lost", [0.1], hours=2.0),
        made_trial(2, "failed", [0.1], hours=3.0),
        made_trial(3, "lost", [0.4, 0.3], hours=0.5),
    )
    found = race_savings(made_record(0).model_copy(update={"trials": trials}))
    assert found.folds_spent.tolist() == [4, 5, 6, 8]
    assert found.folds_saved.tolist() == [0, 3, 3, 5]
    assert found.seconds_spent / HOUR == pytest.approx([4, 6, 9, 10])
    # A fold took 10 h / 8 on average.
    assert found.seconds_saved / HOUR == pytest.approx([0, 3.75, 3.75, 6.25])


def test_the_picture_says_what_was_saved():
    record = made_record(20)
    texts = [text.get_text() for text in draw_race(record).texts]
    saved = f"{record.folds_saved} saved, about {record.folds_saved * 0.5:.3g} hours"
    assert any(saved in text for text in texts)
    unraced = record.model_copy(update={"spec": record.spec.model_copy(update={"race": False})})
    assert any("There was no race" in text.get_text() for text in draw_race(unraced).texts)
