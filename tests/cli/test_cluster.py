"""`hsearch cluster init`: files for one's own case, from flags or answers."""

import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

import hsearch
from hsearch.cli.main import main

CHECKOUT = Path(hsearch.__file__).parents[1]
HOSTS = ("--head-host=10.0.0.1", "--worker-hosts=10.0.0.2,10.0.0.3")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """Every file goes there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Path(tmp_path)


def init(*args: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "init", *args], prog_name="hsearch")


@pytest.mark.parametrize("provider", ["aws", "gcp", "kuberay", "local"])
def test_a_file_and_a_token_are_made(home, provider):
    result = init("--provider", provider, *(HOSTS if provider == "local" else ()))
    assert result.exit_code == 0, result.output
    content = yaml.safe_load((home / "cluster.yaml").read_text())
    if provider != "kuberay":
        assert content["file_mounts"]["~/hsearch"] == str(CHECKOUT)
    token = home / ".hsearch/ray_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    secret = token.read_text()
    assert len(secret) == 64
    assert secret not in result.output + (home / "cluster.yaml").read_text()
    init("--provider", provider, "--force", *(HOSTS if provider == "local" else ()))
    assert token.read_text() == secret, "other clusters use it"


def test_a_file_is_replaced_only_by_force(home):
    (home / "cluster.yaml").write_text("mine")
    result = init("--provider", "aws")
    assert result.exit_code == 2
    assert "exists already" in result.output
    assert (home / "cluster.yaml").read_text() == "mine"
    assert not (home / ".hsearch").exists()
    assert init("--provider", "aws", "--write", "other.yaml").exit_code == 0
    assert init("--provider", "aws", "--force").exit_code == 0
    assert (home / "cluster.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["aws", "--zone=us-west1-b"], "`--zone` does not belong to aws, which takes: --name, "),
        (["kuberay", "--bucket=abc"], "`--bucket` does not belong to kuberay"),
        (["aws", "--bucket=s3://mine"], "`--bucket` must be the name of a bucket"),
        (["aws", "--bucket=mine\n"], "`--bucket` must be the name of a bucket"),
        (["aws", "--workers=0"], "`--workers` must be a whole number from 1"),
        (["aws", "--worker-gpus=0"], "train on GPUs"),
        (["aws", "--worker-type=p5.48xlarge"], "give `--worker-cpus` and `--worker-gpus` too"),
        (["aws", "--market=free"], "`--market` must be spot or on-demand, but is 'free'"),
        (["local", "--head-host=10.0.0.1"], "`--worker-hosts` is missing"),
        (["local", "--worker-hosts=a"], "`--head-host` is missing"),
        (["local", "--head-host=a", "--worker-hosts=a,b"], "'a' stands twice"),
        (["local", "--head-host=a", "--worker-hosts=b c"], "`--worker-hosts` must be"),
        (["local", *HOSTS, "--ssh-user=me;rm"], "`--ssh-user` must be the name of a user"),
        (["kuberay", "--shared=/folder"], "Pods share no folder"),
        (["kuberay", "--project=."], "`--project` is only for"),
        (["aws", "--project=."], "Machines install hsearch from a checkout"),
        (["aws", "--write=no/where.yaml"], "The folder of no/where.yaml does not exist"),
        (["azure"], "'azure' is not one of"),
    ],
)
def test_wrong_answers_are_one_sentence_and_nothing_is_written(home, args, sentence):
    result = init("--provider", *args)
    assert result.exit_code == 2
    assert sentence in result.output
    assert len(result.output.splitlines()) == 1 + args.count("--bucket=mine\n")
    assert list(home.iterdir()) == []


def test_hsearch_that_is_no_checkout_asks_for_one(home, monkeypatch):
    (home / "site/hsearch").mkdir(parents=True)
    monkeypatch.setattr(hsearch, "__file__", str(home / "site/hsearch/__init__.py"))
    result = init("--provider", "aws")
    assert result.exit_code == 2
    assert "hsearch runs from none here; name one with `--project`" in result.output
    assert init("--provider", "aws", "--project", str(CHECKOUT)).exit_code == 0
    assert init("--provider", "local", *HOSTS, "--installed=/opt/env", "--force").exit_code == 0


def test_a_terminal_is_asked_and_asked_again(home):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hsearch", "cluster", "init", "--provider=local", "--worker-gpus=0"],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(slave)
    os.write(master, b"10.0.0.1\nno host;\n10.0.0.2\n\n")
    output, _ = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0, output
    assert "must be names or addresses" in output
    content = yaml.safe_load((home / "cluster.yaml").read_text())
    assert content["provider"]["worker_ips"] == ["10.0.0.2"]
    assert "HSEARCH_SHARED='/shared/hsearch'" in content["metadata"]["environment"]
