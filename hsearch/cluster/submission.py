"""A command of hsearch as a job of a running Ray cluster, which goes on when its user has left."""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hsearch.cluster.session import check_answer
from hsearch.errors import ConfigError

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

STOP_SECONDS = 30
"""How long `ray job stop` leaves a driver, which needs longer than Ray's 3 s to put things away."""

SHOWN_LINES = 20


class RayJob:
    """A job that was submitted.

    Attributes:
        id: By which Ray knows it.
    """

    def __init__(self, client: "JobSubmissionClient", job: str) -> None:
        self.id, self._client = job, client

    def ending(self) -> str | None:
        """Returns Ray's word for how the job has ended, such as SUCCEEDED; None while it runs.

        The same where the dashboard does not answer for a while.
        """
        try:
            status = self._client.get_job_status(self.id)
        except (OSError, RuntimeError):
            return None
        return str(status.value) if status.is_terminal() else None

    def last_lines(self) -> str:
        """Returns the end of what the job has printed, or Ray's own words if it printed nothing."""
        try:
            printed = self._client.get_job_logs(self.id).strip()
            said = printed or str(self._client.get_job_info(self.id).message or "")
        except (OSError, RuntimeError):
            return f"(the dashboard does not tell; try `ray job logs {self.id}`)"
        return "\n".join(said.splitlines()[-SHOWN_LINES:])


def submit(
    address: str,
    job: str,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    needed: Iterable[str],
) -> RayJob:
    """Submits a command of hsearch; it runs where the cluster's jobs do, mostly on the head node.

    Everything given here is shown by Ray's dashboard, so there must be no secret in it.

    Args:
        address: Of the cluster, `auto`, HOST:PORT, or its dashboard's http://HOST:PORT.
        job: Its id.
        arguments: Behind `hsearch`.
        settings: Environment variables of the job.
        needed: Environment variables that the cluster's own processes must have.
    """
    client = _connect(address)
    try:
        client.submit_job(
            entrypoint=entry_point(arguments, needed),
            submission_id=job,
            runtime_env={"env_vars": {**settings, "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}},
        )
    except RuntimeError as error:
        raise _refusal(address, error) from error
    return RayJob(client, job)


def entry_point(arguments: Iterable[str], needed: Iterable[str]) -> str:
    """Returns a command of hsearch for a shell, which fails where a needed variable is not set.

    A default of hsearch's would silently be used instead.
    """
    checks = [
        f': "${{{name}:?must be set for the processes of the cluster}}" && ' for name in needed
    ]
    return "".join(checks) + "exec " + shlex.join([sys.executable, "-m", "hsearch", *arguments])


def _connect(address: str) -> "JobSubmissionClient":
    from ray.exceptions import RayError
    from ray.job_submission import JobSubmissionClient

    os.environ["RAY_ADDRESS"] = address  # which Ray prefers to the address that it is called with
    try:
        check_answer(address.rpartition("://")[2].rstrip("/"))
        return JobSubmissionClient(address)
    except (OSError, RayError, RuntimeError, ValueError) as error:
        raise _refusal(address, error) from error


def _refusal(address: str, error: Exception) -> ConfigError:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return ConfigError(
        "`--detach` needs a running Ray cluster with a dashboard at `--address`: `auto`, HOST:PORT "
        f"or http://HOST:PORT, but '{address}' gave: {reason}; leave `--detach` out to search from "
        "this process."
    )
