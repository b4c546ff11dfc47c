"""Spot machines that are taken back: asks the cloud for its notice, and drains this node of Ray.

A drained node gets no new work, and whoever works on it sees until when it is there.
"""

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from http.client import HTTPException
from typing import Any

from hsearch.cluster.head import RayHead
from hsearch.errors import ClusterError, ConfigError

ASK_SECONDS = 5.0

_REASON = "the cloud takes this machine back"
_JOIN_SECONDS = 60.0  # for a node that has just been started
_GOOGLE_SECONDS = 30.0  # what Google gives; it does not say until when

Say = Callable[[str], None]


def aws_notice(metadata: str) -> float | None:
    """Returns when AWS ends this machine, in seconds of the epoch, or None if it does not."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _ask(f"{metadata}/latest/api/token", lifetime, "PUT")
    if token is None:
        return None
    place = f"{metadata}/latest/meta-data/spot/instance-action"
    notice = _ask(place, {"X-aws-ec2-metadata-token": token})
    with suppress(KeyError, TypeError, ValueError):  # no notice, or none that says when
        return datetime.fromisoformat(json.loads(notice or "{}")["time"]).timestamp()
    return None


def gcp_notice(metadata: str) -> float | None:
    """Returns when Google ends this machine, in seconds of the epoch, or None if it does not."""
    place = f"{metadata}/computeMetadata/v1/instance/preempted"
    preempted = _ask(place, {"Metadata-Flavor": "Google"}) == "TRUE"
    return time.time() + _GOOGLE_SECONDS if preempted else None


CLOUDS: Mapping[str, tuple[str, Callable[[str], float | None]]] = {
    "aws": ("http://169.254.169.254", aws_notice),
    "gcp": ("http://metadata.google.internal", gcp_notice),
}
"""By provider, where its metadata service is and how it is asked."""


def watch(provider: str, address: str, metadata: str | None, say: Say) -> None:
    """Drains the nodes of this machine when the cloud announces its end.

    Args:
        provider: A key of `CLOUDS`.
        address: HOST:PORT of the Ray head.
        metadata: Address of the metadata service; None takes the provider's own.
        say: Tells every event.

    Raises:
        ClusterError: No node of the cluster is on this machine.
    """
    place, notice = CLOUDS[provider]
    place = (metadata or place).rstrip("/")
    nodes = NodesHere(address)
    nodes.wait()
    say(f"Watching {place} for the end of this machine")
    while nodes.alive():
        end = notice(place)
        if end is not None and nodes.drain(end, say):
            return
        time.sleep(ASK_SECONDS)
    say("Ray has ended on this machine")


class NodesHere:
    """The nodes of a Ray cluster on this machine, without its head.

    Args:
        address: HOST:PORT of the head.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._head = RayHead(address, "--address")
        self._gcs = self._connected()
        self._last: list[str] = []

    def _connected(self) -> Any:  # noqa: ANN401 (Ray has no types here)
        """What speaks with the head."""
        import ray
        from ray.exceptions import RayError

        with suppress(RayError):  # something answers, but it is not Ray
            if self._head.answers():
                return ray._raylet.GcsClient(address=self._address)
        raise ConfigError(
            f"`--address` must be that of a running Ray head, but '{self._address}' does not "
            "answer as one; give HOST:PORT of one, such as 10.0.0.1:6379."
        )

    def alive(self) -> list[str]:
        """Returns the ids of those that are alive; none where the head is gone."""
        from ray.core.generated.gcs_pb2 import GcsNodeInfo
        from ray.exceptions import RayError

        if not self._head.is_there():
            return []
        try:
            nodes = self._gcs.get_all_node_info(timeout=ASK_SECONDS)
        except RayError:  # busy or gone, which the next looks will show
            return self._last
        self._last = [
            node.hex()
            for node, info in nodes.items()
            if info.state == GcsNodeInfo.ALIVE
            and "node:__internal_head__" not in info.resources_total
            and _is_here(info.node_manager_address)
        ]
        return self._last

    def wait(self) -> None:
        """Waits until there is one."""
        deadline = time.monotonic() + _JOIN_SECONDS
        while not self.alive():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"Spot notices are watched on a machine that works for Ray, but the cluster at "
                    f"{self._address} has no node here besides its head; start one first."
                )
            time.sleep(1.0)

    def drain(self, end: float, say: Say) -> bool:
        """Drains them all, and returns whether there are any and Ray accepts that."""
        until = datetime.fromtimestamp(end).astimezone().isoformat(timespec="seconds")
        accepted = []
        for node in self.alive():
            right, trouble = self._drain_one(node, end)
            say(f"Node {node} drains until {until}" if right else f"Node {node} stays: {trouble}")
            accepted.append(right)
        return bool(accepted) and all(accepted)

    def _drain_one(self, node: str, end: float) -> tuple[bool, str]:
        """Whether Ray drains a node, and if not, why."""
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason
        from ray.exceptions import RayError

        reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        try:
            right, trouble = self._gcs.drain_node(node, reason, _REASON, int(1000 * end))
        except RayError as error:  # a busy head; it is asked again
            return False, str(error)
        return right, trouble


def _is_here(address: str) -> bool:
    """Whether it is an address of this machine, since only such a one can be listened on."""
    with suppress(OSError), socket.socket() as probe:
        probe.bind((address, 0))
        return True
    return False


def _ask(url: str, headers: dict[str, str], method: str = "GET") -> str | None:
    """Returns what the metadata service says, or None if it says nothing."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine
    request = urllib.request.Request(url, headers=headers, method=method)
    with (
        suppress(OSError, HTTPException, ValueError),  # or what is no answer at all
        opener.open(request, timeout=ASK_SECONDS) as answer,
    ):
        text: str = answer.read().decode()
        return text
    return None
