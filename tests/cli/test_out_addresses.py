"""Addresses where folders were: wrong ones are one sentence, before anything is begun."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hsearch.addresses import read_folder
from hsearch.cli.main import main
from hsearch.training.kept import train_kept
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report, train_fold


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch, s3_server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("https://host/folder", "The address of a folder begins with one of file:, s3:, gs:, not"),
        ("s3:bucket/folder", "The address of a folder with s3: must look like s3://bucket/folder."),
        ("s3://KEY:HUSH@bucket/folder", "must not hold credentials"),
        ("s3://bucket/folder?secret_key=HUSH", "must not hold credentials"),
        ("s3://none/folder", "cannot be written: there is no such bucket."),
        ("file:///proc/none", "cannot be written: "),
    ],
)
def test_a_wrong_address_is_one_sentence_and_nothing_is_begun(toy_store, out, sentence):
    command = ["tune", "--method", "hpl", "--data", str(toy_store.path), "--out", out]
    refused(command, sentence)


@pytest.mark.parametrize("verb", [["evaluate"], ["look"]])
def test_an_address_without_a_run_is_named(verb):
    refused([*verb, "s3://bucket/none"], "s3://bucket/none is not where a search keeps a run")
    refused([*verb, "s3://HUSH@bucket/none"], "must not hold credentials")


def test_a_run_at_an_address_is_evaluated_and_drawn_as_one_in_a_folder(toy_job):
    job, address = toy_job("proxy_nca"), read_folder("s3://bucket/study/trial-0003/fold-0")
    train_kept(job, Report(), address, train_fold)
    train_locally(job, Report(), Path("here"))
    pages = [evaluated(run) for run in (str(address), "here")]
    assert [page["scored"]["runs"][0]["run"] for page in pages] == [str(address), "here"]
    assert pages[0]["metrics"] == pages[1]["metrics"]
    drawn = CliRunner().invoke(main, ["look", str(address)])
    assert drawn.exit_code == 0, drawn.output
    assert Path("looks/study-trial-0003-fold-0/gallery.png").exists()


def evaluated(run: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["evaluate", run, "--on", "test", "--json"])
    assert result.exit_code == 0, result.output
    page: dict[str, Any] = json.loads(result.stdout)
    return page


def test_a_run_given_twice_is_noticed(toy_job):
    address = "s3://bucket/twice/fold-0"
    train_kept(toy_job("proxy_nca"), Report(), read_folder(address), train_fold)
    refused(["evaluate", address, address, "--on", "test"], "Every run counts once")


def test_a_single_training_has_a_folder():
    command = ["train", "--method", "hpl", "--out", "s3://bucket/run"]
    refused(command, "must be a folder of this machine; an address is for `tune` and `reproduce`.")


def refused(command: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "HUSH" not in result.output + result.stderr
    assert list(Path().iterdir()) == []
