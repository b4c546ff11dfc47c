"""The metadata services of clouds, as far as they tell a machine of its end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TOKEN = "a-token-of-the-session"


class Metadata:
    """What the services say now."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.end: datetime | None = None
        self.asked = 0

    def announce(self, seconds: int) -> datetime:
        self.end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
        return self.end

    def answer(self, handler: BaseHTTPRequestHandler) -> tuple[int, str]:
        """Speaks as both clouds do: AWS with a token alone, Google with its header alone."""
        call, headers = (handler.command, handler.path), handler.headers
        if call == ("PUT", "/latest/api/token"):
            right = "X-aws-ec2-metadata-token-ttl-seconds" in headers
            return (200, TOKEN) if right else (400, "")
        if call == ("GET", "/latest/meta-data/spot/instance-action"):
            self.asked += 1
            if headers["X-aws-ec2-metadata-token"] != TOKEN:
                return 401, ""
            if self.end is None:
                return 404, ""
            time = self.end.strftime("%Y-%m-%dT%H:%M:%SZ")
            return 200, json.dumps({"action": "terminate", "time": time})
        if call == ("GET", "/computeMetadata/v1/instance/preempted"):
            self.asked += 1
            if headers["Metadata-Flavor"] != "Google":
                return 403, ""
            return 200, "FALSE" if self.end is None else "TRUE"
        return 404, ""


@contextmanager
def metadata_service() -> Iterator[Metadata]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = metadata.answer(self)
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_GET  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        metadata = Metadata(f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield metadata
        finally:
            server.shutdown()
            thread.join()
