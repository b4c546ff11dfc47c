"""What is submitted as a job, up to Ray."""

import os
import subprocess

import pytest

from hsearch.cluster.submission import entry_point, submit
from hsearch.errors import ConfigError


def shell(command: str, **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, **environment}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env)


def test_a_job_without_the_variables_that_it_needs_does_not_begin():
    command = entry_point(["--version"], ["HSEARCH_NEEDED"])
    without = shell(command)
    assert without.returncode != 0
    assert "HSEARCH_NEEDED: must be set for the processes of the cluster" in without.stderr
    assert without.stdout == ""
    found = shell(command, HSEARCH_NEEDED="a secret 'with quotes\"")
    assert found.returncode == 0
    assert found.stdout.startswith("hsearch")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:1/"])
def test_an_address_without_a_dashboard_is_told_in_a_sentence(address, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match="needs a running Ray cluster with a dashboard"):
        submit(address, "job", ["--version"], {}, [])
