"""The command line with stores at an address."""

import json
import re

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.library import data_folder, open_data
from hsearch.search.plan import plan_study
from hsearch.tracking.projection import experiment_name
from hsearch.training.resolve import resolve_job
from hsearch.training.setup import open_job_store
from tests.conftest import TINY
from tests.data.toy import tree

CLASSES = [f"group-{i % 4}/class-{i:02d}" for i in range(16)]
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))


@pytest.fixture
def images(tmp_path):
    return tree(tmp_path / "images", CLASSES, images=4)


@pytest.fixture(params=["file", "s3"])
def folder(request, s3_server, tmp_path):
    """The address of a folder of its own."""
    path = tmp_path / "there"
    return f"file://{path}" if request.param == "file" else s3_server.uri(f"bucket/{tmp_path.name}")


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def in_folder(folder: str, name: str) -> str:
    before, mark, options = folder.partition("?")
    return f"{before}/{name}{mark}{options}"


def another_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "other"))


def test_a_store_is_prepared_sent_shown_and_trained_on(images, folder, tmp_path, monkeypatch):
    sent = run("data", "prepare", "mine", "--from", images, "--to", folder)
    assert sent.exit_code == 0, sent.output
    uri = in_folder(folder, "mine.arrow")
    assert f"mine: written to {uri}" in sent.output
    another_machine(tmp_path, monkeypatch)
    shown = run("data", "show", uri)
    assert shown.exit_code == 0, shown.output
    assert "mine: 64 images" in shown.output
    command = ["train", "--method", "proxy_nca", "--data", uri, *SETTINGS]
    trained = run(*command)
    assert trained.exit_code == 0, trained.output
    (result,) = (tmp_path / "runs").glob("mine-proxy_nca-fold0-*/result.json")
    assert json.loads(result.read_text())["job"]["data"] == uri
    evaluated = run("evaluate", result.parent)
    assert evaluated.exit_code == 0, evaluated.output


def test_jobs_and_studies_name_the_address_and_the_data(images, folder, tmp_path, monkeypatch):
    uri = in_folder(folder, "mine.arrow")
    assert run("data", "prepare", "mine", "--from", images, "--to", uri).exit_code == 0
    job = resolve_job(method="hpl", data=uri, recipe="small", settings=TINY)
    assert job.data == uri
    assert job.data_name == "mine"
    assert experiment_name(job) == "hsearch/mine"
    another_machine(tmp_path, monkeypatch)
    store = open_job_store(job)
    assert store.path.is_relative_to(data_folder())
    assert store.digest == job.data_digest
    plan = plan_study(method="hpl", data=uri, recipe="small", settings=TINY)
    assert re.fullmatch("mine-hpl-[0-9a-f]{6}", plan.default_name)


def test_a_prepared_store_is_sent_without_reading_the_images_again(images, folder):
    assert run("data", "prepare", "mine", "--from", images).exit_code == 0
    uri = in_folder(folder, "other.arrow")
    sent = run("data", "prepare", "mine", "--to", uri)
    assert sent.exit_code == 0, sent.output
    assert open_data(uri).digest == open_data("mine").digest


@pytest.mark.parametrize(
    "option", [["--size", "16"], ["--source", "cub200"], ["--skip-bad"], ["--report", "x.csv"]]
)
def test_a_prepared_store_is_not_prepared_otherwise_on_its_way(images, tmp_path, option):
    assert run("data", "prepare", "mine", "--from", images).exit_code == 0
    refused = run("data", "prepare", "mine", "--to", f"file://{tmp_path / 'there'}", *option)
    assert refused.exit_code == 2
    assert f"would be sent as they are, but {option[0]} says how" in refused.stderr
    assert not (tmp_path / "there").exists()


def test_the_sheet_of_a_store_elsewhere_goes_to_the_current_folder(images, folder, tmp_path):
    assert run("data", "prepare", "mine", "--from", images, "--to", folder).exit_code == 0
    shown = run("data", "show", in_folder(folder, "mine.arrow"))
    assert shown.output.splitlines()[-1] == "Contact sheet: mine.png"
    assert (tmp_path / "mine.png").is_file()
    assert not list((data_folder() / "remote").glob("*.png"))


