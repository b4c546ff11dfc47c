"""Before a search starts: how many worker groups the cluster holds, by arithmetic that is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from hsearch.errors import ConfigError

MAX_CPUS_PER_GPU = 8
"""More threads than this do not help one GPU to its images."""


@dataclass(frozen=True)
class Node:
    """What one machine of the cluster has."""

    cpus: float
    gpus: float = 0


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
    rank = f"{cpus} CPU{'s' if cpus > 1 else ''}" + (" and 1 GPU" if gpus else "")
    machines = f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}"
    has = f"{machines} with {sum(n.cpus for n in nodes):g} CPUs"
    if gpus:
        has += f" and {sum(n.gpus for n in nodes):g} GPUs"
    holds = f"{has}: room for {ranks} workers of {rank}"
    if not fitting:
        raise ConfigError(
            f"A fold needs {workers} workers of {rank} at once, but the cluster has {holds}; lower "
            "`--workers-per-fold` or `--cpus-per-worker`."
        )
    groups = min(fitting, limit or fitting)
    arithmetic = f"{holds}; {workers} per fold: {groups} fold trainings at once"
    if groups < fitting:
        arithmetic += f" (of {fitting} possible)"
    return Plan(groups, workers, cpus, gpus, arithmetic)


def concurrent_trials(groups: int, folds_ahead: int) -> int:
    """Returns how many trials keep so many groups busy.

    Args:
        groups: Fold trainings at once.
        folds_ahead: How many folds of one trial may be trained at once.
    """
    if groups == 1:
        return 1
    return -(-groups // folds_ahead) + (folds_ahead > 1)


def _ranks(node: Node, cpus: int, gpus: int) -> int:
    by_cpu = int(node.cpus // cpus)
    return min(by_cpu, int(node.gpus // gpus)) if gpus else by_cpu


def _share_of_cpus(nodes: Sequence[Node]) -> int:
    """CPUs for each GPU, by the node that has the fewest."""
    shares = [int(node.cpus // int(node.gpus)) for node in nodes if node.gpus >= 1]
    return max(1, min(*shares, MAX_CPUS_PER_GPU))
