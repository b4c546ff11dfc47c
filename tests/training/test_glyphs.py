"""The embedded data set through the default recipe: learnable, not easy."""

import pytest

from hsearch.methods import available_methods
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import resolve_job
from hsearch.training.score import score_run


@pytest.mark.parametrize("method", available_methods())
def test_every_method_clearly_beats_the_untrained_network(method, tmp_path):
    settings = {"schedule.epochs": 5}
    job = resolve_job(method=method, data="glyphs", recipe="small", settings=settings)
    result = train_locally(job, Report(), tmp_path / "run")
    tested = score_run(tmp_path / "run", "test").metrics
    assert result.untrained["map_at_r"] < 0.1
    assert 0.2 < result.score < 0.9
    assert tested["map_at_r"] > 0.1