def test_a_store_there_is_replaced_only_by_force(images, folder):
    command = ["data", "prepare", "mine", "--from", images, "--to", folder]
    assert run(*command).exit_code == 0
    again = run("data", "prepare", "mine", "--to", folder)
    assert again.exit_code == 2
    assert "already; replace it with --force" in again.stderr
    assert run(*command, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("https://host/folder", "begins with one of file:, s3:, gs:"),
        ("folder", "begins with one of file:, s3:, gs:"),
        ("s3://KEY:HUSH@bucket/folder", "must not hold credentials"),
        ("s3://none/folder", "The bucket 'none' of"),
    ],
)
def test_a_wrong_address_is_named_before_any_work(images, s3_server, monkeypatch, to, message):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    result = run("data", "prepare", "mine", "--from", images, "--to", to)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "HUSH" not in result.output
    assert not data_folder().exists()


def test_after_a_failed_sending_the_data_are_here(images, folder, monkeypatch):
    from hsearch.cli import sending
    from hsearch.errors import DatasetError

    def fail(*arguments: object) -> None:
        raise DatasetError("The store cannot be written: no space.")

    with monkeypatch.context() as patch:
        patch.setattr(sending, "send", fail)
        failed = run("data", "prepare", "mine", "--from", images, "--to", folder)
    assert failed.exit_code == 2
    again = re.search("try again: `hsearch (data prepare mine --to) '?([^'`]+)'?`", failed.stderr)
    assert again
    assert run(*again[1].split(), again[2]).exit_code == 0


@pytest.mark.parametrize("verb", [["data", "show"], ["train", "--method", "hpl", "--data"]])
def test_credentials_in_an_address_are_never_repeated(verb):
    for uri in ("s3://KEY:HUSH@bucket/mine.arrow", "s3://bucket/mine.arrow?secret_key=HUSH"):
        result = run(*verb, uri)
        assert result.exit_code == 2
        assert "must not hold credentials" in result.stderr
        assert "HUSH" not in result.output + result.stderr


@pytest.fixture(params=["folder", "s3"])
def shared(request, s3_server, tmp_path, monkeypatch) -> str:
    """What HSEARCH_SHARED holds."""
    there = (
        s3_server.uri(f"bucket/{tmp_path.name}") if request.param == "s3" else f"{tmp_path}/there"
    )
    monkeypatch.setenv("HSEARCH_SHARED", there)
    return there


def test_a_shared_name_means_the_same_study_on_every_machine(images, shared, tmp_path, monkeypatch):
    folder = in_folder(shared if "?" in shared else f"file://{shared}", "data")
    sent = run("data", "prepare", "mine", "--from", images, "--to", folder)
    assert "other machines read it with --data mine" in sent.output
    command = ["tune", "--method", "hpl", "--data", "mine", *SETTINGS, "--dry-run"]
    here = json.loads(run(*command).stdout)
    another_machine(tmp_path, monkeypatch)
    assert f"Shared in {folder}:\nNAME\nmine\n" in run("data", "list").output
    assert json.loads(run(*command).stdout) == here
    assert here["job"]["data"] == "mine"
    (copy,) = (data_folder() / "remote").iterdir()
    assert open_data("mine").path == copy


def test_an_unknown_name_is_sought_there_too(images, shared):
    folder = in_folder(shared if "?" in shared else f"file://{shared}", "data")
    assert run("data", "prepare", "other", "--from", images, "--to", folder).exit_code == 0
    unknown = run("data", "show", "othre")
    assert unknown.exit_code == 2
    assert "Did you mean 'other'?" in unknown.stderr


def test_a_wrong_shared_place_is_named_without_its_credentials(monkeypatch):
    monkeypatch.setenv("HSEARCH_SHARED", "s3://KEY:HUSH@bucket")
    for command in (["tune", "--method", "hpl"], ["data", "show", "none"], ["data", "list"]):
        result = run(*command)
        assert result.exit_code == 2
        assert "must not hold credentials" in result.stderr
        assert "HUSH" not in result.output + result.stderr
