"""`hsearch tune --detach` up to the cluster: what is checked, submitted and told."""

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import hsearch.cli.detaching as detaching
import hsearch.cluster.submission as submission
from hsearch.cli.main import main
from hsearch.search.lease import Lease
from hsearch.search.plan import plan_study
from hsearch.search.study import Study


class Job:
    """A job as the cluster would have it; the first look may bring something about."""

    def __init__(self, job: str, ending: str | None = None) -> None:
        self.id, self.how = job, ending

    def ending(self) -> str | None:
        return self.how

    def last_lines(self) -> str:
        return "It said this."


@pytest.fixture
def submitted(toy_store, tmp_path, monkeypatch):
    """Runs `tune --detach` in a folder of its own; what would be submitted is kept."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "HSEARCH_STORAGE",
        "MLFLOW_TRACKING_URI",
        "RAY_ADDRESS",
        "HSEARCH_SHARED",
        "HSEARCH_WEIGHTS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(detaching, "LOOK_SECONDS", 0.01)
    Path("toy.arrow").symlink_to(toy_store.path)

    class Submitted:
        def __init__(self) -> None:
            self.job = lambda job: Job(job, "SUCCEEDED")
            self.kept: list[tuple] = []

        def run(self, *arguments: str):
            def submit(address, job, *what):
                self.kept.append((address, *what))
                return self.job(job)

            monkeypatch.setattr(submission, "submit", submit)
            named = ["tune", "--method", "proxy_nca", "--data", "toy.arrow", "--detach"]
            return CliRunner().invoke(main, [*named, *arguments])

    return Submitted()


def test_the_same_command_is_submitted_with_absolute_paths(submitted, tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", "data")
    Path("own.pth").touch()
    result = submitted.run("--trials", "3", "--set", "model.weights=own.pth", "--address", "h:1")
    assert result.exit_code == 0, result.output
    ((address, words, settings, needed),) = submitted.kept
    assert (address, settings, needed) == ("h:1", {"HSEARCH_DATA": str(tmp_path / "data")}, [])
    assert words[0] == "tune"
    assert not {"--detach", "--address"} & set(words)
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--data"] == str(tmp_path / "toy.arrow")
    assert options["--out"] == str(tmp_path / "studies")
    assert options["--storage"] == f"sqlite:///{tmp_path}/hsearch.db"
    assert options["--tracking-uri"] == f"sqlite:///{tmp_path}/mlflow.db"
    assert (options["--trials"], options["--set"]) == ("3", f"model.weights={tmp_path}/own.pth")
    assert options["--study"] in result.stdout
    assert not Path("hsearch.db").exists(), "checking leaves nothing"
    monkeypatch.chdir("/")
    page = CliRunner().invoke(main, [*words, "--dry-run"])
    assert f'"study": "{options["--study"]}"' in page.stdout


def test_a_password_is_never_submitted(submitted, monkeypatch):
    for option in ("--storage=postgresql://me:hidden@h/db", "--tracking-uri=http://me:hidden@h:1"):
        result = submitted.run(option)
        assert result.exit_code == 2
        assert "there must be no password in `--" in result.stderr
        assert ".pgpass" in result.stderr
        assert "hidden" not in result.output
    assert submitted.kept == []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hidden@h:1")
    result = submitted.run()
    assert result.exit_code == 0, result.output
    ((_, words, settings, needed),) = submitted.kept
    assert needed == ["MLFLOW_TRACKING_URI"]
    assert "--tracking-uri" not in words
    assert "hidden" not in str((words, settings)) + result.output


def test_a_study_that_is_driven_is_not_submitted(submitted):
    plan = plan_study(method="proxy_nca", data="toy.arrow", recipe=None, settings={})
    with closing(Study.open("mine", "hsearch.db", plan.spec, plan.space)) as study, Lease(study):
        result = submitted.run("--study", "mine")
    assert result.exit_code == 2
    assert "'mine' is in the hands of process" in result.stderr
    assert submitted.kept == []


def test_a_job_that_ends_early_is_told_with_its_last_lines(submitted):
    submitted.job = lambda job: Job(job, "FAILED")
    result = submitted.run()
    assert result.exit_code == 1
    assert "The job has ended (FAILED). It said last:\nIt said this.\n" in result.stdout


def test_a_job_that_holds_the_study_is_left_with_ways_back(submitted, monkeypatch):
    monkeypatch.setattr(detaching, "_drives", lambda job, study: True)
    result = submitted.run("--study", "mine")
    assert result.exit_code == 0, result.output
    assert "hsearch attach mine\n" in result.stdout
    assert "hsearch stop mine\n" in result.stdout


def test_ctrl_c_does_not_take_the_job_back(submitted):
    class Interrupted(Job):
        def ending(self):
            raise KeyboardInterrupt

    submitted.job = Interrupted
    result = submitted.run("--study", "mine")
    assert result.exit_code == 130
    assert "The job goes on." in result.stdout
    assert "hsearch stop mine" in result.stdout


def test_an_own_recipe_and_the_folder_of_weights_are_given_by_absolute_paths(
    submitted, tmp_path, monkeypatch
):
    monkeypatch.setenv("HSEARCH_WEIGHTS", "weights")
    Path("mine.yaml").write_text("extends: small\n")
    result = submitted.run("--recipe", "mine.yaml")
    assert result.exit_code == 0, result.output
    ((_, words, settings, _),) = submitted.kept
    assert words[words.index("--recipe") + 1] == str(tmp_path / "mine.yaml")
    assert settings["HSEARCH_WEIGHTS"] == str(tmp_path / "weights")
