"""A Ray cluster of several raylets on this machine, in a process ruled by lines on stdin.

Prints its address. `add CPUS GPUS` starts a node and prints its id; `kill ID` kills the node's
raylet with -9; `drain ID` announces its end and prints whether Ray accepts that; the end of stdin
ends everything.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
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


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hsn-") as folder:
        os.environ["RAY_TMPDIR"] = folder
        Path(folder, "ray").mkdir()
        from ray._raylet import GcsClient  # type: ignore[attr-defined]
        from ray.cluster_utils import Cluster

        cluster = patiently(
            Cluster,
            initialize_head=True,
            head_node_args={"num_cpus": int(sys.argv[1]), "include_dashboard": False},
        )
        nodes = {}
        sys.stdout.write(f"{cluster.address}\n")
        sys.stdout.flush()
        for line in sys.stdin:
            word, argument, *more = line.split()
            if word == "add":
                has = {"num_cpus": int(argument), "num_gpus": int(more[0])}
                node = patiently(cluster.add_node, **has)
                nodes[node.node_id] = node
                sys.stdout.write(f"{node.node_id}\n")
                sys.stdout.flush()
            elif word == "drain":
                deadline = int(1000 * (time.time() + DRAIN_SECONDS))
                gcs = GcsClient(address=cluster.address)
                accepted, _ = gcs.drain_node(argument, PREEMPTION, "a test", deadline)
                sys.stdout.write(f"{accepted}\n")
                sys.stdout.flush()
            else:
                cluster.remove_node(nodes.pop(argument), allow_graceful=False)
        cluster.shutdown()


if __name__ == "__main__":
    main()
