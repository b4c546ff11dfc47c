"""Links to MLflow's pages, of studies in a real store; tests/browser opens them."""

import json

import pytest

from hsearch.errors import ConfigError
from hsearch.tracking.pages import study_pages, where_to_look
from hsearch.tracking.views import comparison_view, studies_view, trials_view
from tests.tracking.made_records import MadeStudy, made_study, made_trial
from tests.tracking.test_tracker import track

SCORES = (0.5, 0.6, 0.55, 0.62)
ADDRESS = "http://127.0.0.1:5000"


@pytest.fixture
def studies(uri):
    """Two studies in the store, by name."""
    made = {}
    for name in ("hpl-1", "hpl-2"):
        made[name] = MadeStudy(made_study(made_trial(0, "complete", SCORES), name=name))
        track(made[name], uri)
    return made


def views(query):
    prefix = "mlflow.sharedViewState."
    rows = query(f"select key, value from experiment_tags where key like '{prefix}%'")
    return {key.removeprefix(prefix): json.loads(value) for key, value in rows}


def test_the_list_of_studies_has_a_link_for_every_data_set(uri, studies, query):
    (page,) = study_pages(uri)
    assert page.title == "hsearch/made, studies by score"
    assert page.link(ADDRESS) == (
        f"{ADDRESS}/#/experiments/1/runs?workflowType=machine_learning"
        "&viewStateShareKey=hsearch-studies"
    )
    state = json.loads(views(query)["hsearch-studies"]["state"])
    assert state["orderByKey"] == "metrics.`score/val`"
    assert state["selectedColumns"][0] == "metrics.`score/val`"
    assert "tags.`hsearch.regime`" in state["selectedColumns"]
    assert state["searchFilter"] == "tags.`hsearch.key` = 'study'"


def test_named_studies_are_seen_side_by_side_and_with_their_trials(uri, studies, query):
    pages = study_pages(uri, ["hpl-2", "hpl-1"])
    assert [page.title for page in pages] == [
        "side by side",
        "side by side as charts",
        "hsearch/made, studies by score",
        "hpl-2, its trials",
        "hpl-1, its trials",
    ]
    runs = [studies[name].notes[0][0] for name in ("hpl-2", "hpl-1")]
    found = views(query)
    state = json.loads(found[pages[0].view.key]["state"])
    assert state["searchFilter"] == f"attributes.run_id IN ('{runs[0]}', '{runs[1]}')"
    assert "&compareRunsMode=CHART&" in pages[1].link(ADDRESS)
    state = json.loads(found["hsearch-hpl-2"]["state"])
    assert "params.`method.num_coarse`" in state["selectedColumns"]
    assert found.keys() == {page.view.key for page in pages}
    study_pages(uri, ["hpl-2", "hpl-1"])
    assert views(query) == found, "nothing is put there twice"


def test_of_two_studies_of_one_name_the_later_is_shown(uri, studies, query):
    trial = made_trial(0, "complete", SCORES)
    again = trial.model_copy(update={"started": trial.started + 1000})
    later = MadeStudy(made_study(again, name="hpl-1"))
    track(later, uri)
    page = study_pages(uri, ["hpl-1", "hpl-2"])[0]
    assert page.view.state["searchFilter"] == (
        f"attributes.run_id IN ('{later.notes[0][0]}', '{studies['hpl-2'].notes[0][0]}')"
    )


def test_an_unknown_study_is_told_with_the_nearest_name(uri, studies):
    with pytest.raises(
        ConfigError, match=r"no study 'hpl-11'; valid names: hpl-1, hpl-2\. Did you"
    ):
        study_pages(uri, ["hpl-1", "hpl-11"])


def test_an_empty_store_has_no_pages(uri):
    assert study_pages(uri) == []


def test_views_fit_into_a_tag_of_any_mlflow():
    many = {f"{'long' * 24}-{n}": f"{n:032x}" for n in range(20)}
    knobs = [f"stages.{'x' * 20}.method.knob_{n}" for n in range(20)]
    for view in (
        studies_view(tested=True),
        comparison_view(many, tested=True),
        trials_view("a" * 100, "0" * 12, knobs),
    ):
        key, value = view.tag()
        assert len(key) <= 250
        assert len(value) <= 8000  # mlflow 3.11 allows 20000 as well
        assert json.loads(json.loads(value)["state"]) == view.state


def test_a_store_is_looked_at_with_a_command_and_a_server_through_links(tmp_path):
    assert where_to_look("sqlite:///mlflow.db", "a study") == {"MLflow": "hsearch ui 'a study'"}
    uri = f"sqlite:///{tmp_path}/x.db"
    assert where_to_look(uri, "hpl")["MLflow"] == f"hsearch ui hpl --tracking-uri {uri}"
    absent = "http://user:secret@127.0.0.1:9"
    assert where_to_look(absent, "hpl") == {"MLflow": "http://127.0.0.1:9"}
