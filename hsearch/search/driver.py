"""Who drives a study: a process, told from all others, and whether it can be seen from here."""

import json
import os
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path

from hsearch.spec import Spec


class Driver(Spec):
    """Who drives a study.

    Attributes:
        host: Its name.
        boot: Identifies the run of its kernel; empty where unknown, as the next two.
        namespace: Identifies its process namespace, such as a container's.
        pid: Of the process.
        process_start: When the process began, in the kernel's clock ticks.
        token: Of this lease.
        since: When the lease began, in seconds since the epoch.
        heartbeat: When the driver last said that it lives, in seconds since the epoch.
        job: Of Ray, by its submission id, if the process is one's; empty otherwise.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    process_start: str
    token: str
    since: float
    heartbeat: float
    job: str = ""

    def __str__(self) -> str:
        doing = f"Ray job {self.job}" if self.job else f"process {self.pid}"
        return f"{doing} on {self.host}"


def this_process() -> Driver:
    """Returns this process as the driver of a new lease."""
    now = time.time()
    return Driver(
        host=socket.gethostname(),
        boot=_boot(),
        namespace=_namespace(),
        pid=os.getpid(),
        process_start=process_start(os.getpid()),
        token=uuid.uuid4().hex,
        since=now,
        heartbeat=now,
        job=_ray_job(),
    )


def _ray_job() -> str:
    """The submission id of the Ray job that this process is, as Ray tells it; else empty."""
    with suppress(ValueError):
        config = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
        return str(config.get("metadata", {}).get("job_submission_id", ""))
    return ""


def is_near(driver: Driver) -> bool:
    """Returns whether the driver's process, if it lives, can be seen from here."""
    here = (socket.gethostname(), _boot(), _namespace())
    return all(here) and (driver.host, driver.boot, driver.namespace) == here


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def process_start(pid: int) -> str:
    """Returns when a process began, in clock ticks; empty where there is none or only a zombie."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()  # after the name, which may hold anything
        return "" if fields[0] in "ZX" else fields[19]
    return ""
