"""MLflow's own server as a child process on loopback: started, asked, ended."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs

HOST = "127.0.0.1"
PORT = 5000
END_SECONDS = 10.0

SETTINGS = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a process per core that nobody here needs
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def start_server(
    uri: str, port: int, log: IO[bytes], settings: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Returns the process of a server, in a session of its own; it does not answer yet.

    Args:
        uri: Of the database with the runs.
        port: To listen on.
        log: Gets whatever it prints.
        settings: Further environment variables.
    """
    given = {**os.environ, **SETTINGS, **(settings or {})}
    command = [sys.executable, "-m", "mlflow", "server", "--workers=1"]
    return subprocess.Popen(
        [*command, "--host", HOST, "--port", str(port)],
        env={**given, "MLFLOW_BACKEND_STORE_URI": uri},  # there may be a password in it
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for this process, which ends the other
    )


def server_answers(port: int) -> bool:
    """Returns whether a server answers on that port of this machine."""
    with suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=5):
        return True
    return False


def end_server(process: "subprocess.Popen[bytes]") -> None:
    """Ends the server with all its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)


def artifact_settings(shared: str | None, folder: Path) -> dict[str, str]:
    """Returns the settings of a server that keeps artifacts in a shared store.

    Args:
        shared: A folder or an address, as in HSEARCH_SHARED; None keeps them in `folder`.
        folder: Of this machine.
    """
    if not shared:
        return {"MLFLOW_ARTIFACTS_DESTINATION": folder.as_uri()}
    place, _, options = shared.partition("?")
    place = place.rstrip("/") + "/mlflow"
    if "://" not in place:
        place = Path(place).absolute().as_uri()
    settings = {"MLFLOW_ARTIFACTS_DESTINATION": place}
    asked = parse_qs(options)
    if "endpoint_override" in asked:  # pyarrow's words for another server than Amazon's
        own, _, endpoint = asked["endpoint_override"][0].rpartition("://")
        scheme = own or asked.get("scheme", ["https"])[0]
        settings["MLFLOW_S3_ENDPOINT_URL"] = f"{scheme}://{endpoint}"
    return settings
