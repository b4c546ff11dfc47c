"""A run is seen before and after training as its own record says."""

import pytest

from hsearch.errors import ConfigError
from hsearch.evaluation.scoring import ScoreOptions, score
from hsearch.folds import ALL_CLASSES
from hsearch.report.looking import look_at
from hsearch.training.folder import RunFolder, read_job, write_json


@pytest.mark.parametrize("method", ["hpl", "hier"])
def test_both_networks_score_as_the_training_recorded(looked, trained, method):
    look = looked(method)
    result = RunFolder(trained(method)).finished()
    assert result is not None
    for seen, recorded in ((look.before, result.untrained), (look.after, result.validation)):
        metrics = score(seen.embedded, ScoreOptions())
        assert metrics["map_at_r"] == pytest.approx(recorded["map_at_r"], abs=1e-6)
        assert metrics["h_ap"] == pytest.approx(recorded["h_ap"], abs=1e-6)


def test_test_classes_are_others_than_those_of_the_validation(looked, trained):
    validation, test = looked("hpl"), look_at(trained("hpl"), "test")
    shown = [set(look.store.classes[look.rows]) for look in (validation, test)]
    assert not shown[0] & shown[1]
    assert not shown[0] & set(validation.train_classes)


def test_a_run_without_validation_says_so(trained, tmp_path):
    job = read_job(trained("hpl")).model_copy(update={"fold": ALL_CLASSES})
    write_json(tmp_path / "job.json", job)
    with pytest.raises(ConfigError, match="no validation images"):
        look_at(tmp_path, "validation")
