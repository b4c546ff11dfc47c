"""A real S3 server on loopback, in a process of its own."""

import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class S3Server:
    """A running server.

    Attributes:
        endpoint: `http://host:port`.
        log: What it was asked, line by line.
    """

    endpoint: str
    log: Path

    def uri(self, path: str) -> str:
        """The address of `bucket/key` that says by itself where the server is."""
        host = self.endpoint.removeprefix("http://")
        return f"s3://{path}?endpoint_override={host}&scheme=http&region=us-east-1"

    def request(self, method: str, path: str, content: bytes = b"") -> bytes:
        url = f"{self.endpoint}/{path}"
        kind = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, content or None, kind, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            given: bytes = answer.read()
            return given

    def requests(self, method: str, path: str) -> int:
        """How often a path was asked for so far."""
        return len(re.findall(f"{method} /{re.escape(path)} HTTP", self.log.read_text()))


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """Starts a server with an empty bucket called `bucket`, and ends it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = S3Server(f"http://127.0.0.1:{port}", folder / "s3.log")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with server.log.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait(server, process)
        server.request("PUT", "bucket")
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _wait(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            server.request("GET", "moto-api/data.json")
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(server.log.read_text()) from None
            time.sleep(0.1)
