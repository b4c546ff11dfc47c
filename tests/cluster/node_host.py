"""A Ray cluster of several raylets on this machine, in a process ruled by words.

It says its address. `add CPUS GPUS` starts a node and says its id; `kill ID` kills the node's
raylet with -9; `drain ID` announces its end and says whether Ray accepts that; the end of the line
ends everything.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PREEMPTION = 2  # autoscaler.proto's DRAIN_NODE_REASON_PREEMPTION
DRAIN_SECONDS = 120


def patiently(start: Callable[..., Any], **arguments: object) -> Any:
    """Starts a node, again where a busy machine took longer than the 30 s that Ray allows."""
    for _ in range(2):
        with suppress(Exception):
            return start(**arguments)
    return start(**arguments)


def host_nodes(line: Connection, head_cpus: int) -> None:
    os.environ["RAY_TMPDIR"] = os.getcwd()
    Path("ray").mkdir()
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.cluster_utils import Cluster

    cluster = patiently(
        Cluster,
        initialize_head=True,
        head_node_args={"num_cpus": head_cpus, "include_dashboard": False},
    )
    nodes = {}
    line.send(cluster.address)
    with suppress(EOFError):
        while True:
            word, argument, *more = line.recv().split()
            if word == "add":
                has = {"num_cpus": int(argument), "num_gpus": int(more[0])}
                node = patiently(cluster.add_node, **has)
                nodes[node.node_id] = node
                line.send(node.node_id)
            elif word == "drain":
                deadline = int(1000 * (time.time() + DRAIN_SECONDS))
                gcs = GcsClient(address=cluster.address)
                accepted, _ = gcs.drain_node(argument, PREEMPTION, "a test", deadline)
                line.send(str(accepted))
            else:
                cluster.remove_node(nodes.pop(argument), allow_graceful=False)
    cluster.shutdown()
