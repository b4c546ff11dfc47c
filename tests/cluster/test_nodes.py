"""Searches on a running cluster whose nodes come and go."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.searches import Search, is_alive, processes_of, scores, wait_until


class Nodes:
    """A cluster in a process of its own; see node_host.py."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process
        self.address = self._answer()

    def add(self, cpus: int) -> str:
        self._say(f"add {cpus}")
        return self._answer()

    def kill(self, node: str) -> None:
        self._say(f"kill {node}")

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline().strip())


@contextmanager
def running_nodes(head_cpus: int) -> Iterator[Nodes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.node_host", str(head_cpus)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"},
    )
    try:
        yield Nodes(process)
    finally:
        below = processes_of(process.pid)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()
        wait_until(lambda: not any(map(is_alive, below)), "the cluster's processes are gone")


def test_groups_come_and_go_with_the_nodes(tmp_path, toy_store, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with running_nodes(head_cpus=1) as nodes:
        search = Search(
            tmp_path,
            toy_store,
            *("--trials=8", f"--address={nodes.address}", "--tracking-uri=none", "--no-race"),
            schedule__iterations_per_epoch=60,
        )
        with search.started() as driver:
            search.wait_for("1 node with 1 CPUs", driver)
            search.wait_for("fold 0", driver)
            node = nodes.add(1)
            search.wait_for("2 worker groups", driver)
            nodes.kill(node)
            search.wait_for("1 worker group", driver)
            driver.wait(240)
        assert driver.returncode == 0, search.printed()
    trials = search.record()["trials"]
    assert [trial["state"] for trial in trials] == ["complete"] * 8
    assert all(len(scores(trial)) == 4 for trial in trials)


def test_two_ranks_per_fold_and_what_can_never_be_placed(tmp_path, toy_store):
    search = Search(tmp_path, toy_store, "--trials=1", "--tracking-uri=none")
    cores = len(os.sched_getaffinity(0))
    printed = search.run(f"--workers-per-fold={2 * cores}", exit_code=2)
    assert f"room for {cores} workers" in printed
    printed = search.run("--workers-per-fold=2")
    alone = Search(tmp_path / "alone", toy_store, "--trials=1", "--tracking-uri=none")
    alone.folder.mkdir()
    alone.run()
    ours, theirs = search.table()[0][-1], alone.table()[0][-1]
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 0.02


def test_an_address_without_a_cluster_is_told_in_a_sentence(tmp_path, toy_store):
    search = Search(tmp_path, toy_store, "--trials=1", "--tracking-uri=none")
    printed = search.run("--address=127.0.0.1:1", exit_code=2)
    assert "must name a running Ray cluster" in printed
    assert "Traceback" not in printed
