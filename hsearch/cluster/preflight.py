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

FINEST_SHARE = 0.0001
"""Of a GPU, that Ray can tell from none."""

SPARE_FROM = 4
SPARE_TRIALS = 0.05
"""How many trials more than groups, as a share, where each has one fold in training at a time."""


@dataclass(frozen=True)
class Node:
    """What one machine of the cluster has.

    Attributes:
        cpus: That Ray may use, as the next two.
        gpus: Whole ones.
        memory: In bytes.
        id: Ray's name of it.
        is_head: Whether the cluster's own processes live there.
        is_leaving: Whether it has announced its end, as a spot machine does.
    """

    cpus: float
    gpus: float = 0
    memory: float = math.inf
    id: str = ""
    is_head: bool = False
    is_leaving: bool = False


@dataclass(frozen=True)
class Plan:
    """How the cluster is used.

    Attributes:
        groups: Worker groups, each of which trains one fold at a time.
        workers: DDP ranks of a group.
        cpus: Of one rank.
        gpus: Of one rank: 0, a share of one, or whole ones.
        arithmetic: The reckoning in words.
    """

    groups: int
    workers: int
    cpus: int
    gpus: float
    arithmetic: str

    @property
    def resources(self) -> dict[str, float]:
        """Of one rank, in Ray's words."""
        resources: dict[str, float] = {"CPU": self.cpus, "GPU": self.gpus}
        return {name: amount for name, amount in resources.items() if amount}


def check_share(gpus: float | None, workers: int) -> None:
    """Raises if no rank could have so many GPUs."""
    if gpus and not (FINEST_SHARE <= gpus <= 1 or (gpus > 1 and gpus.is_integer())):
        raise ConfigError(
            "A worker has a share of one GPU, or whole ones, so `--gpus-per-worker` must be 0, a "
            f"number from {FINEST_SHARE:g} to 1 or a whole number, but got {gpus:g}."
        )
    if gpus and gpus < 1 and workers > 1:
        raise ConfigError(
            "Workers of one fold cannot share a GPU, so `--gpus-per-worker` below 1 needs "
            f"`--workers-per-fold 1`, but got {gpus:g} and {workers}."
        )


def plan_groups(
    nodes: Sequence[Node],
    workers: int,
    cpus: int | None = None,
    gpus: float | None = None,
    limit: int | None = None,
) -> Plan:
    """Returns how many worker groups fit; refuses a group that can never be placed.

    A rank lives on one node; the ranks of a group may live on several. The head node gets none,
    unless the others have no room.

    Args:
        nodes: Of the cluster, as they are now.
        workers: Ranks of one group.
        cpus: Of one rank; by default 1, or a GPU's share of its node.
        gpus: Of one rank; by default 1 where there are any.
        limit: Most groups wanted.
    """
    if gpus is None:
        gpus = int(any(node.gpus >= 1 for node in nodes))
    cpus = cpus or (_share_of_cpus(nodes, gpus) if gpus else 1)
    hosts = _hosts(nodes, cpus, gpus)
    ranks = sum(_ranks(node, cpus, gpus) for node in hosts)
    fitting = ranks // workers
    rank = plural(cpus, "CPU") + (f" and {gpus:g} GPU" if gpus else "")
    rank += f" and {RANK_BYTES / 1e9:g} GB" if _is_short_of_memory(hosts, cpus, gpus) else ""
    without_head = any(node.is_head for node in set(nodes) - set(hosts))
    has = plural(len(hosts), "node") + (" beside the head" if without_head else "")
    has += f" with {sum(n.cpus for n in hosts):g} CPUs"
    if gpus:
        has += f" and {sum(n.gpus for n in hosts):g} GPUs"
    holds = f"{has}: room for {plural(ranks, 'worker')} of {rank}"
    if not fitting:
        raise ConfigError(
            f"A fold needs {plural(workers, 'worker')} of {rank} at once, but the cluster has "
            f"{holds}; lower `--workers-per-fold`, `--cpus-per-worker` or `--gpus-per-worker`."
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
    hosts = hosts_of(nodes, plan)
    fitting = sum(_ranks(node, plan.cpus, plan.gpus) for node in hosts) // plan.workers
    return min(fitting, limit or fitting)


def hosts_of(nodes: Sequence[Node], plan: Plan) -> list[Node]:
    """Returns the nodes on which ranks of a plan may live."""
    return _hosts(nodes, plan.cpus, plan.gpus)


def _hosts(nodes: Sequence[Node], cpus: int, gpus: float) -> list[Node]:
    """Those that stay, without the head, unless it is the only one with room."""
    staying = [node for node in nodes if not node.is_leaving]
    others = [node for node in staying if not node.is_head]
    return others if any(_ranks(node, cpus, gpus) for node in others) else staying


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


def _ranks(node: Node, cpus: int, gpus: float) -> int:
    bounds = [node.cpus // cpus, node.memory // RANK_BYTES]
    if gpus >= 1:
        bounds.append(node.gpus // gpus)
    elif gpus:  # a share is of one GPU, never of two
        bounds.append(node.gpus * int(1 / gpus + 1e-9))
    return int(min(bounds))


def _is_short_of_memory(nodes: Sequence[Node], cpus: int, gpus: float) -> bool:
    return any(
        _ranks(n, cpus, gpus) < _ranks(replace(n, memory=math.inf), cpus, gpus) for n in nodes
    )


def _share_of_cpus(nodes: Sequence[Node], gpus: float) -> int:
    """CPUs that go with so many GPUs, by the node that has the fewest; 1 while none has any."""
    shares = [node.cpus / int(node.gpus) for node in nodes if node.gpus >= 1]
    return max(1, int(min([*shares, MAX_CPUS_PER_GPU]) * gpus)) if shares else 1
