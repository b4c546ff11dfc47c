"""Where processes wait for connections, as the kernel tells it."""

from contextlib import suppress
from pathlib import Path

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
