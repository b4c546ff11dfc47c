"""`hsearch ui` as a process: where it listens, what it says, and that nothing remains of it."""

import re
import signal
import socket
import urllib.request
from contextlib import closing, suppress
from pathlib import Path

from tests.cluster.searches import Command, is_alive, processes_of

LOOPBACK = "0100007F"
LISTENING = "0A"


def listening(processes: list[int]) -> set[tuple[str, int]]:
    """Addresses, as the kernel writes them, and ports at which processes wait for anybody."""
    links = [link for pid in processes for link in Path("/proc", str(pid), "fd").glob("*")]
    inodes = set()
    for link in links:
        with suppress(OSError):
            inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENING and inode in inodes:
                host, port = local.split(":")
                found.add((host, int(port, 16)))
    return found


def test_it_serves_on_loopback_alone_until_ctrl_c_and_nothing_remains(made):
    with socket.socket() as other:
        with suppress(OSError):  # already another's, which is as good
            other.bind(("127.0.0.1", 5000))
            other.listen()
        command = Command(made.path, "ui")
        with command.started() as process:
            command.wait_for("Ctrl-C ends it", process)
            (port,) = re.findall(r"UI: http://127\.0\.0\.1:(\d+) ", command.printed())
            assert port != "5000"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                assert "MLflow" in answer.read().decode()
            processes = [process.pid, *processes_of(process.pid)]
            assert listening(processes) == {(LOOPBACK, int(port))}
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    assert command.printed().splitlines()[-1] == "hsearch: interrupted"
    assert not any(map(is_alive, processes))
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", int(port)))


def test_without_a_store_it_says_so_in_a_sentence(tmp_path):
    printed = Command(tmp_path, "ui").run(exit_code=2)
    _, error = printed.splitlines()
    assert error.startswith(f"hsearch: error: There is no MLflow store {tmp_path}/mlflow.db yet; ")
    assert not (tmp_path / "mlflow.db").exists()
