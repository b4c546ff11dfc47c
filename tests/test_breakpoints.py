"""Trainings wait at a breakpoint, and nobody waits for a process that has ended."""

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from hsearch.training.folder import RunFolder
from hsearch.training.launch import train_locally
from hsearch.training.loop import PausedError, Report, train_fold
from tests.breakpoints import Breakpoint, _heeding
from tests.cluster.searches import wait_until


@pytest.fixture
def point(tmp_path, monkeypatch):
    made = Breakpoint(tmp_path / "breakpoint")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


class Recorder(Report):
    """Knows the last step that was taken; asks to pause if told so."""

    def __init__(self):
        self.step, self.pauses = (0, 0), threading.Event()

    def iteration(self, epoch, done, total):
        self.step = (epoch, done)

    def must_pause(self):
        return self.pauses.is_set()


def in_thread(job, report, path):
    """Starts a training that heeds breakpoints; returns its thread and how it ends."""
    ends: list[Any] = []

    def train():
        folder = RunFolder(path)
        with folder.claimed(job):
            try:
                ends.append(_heeding(train_fold)(job, report, folder))
            except PausedError as error:
                ends.append(error)

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    return thread, ends


def test_a_training_waits_at_the_step_and_then_ends_as_one_that_never_waited(
    toy_job, tmp_path, point
):
    job, report = toy_job("proxy_nca", fold=1), Recorder()
    point.set(fold=1, epoch=2, step=3)
    thread, ends = in_thread(job, report, tmp_path / "run")
    wait_until(point.waiting)
    assert report.step == (2, 3)
    point.set(fold=2)  # which lies behind its end
    thread.join()
    assert ends[0].score == train_locally(job, Report(), tmp_path / "other").score


def test_between_epochs_a_training_that_waits_pauses_when_asked(toy_job, tmp_path, point):
    report = Recorder()
    point.set(fold=0, epoch=2)
    thread, ends = in_thread(toy_job("proxy_nca", fold=1), report, tmp_path / "run")
    wait_until(point.waiting)
    assert report.step == (0, 0), "fold 1 lies behind fold 0, whatever its epoch"
    report.pauses.set()
    thread.join()
    assert isinstance(ends[0], PausedError)


def test_what_an_ended_process_has_not_brought_about_is_not_waited_for(tmp_path):
    with subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.exit(3)"]) as process:
        began = time.monotonic()
        with pytest.raises(AssertionError, match="ended with exit code 3 before: a file"):
            wait_until((tmp_path / "file").exists, "a file", process=process)
        assert time.monotonic() - began < 60, "not the limit"
