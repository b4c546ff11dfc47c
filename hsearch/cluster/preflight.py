"""Before a search starts: how many worker groups the cluster holds, by arithmetic that is shown."""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hsearch.errors import ConfigError
from hsearch.words import plural

MAX_CPUS_PER_GPU = 8
"""More threads than this do not help one GPU to its images."""

RANK_BYTES = 1.5e9
"""Memory of a rank without its network and data: the packages that it imports."""

SPARE_FROM = 4
SPARE_TRIALS = 0.05
"""How many trials more than groups, as a share, where each has one fold in training at a time."""


@dataclass(frozen=True)
class Node:
    """What one machine of the cluster has."""

    cpus: float
    gpus: float = 0
    memory: float = math.inf


@dataclass(frozen=True)
class Plan:
    """How the cluster is used.

    Attributes:
        groups: Worker groups, each of which trains one fold at a time.
        workers: DDP ranks of a group.
        cpus: Of one rank.
        gpus: Of one rank, 0 or 1.
        arithmetic: The reckoning in words.
    """

    groups: int
    workers: int
    cpus: int
    gpus: int
    arithmetic: str

    @property
    def resources(self) -> dict[str, float]:
        """Of one rank, in Ray's words."""
        resources: dict[str, float] = {"CPU": self.cpus, "GPU": self.gpus}
        return {name: amount for name, amount in resources.items() if amount}


def plan_groups(
    nodes: Sequence[Node], workers: int, cpus: int | None = None, limit: int | None = None
) -> Plan:
    """Returns how many worker groups fit; refuses a group that can never be placed.

    A rank lives on one node; the ranks of a group may live on several. Where there are GPUs every
    rank has one.

    Args:
        nodes: Of the cluster, as they are now.
        workers: Ranks of one group.
        cpus: Of one rank; by default 1, or a GPU's share of its node.
        limit: Most groups wanted.
    """
    gpus = int(any(node.gpus >= 1 for node in nodes))
    cpus = cpus or (_share_of_cpus(nodes) if gpus else 1)
    ranks = sum(_ranks(node, cpus, gpus) for node in nodes)
    fitting = ranks // workers
    rank = plural(cpus, "CPU") + (" and 1 GPU" if gpus else "")
    rank += f" and {RANK_BYTES / 1e9:g} GB" if _is_short_of_memory(nodes, cpus, gpus) else ""
    has = f"{plural(len(nodes), 'node')} with {sum(n.cpus for n in nodes):g} CPUs"
    if gpus:
        has += f" and {sum(n.gpus for n in nodes):g} GPUs"
    holds = f"{has}: room for {plural(ranks, 'worker')} of {rank}"
    if not fitting:
        raise ConfigError(
            f"A fold needs {plural(workers, 'worker')} of {rank} at once, but the cluster has "
            f"{holds}; lower `--workers-per-fold` or `--cpus-per-worker`."
        )
    groups = min(fitting, limit or fitting)
    arithmetic = f"{holds}; {workers} per fold: {plural(groups, 'fold training')} at once"
    if groups < fitting:
        arithmetic += f" (of {fitting} possible)"
    return Plan(groups, workers, cpus, gpus, arithmetic)


def concurrent_trials(groups: int, folds_ahead: int) -> int:
    """Returns how many trials keep so many groups busy.

    From SPARE_FROM groups on there are a few more of them, so that a fold waits for every group
    that comes back while the driver decides.

    Args:
        groups: Fold trainings at once.
        folds_ahead: How many folds of one trial may be trained at once.
    """
    if groups == 1:
        return 1
    if folds_ahead > 1:
        return math.ceil(groups / folds_ahead) + 1
    spare = math.ceil(SPARE_TRIALS * groups) if groups >= SPARE_FROM else 0
    return groups + spare


def groups_with_room(nodes: Sequence[Node], plan: Plan, limit: int | None = None) -> int:
    """Returns how many groups of a plan's shape fit on the nodes of a later moment; maybe none."""
    fitting = sum(_ranks(node, plan.cpus, plan.gpus) for node in nodes) // plan.workers
    return min(fitting, limit or fitting)


def this_machine() -> Node:
    """Returns what this process may use, within the quotas of its container."""
    import torch

    cpus = float(len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cpus = min(cpus, max(1, float(quota) // float(period)))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return Node(cpus, torch.cuda.device_count(), memory)


def _ranks(node: Node, cpus: int, gpus: int) -> int:
    bounds = [node.cpus // cpus, node.memory // RANK_BYTES]
    if gpus:
        bounds.append(node.gpus // gpus)
    return int(min(bounds))


def _is_short_of_memory(nodes: Sequence[Node], cpus: int, gpus: int) -> bool:
    return any(
        _ranks(n, cpus, gpus) < _ranks(replace(n, memory=math.inf), cpus, gpus) for n in nodes
    )


def _share_of_cpus(nodes: Sequence[Node]) -> int:
    """CPUs for each GPU, by the node that has the fewest."""
    shares = [int(node.cpus // int(node.gpus)) for node in nodes if node.gpus >= 1]
    return max(1, min(*shares, MAX_CPUS_PER_GPU))
