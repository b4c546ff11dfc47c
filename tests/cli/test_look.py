"""`hsearch look`: a study, a run, and nonsense."""

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.search.plan import plan_study
from hsearch.search.study import Study
from hsearch.training.folder import fold_folder
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from tests.conftest import TINY
from tests.search.made_results import made_result


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)


def look(*arguments: str):
    return CliRunner().invoke(main, ["look", *arguments])


@pytest.fixture
def study(toy_store) -> Study:
    """A study `s` with one complete trial, whose fold 0 is really trained in studies/s."""
    plan = plan_study(
        method="proxy_nca", data=str(toy_store.path), recipe="small", settings=TINY.copy()
    )
    with closing(Study.open("s", "hsearch.db", plan.spec, plan.space)) as opened:
        trial = opened.propose()
        train_locally(trial.job, Report(), fold_folder(Path("studies/s"), 0, 0))
        for fold in range(4):
            job = trial.job.model_copy(update={"fold": fold})
            opened.record_fold(0, made_result(job, 0.5))
        return opened


@pytest.mark.usefixtures("study")
def test_a_study_is_drawn_with_the_network_of_its_best_trial():
    result = look("s")
    assert result.exit_code == 0, result.output
    assert "4 pictures in looks/s:" in result.output
    assert "needs 10 trials" in result.output
    assert "Fold 0 of the best trial, studies/s/trial-0000/fold-0:" in result.output
    listed = {line.strip() for line in result.output.splitlines() if line.startswith("  ")}
    written = {path.name for path in Path("looks/s").rglob("*.png")}
    assert listed == written
    assert Path("looks/s/history.png").exists()
    assert Path("looks/s/best/gallery.png").exists()


@pytest.mark.usefixtures("study")
def test_a_run_is_drawn_where_it_is_asked_for():
    result = look("studies/s/trial-0000/fold-0", "--on", "test", "--to", "here")
    assert result.exit_code == 0, result.output
    assert Path("here/gallery.png").exists()
    assert not Path("looks").exists()


@pytest.mark.usefixtures("study")
def test_networks_that_are_not_kept_are_missed_in_one_sentence():
    result = look("s", "--out", "elsewhere")
    assert result.exit_code == 0, result.output
    assert "No network of the best trial is kept in elsewhere/s/trial-0000/fold-0" in result.output
    assert not Path("looks/s/best").exists()


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["t"], "'t' is no run's folder, and no study either. There is no study 't'"),
        (["studies/s"], "studies/s is not a folder that `hsearch train` has written"),
        (["s", "--on", "train"], "'train' is not one of 'validation', 'test'"),
        ([], "Missing argument 'STUDY|RUN'"),
    ],
)
def test_nonsense_is_one_sentence_and_exit_code_2(arguments, sentence):
    result = look(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not Path("looks").exists()
