"""How a search uses a cluster, and the first plan that follows from it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hsearch.addresses import Place, shared_place
from hsearch.cluster.preflight import Node, Plan, check_share, plan_groups, this_machine
from hsearch.cluster.session import Session
from hsearch.data.places import check_writable
from hsearch.errors import ConfigError

LOOK_SECONDS = 5.0
JOINING_SECONDS = 90.0
"""How long machines of a cluster that has just been started may need to join it."""
MACHINE_SECONDS = 1200.0
"""How long an autoscaling cluster may take for machines that it is asked for."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """How the cluster is used.

    Attributes:
        address: Of a running Ray cluster; None for one on this machine.
        workers_per_fold: DDP ranks of one fold training.
        cpus_per_worker: Of one rank; None for 1, or a GPU's share of its node.
        gpus_per_worker: Of one rank, maybe a share; None for 1 where there are any.
        groups: Most fold trainings at once; None for as many as fit.
        folder: Of checkpoints: an address, or a folder that all nodes see.
    """

    address: str | None = None
    workers_per_fold: int = 1
    cpus_per_worker: int | None = None
    gpus_per_worker: float | None = None
    groups: int | None = None
    folder: Place = Path("studies")


def check_options(options: ClusterOptions) -> None:
    """Raises if jobs could never be placed or keep their checkpoints; needs no Ray."""
    check_share(options.gpus_per_worker, options.workers_per_fold)
    shared_place()  # which raises if it holds credentials
    if options.address is None:
        _plan([this_machine()], options)
    check_writable(options.folder)


def first_plan(
    options: ClusterOptions,
    session: Session,
    said: Callable[[str], None],
    lost: threading.Event,
    stopping: threading.Event,
) -> Plan | None:
    """Returns the plan for the machines that are there; None if one of the events is set.

    A running cluster may still get machines, so where nothing fits it is waited for a while.

    Args:
        options: How the cluster is used.
        session: With Ray.
        said: Called with what is waited for.
        lost: Ends the waiting.
        stopping: Likewise.
    """
    asked = options.groups or options.gpus_per_worker
    deadline = time.monotonic() + (MACHINE_SECONDS if asked else JOINING_SECONDS)
    told = False
    while True:
        try:
            return _plan(session.nodes(), options)
        except ConfigError as error:
            if options.address is None or time.monotonic() > deadline:
                raise
            if lost.is_set() or stopping.is_set():
                return None
            if not told:
                session.ask_for(*_first_wish(options))
                said(f"Waiting for machines. {error}")
                told = True
        stopping.wait(LOOK_SECONDS)


def _first_wish(options: ClusterOptions) -> tuple[int, dict[str, float]]:
    """How many ranks of what size an autoscaling cluster is asked for before there is a plan."""
    ranks = (options.groups or 1) * options.workers_per_fold
    size = {"CPU": options.cpus_per_worker or 1, "GPU": options.gpus_per_worker or 0}
    return ranks, {name: amount for name, amount in size.items() if amount}


def _plan(nodes: list[Node], options: ClusterOptions) -> Plan:
    return plan_groups(
        nodes,
        options.workers_per_fold,
        options.cpus_per_worker,
        options.gpus_per_worker,
        options.groups,
    )
