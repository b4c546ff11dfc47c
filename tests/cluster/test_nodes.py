"""Searches on a running cluster whose nodes come and go."""

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from tests.breakpoints import Breakpoint
from tests.cluster.node_host import host_nodes
from tests.cluster.searches import (
    LIMIT_SECONDS,
    Command,
    Search,
    is_alive,
    processes_of,
    scores,
    wait_until,
)
from tests.cluster.started import Started


class Nodes:
    """A cluster in a process of its own; see node_host.py."""

    def __init__(self, line: "Connection[str, str]") -> None:
        self._line = line
        self.address = line.recv()

    def add(self, cpus: int, gpus: int = 0) -> str:
        self._line.send(f"add {cpus} {gpus}")
        return self._line.recv()

    def kill(self, node: str) -> None:
        self._line.send(f"kill {node}")

    def drain(self, node: str) -> None:
        """Announces the node's end, as a spot machine's is."""
        self._line.send(f"drain {node}")
        assert self._line.recv() == "True"


@contextmanager
def running_nodes(head_cpus: int, environment: Mapping[str, str] | None = None) -> Iterator[Nodes]:
    settings = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    line, other = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory(prefix="hsn-") as name:
        folder = Path(name)
        process = Started(
            *(host_nodes, other, head_cpus),
            folder=folder,
            output=folder / "printed",
            environment={**settings, **(environment or {})},
        )
        other.close()
        try:
            yield Nodes(line)
        finally:
            below = processes_of(process.pid)
            line.close()
            process.wait(60)
            wait_until(lambda: not any(map(is_alive, below)), "the cluster's processes are gone")


HELD = """
import sys, ray
from ray._private.ray_constants import AUTOSCALER_RESOURCE_REQUEST_CHANNEL
from ray.experimental.internal_kv import _internal_kv_get
from ray.util import placement_group_table
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
held = [group["state"] for group in placement_group_table().values()]
free = [ray.available_resources().get(name, 0.0) for name in sys.argv[2:]]
wish = (_internal_kv_get(AUTOSCALER_RESOURCE_REQUEST_CHANNEL) or b"[]").decode()
sys.stdout.write(f"{[s for s in held if s != 'REMOVED']} {free} {wish}")
"""


def what_is_held(address: str, *resources: str) -> str:
    """Placement groups that are not removed, what is free of some resources, what is asked for."""
    command = [sys.executable, "-W", "ignore", "-c", HELD, address, *resources]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_groups_come_and_go_with_the_nodes(tmp_path, toy_store, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    point = Breakpoint(tmp_path / "breakpoint")
    with running_nodes(head_cpus=1, environment=point.environment) as nodes:
        options = ("--trials=4", "--no-race", f"--address={nodes.address}", "--tracking-uri=none")
        search = Search(tmp_path, toy_store, *options)
        point.set(fold=1, epoch=2)
        alone = "1 worker group at work, room for 1"
        with search.started() as driver:
            search.wait_for("1 node with 1 CPUs", driver)
            search.wait_for("fold 0", driver)  # on the head, as long as it is alone
            first = nodes.add(1)
            search.wait_for(alone, driver, times=2)
            second = nodes.add(1)
            search.wait_for("2 worker groups at work, room for 2", driver)
            search.wait_for_breakpoint(driver, trainings=2)
            nodes.kill(first)
            search.wait_for("A worker was lost", driver)
            third = nodes.add(1)
            search.wait_for("2 worker groups at work, room for 2", driver, times=2)
            point.set(trial=2, epoch=2)  # what was lost is in one of the trials before
            search.wait_for_breakpoint(driver, trainings=2)
            before = search.printed().count(alone)
            nodes.drain(second)
            search.wait_for(alone, driver, times=before + 1)
            lost = re.findall(
                r"A worker was lost while training fold (\d) of trial (\d+)", search.printed()
            )
            Command(tmp_path, "stop", "toy").run()
            driver.wait(LIMIT_SECONDS)
        assert driver.returncode == 0, search.printed()
        free = "[] [2.0] []"  # of the head and the third node
        wait_until(lambda: what_is_held(nodes.address, "CPU") == free, "all is free again")
        nodes.kill(third)
    trials = search.record()["trials"]
    ((fold, number),) = lost
    assert fold in trials[int(number)]["folds"], "it went on elsewhere"
    for trial in trials:
        assert trial["state"] in ("complete", "running")
        assert (trial["state"] == "complete") == (len(scores(trial)) == 4)


def test_small_networks_share_a_gpu_and_who_finds_no_room_is_told(tmp_path, toy_store, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("HSEARCH_GPUS_PER_WORKER", "0.5")
    point = Breakpoint(tmp_path / "breakpoint")
    point.set()
    with running_nodes(head_cpus=2, environment=point.environment) as nodes:
        nodes.add(2)
        options = ("--trials=1", f"--address={nodes.address}", "--tracking-uri=none", "--no-race")
        search, other = (
            Search(tmp_path / name, toy_store, *options) for name in ("first", "second")
        )
        search.folder.mkdir()
        other.folder.mkdir()
        with search.started("--groups=2") as driver:
            search.wait_for("Waiting for machines. A fold needs 1 worker", driver)
            nodes.add(2, gpus=1)
            search.wait_for("and 1 GPUs: room for 2 workers of 1 CPU and 0.5 GPU", driver)
            search.wait_for("2 worker groups at work, room for 2", driver)
            # All that is taken is the node with the GPU; the other two have 2 CPUs each.
            held = what_is_held(nodes.address, "GPU", "CPU")
            assert "[0.0, 4.0]" in held
            assert held.count('"GPU": 0.5') == 2, "the cluster is asked to grow so far"
            monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "5")
            with other.started() as waiting:
                other.wait_for("could not be placed within 5 s", waiting)
                assert waiting.poll() is None, "it tries again"
            Command(search.folder, "stop", "toy").run()
            driver.wait(LIMIT_SECONDS)
        assert driver.returncode == 0, search.printed()
        assert what_is_held(nodes.address).endswith("[] []"), "and then to keep nothing"


def test_what_can_never_be_placed_is_refused_and_no_study_begun(tmp_path, toy_store):
    search = Search(tmp_path, toy_store, "--trials=1", "--tracking-uri=none")
    cores = len(os.sched_getaffinity(0))
    printed = search.run(f"--workers-per-fold={2 * cores}", exit_code=2)
    assert f"room for {cores} workers" in printed
    assert not (tmp_path / "hsearch.db").exists()


def test_an_address_without_a_cluster_is_told_in_a_sentence(tmp_path, toy_store):
    search = Search(tmp_path, toy_store, "--trials=1", "--tracking-uri=none")
    printed = search.run("--address=127.0.0.1:1", exit_code=2)
    assert "must name a running Ray cluster" in printed
    assert "Traceback" not in printed
