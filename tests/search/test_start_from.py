"""A search that begins with what another study has learnt."""

from contextlib import closing
from dataclasses import replace

import pytest

from hsearch.errors import ConfigError
from hsearch.search.domain import Interval, KnobRange, StartPoint
from hsearch.search.plan import StudyPlan
from hsearch.search.start_from import MOST_POINTS, best_points, points_of_study
from hsearch.search.study import Study
from tests.search.made_study import SPACE, finish, made_spec, search


@pytest.fixture
def storage(tmp_path):
    """With a study `first` of 9 trials."""
    place = str(tmp_path / "studies.db")
    with closing(Study.open("first", place, made_spec(), SPACE)) as study:
        search(study, 9)
    return place


def plan(space=SPACE, start_from="first", **changes):
    spec = made_spec(space).model_copy(update={"start_from": start_from, **changes})
    return StudyPlan(spec, space)


def begin(made, name, storage):
    earlier = points_of_study(made, name, storage)
    return Study.open(name, storage, made.spec, made.space, earlier)


def record_of(name, storage):
    with closing(Study.load(name, storage)) as study:
        return study.record()


def test_the_best_trials_come_right_after_the_published_values(storage):
    first = record_of("first", storage)
    complete = sorted(
        (trial for trial in first.trials if trial.state == "complete"),
        key=lambda trial: (-(trial.score or 0), trial.number),
    )
    with closing(begin(plan(), "second", storage)) as study:
        study.take_over()
        tried = [finish(study, study.propose()) for _ in range(3)]
    assert tried[0].source == "published"
    fresh = [t for t in complete if t.knobs != tried[0].knobs][:2]
    for trial, source in zip(tried[1:], fresh, strict=True):
        assert trial.source == f"study first, trial {source.number} ({source.score:.4f})"
        assert trial.knobs == source.knobs


def test_only_the_best_are_taken_and_knobs_that_are_not_searched_left_out(storage):
    record = record_of("first", storage)
    points = best_points(record, ["method.fine_scale", "method.num_coarse"])
    assert len(points) <= MOST_POINTS
    assert all(set(point.values) == {"method.fine_scale", "method.num_coarse"} for point in points)
    assert points[0].source.startswith(f"study first, trial {record.best.number} (")


def test_values_outside_the_new_ranges_are_moved_inside_and_said(storage):
    narrow = replace(SPACE, knobs=(KnobRange("method.fine_scale", Interval(1.0, 2.0)),), start=())
    with closing(begin(plan(narrow), "second", storage)) as study:
        study.take_over()
        study.propose()
        record = study.record()
        assert record.trials[0].knobs == {"method.fine_scale": 2.0}
    points = points_of_study(plan(narrow), "third", storage)
    assert all(float(point.values["method.fine_scale"]) > 2.0 for point in points)


def test_a_study_goes_on_from_the_same_points_whatever_becomes_of_the_other(storage):
    made = plan()
    with closing(begin(made, "second", storage)) as study:
        study.take_over()
        finish(study, study.propose())
    taken = points_of_study(made, "second", storage)
    with closing(Study.load("first", storage)) as study:
        study._optuna.delete_study(study._id)
    assert points_of_study(made, "second", storage) == taken
    with closing(begin(made, "second", storage)) as study:
        study.take_over()
        assert study.propose().source.startswith("study first, trial ")


def test_another_driver_with_other_points_is_refused(storage):
    made = plan()
    with closing(begin(made, "second", storage)) as study:
        study.take_over()
        finish(study, study.propose())
    other = (StartPoint("study first, trial 99 (0.5)", {"method.fine_scale": 5.0}),)
    with (
        closing(Study.open("second", storage, made.spec, made.space, other)) as study,
        pytest.raises(ConfigError, match="Another driver has begun the study 'second'"),
    ):
        study.take_over()


def test_without_the_option_nothing_is_read(tmp_path):
    assert points_of_study(plan(start_from=None), "x", str(tmp_path / "no.db")) == ()


def test_the_option_is_part_of_the_spec_but_of_no_older_digest():
    spec = made_spec()
    assert "start_from" in spec.to_dict()
    assert plan(start_from=None).spec.digest() == spec.digest()
    assert plan().spec.digest() != spec.digest()


def test_an_unknown_study_another_method_or_no_complete_trial_is_a_sentence(storage):
    with pytest.raises(ConfigError, match=r"There is no study 'frist'.*Did you mean 'first'"):
        points_of_study(plan(start_from="frist"), "second", storage)
    made = plan()
    job = made.spec.job
    method = job.method.model_copy(update={"name": "proxy_nca"})
    changed = made.spec.model_copy(update={"job": job.model_copy(update={"method": method})})
    with pytest.raises(ConfigError, match="of the same method, but 'first' is of hpl, not proxy_n"):
        points_of_study(replace(made, spec=changed), "second", storage)
    with closing(Study.open("empty", storage, made_spec(), SPACE)):
        pass
    with pytest.raises(ConfigError, match="'empty' has none with all folds yet"):
        points_of_study(plan(start_from="empty"), "second", storage)
