"""How many views of an image a batch has: what the method asks for, or what the recipe says."""

import pytest

from hsearch.errors import ConfigError
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.setup import load_fold
from tests.training.runs import begin


@pytest.mark.parametrize(
    ("method", "given", "views"),
    [("supcon", None, 2), ("supcon", 3, 3), ("himulcon", 1, 1), ("simclr", 3, 3), ("hpl", 2, 2)],
)
def test_batches_have_the_views_of_the_recipe_or_else_of_the_method(method, given, views, toy_job):
    job = toy_job(method, batch__views=given)
    tools = begin(job, load_fold(job))
    assert tools.step.method.views == views
    (batch,) = tools.batches.epoch(1, 1)
    assert (len(batch.images), len(batch.labels)) == (16 * views, 16 * views)
    assert batch.labels[:16].equal(batch.labels[-16:])


@pytest.mark.parametrize(("method", "views"), [("supcon", 3), ("himulcon", 1)])
def test_methods_learn_from_other_numbers_of_views(method, views, toy_job, tmp_path):
    settings = {"schedule__iterations_per_epoch": 2, "schedule__epochs": 1}
    job = toy_job(method, batch__views=views, **settings)
    result = train_locally(job, Report(), tmp_path / "run")
    assert result.history[1].loss


@pytest.mark.parametrize(
    "settings",
    [{"batch__views": 1}, {"stages__a__share": 0.5, "stages__a__batch__views": 1}],
)
def test_what_compares_views_needs_two(settings, toy_job):
    with pytest.raises(ConfigError, match=r"simclr compares views .* at least 2, but got 1\."):
        toy_job("simclr", **settings)
