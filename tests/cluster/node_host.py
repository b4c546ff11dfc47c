"""A Ray cluster of several raylets on this machine, in a process ruled by lines on stdin.

Prints its address. `add CPUS` starts a node and prints its id; `kill ID` kills the node's raylet
with -9; the end of stdin ends everything.
"""

import os
import sys
import tempfile
from pathlib import Path


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hsn-") as folder:
        os.environ["RAY_TMPDIR"] = folder
        Path(folder, "ray").mkdir()
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": int(sys.argv[1]), "include_dashboard": False},
        )
        nodes = {}
        sys.stdout.write(f"{cluster.address}\n")
        sys.stdout.flush()
        for line in sys.stdin:
            word, argument = line.split()
            if word == "add":
                node = cluster.add_node(num_cpus=int(argument))
                nodes[node.node_id] = node
                sys.stdout.write(f"{node.node_id}\n")
                sys.stdout.flush()
            else:
                cluster.remove_node(nodes.pop(argument), allow_graceful=False)
        cluster.shutdown()


if __name__ == "__main__":
    main()
