"""Addresses where folders were: wrong ones are one sentence, before anything is begun."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from tests.data.s3_server import running_s3


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
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
