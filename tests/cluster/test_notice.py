"""A spot machine's end, told by a metadata service and seen by the whole cluster."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from ray.exceptions import RaySystemError

from hsearch.cluster.notice import NodesHere, aws_notice, gcp_notice
from hsearch.errors import ConfigError
from tests.cluster.metadata_service import metadata_service
from tests.cluster.searches import Command
from tests.cluster.test_nodes import running_nodes

BODIES = (b"nonsense", b"a\nb", b"{}", b"[]", b'{"time": "soon"}', b"\xff")

# A driver that keeps the node at work, because Ray ends an idle one as soon as it drains.
WORKING = """
import json, sys, time, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
address, node = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
@ray.remote(num_cpus=1, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
class Work:
    def ready(self): pass
work = Work.remote()
ray.get(work.ready.remote())
drain = ray._private.state.state.get_draining_nodes
print(json.dumps(drain()), flush=True)
while not drain():
    time.sleep(0.2)
print(json.dumps(drain()), flush=True)
sys.stdin.read()
"""


@contextmanager
def work_on(address: str, node: str) -> Iterator[subprocess.Popen]:
    """Prints which nodes end when, in milliseconds: at once, and as soon as one does."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WORKING, address, node],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_it_drains_a_node_that_is_taken_back_and_ends_with_any_other(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with running_nodes(head_cpus=1) as nodes, metadata_service() as metadata:
        where = ("--address", nodes.address, "--metadata", metadata.address)
        lost = nodes.add(1)
        notice = Command(tmp_path, "cluster", "notice", "--provider", "gcp", *where)
        with notice.started() as process:
            notice.wait_until(lambda: metadata.asked, "it asks", process)
            nodes.kill(lost)
            process.wait(60)
        assert process.returncode == 0, notice.printed()
        assert "Ray has ended on this machine" in notice.printed()

        node, metadata.asked = nodes.add(1), 0
        notice = Command(tmp_path, "cluster", "notice", "--provider", "aws", *where)
        with work_on(nodes.address, node) as work, notice.started() as process:
            assert work.stdout is not None
            assert json.loads(work.stdout.readline()) == {}
            notice.wait_until(lambda: metadata.asked, "it asks", process)
            end = metadata.announce(seconds=120)
            assert json.loads(work.stdout.readline()) == {node: 1000 * int(end.timestamp())}
            process.wait(30)
        assert process.returncode == 0, notice.printed()
        assert f"Node {node} drains until" in notice.printed()


def test_both_clouds_are_asked_in_their_own_way():
    with metadata_service() as metadata:
        assert aws_notice(metadata.address) is None
        assert gcp_notice(metadata.address) is None
        end = metadata.announce(seconds=90)
        assert aws_notice(metadata.address) == end.timestamp()
        assert gcp_notice(metadata.address) == pytest.approx(time.time() + 30, abs=5)
    assert aws_notice(metadata.address) is None  # no service, no notice


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "nowhere:port"])
def test_an_address_without_a_head_is_told_in_a_sentence(tmp_path, address):
    notice = Command(tmp_path, "cluster", "notice", "--provider", "aws", "--address", address)
    printed = notice.run(exit_code=2)
    assert "`--address` must be" in printed
    assert "Traceback" not in printed


class Gcs:
    """What Ray's head answers to a request to drain; an error is raised."""

    def __init__(self, *answers: tuple[bool, str] | Exception) -> None:
        self.answers = list(answers)

    def drain_node(self, *arguments: object) -> tuple[bool, str]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def nodes_here(monkeypatch, gcs: Gcs, nodes: list[str]) -> NodesHere:
    monkeypatch.setattr(NodesHere, "_connected", lambda self: gcs)
    monkeypatch.setattr(NodesHere, "alive", lambda self: nodes)
    return NodesHere("127.0.0.1:6379")


def test_a_head_that_fails_when_it_is_to_drain_is_asked_again(monkeypatch):
    said: list[str] = []
    nodes = nodes_here(monkeypatch, Gcs(RaySystemError("busy"), (True, "")), ["abc"])
    assert not nodes.drain(time.time(), said.append)
    assert "Node abc stays" in said[0]
    assert "busy" in said[0]
    assert nodes.drain(time.time(), said.append)
    assert "Node abc drains until" in said[1]


def test_where_no_node_is_nothing_is_drained(monkeypatch):
    assert not nodes_here(monkeypatch, Gcs(), []).drain(time.time(), print)


def test_a_port_that_is_not_rays_is_told_in_a_sentence(monkeypatch):
    def fails(address: str) -> None:
        raise RaySystemError("Timed out while waiting for GCS to become available.")

    monkeypatch.setattr("ray._raylet.GcsClient", fails)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ConfigError, match="must be that of a running Ray head"):
            NodesHere(address)


@pytest.mark.parametrize(
    "answer",
    [b"", b"no http at all\r\n\r\n", *(b"HTTP/1.0 200 OK\r\n\r\n" + body for body in BODIES)],
)
def test_nonsense_of_a_metadata_service_is_no_notice(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):  # AWS is asked for a token before
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert aws_notice(address) is None
        assert gcp_notice(address) is None
