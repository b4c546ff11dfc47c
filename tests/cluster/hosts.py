"""Hosts made on this machine: namespaces of network, processes and mounts, with an ssh server each.

They are joined by a switch in a namespace of its own, so nothing of this machine's network is
touched. A host sees this machine's files, but its own /root, /tmp, /run, /dev/shm and /var/lib.
What a host sends is limited. Needs root, iproute2, util-linux, openssh-server and a kernel with
the queue tbf; where they are missing, a test fails.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

NETWORK = "10.213.77"
RATE = "20mbit"  # of what a host sends: work then takes its time, but not this machine's
OWN = ("root", "tmp", "run", "var/lib")
PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "/usr/sbin/sshd": "openssh-server",
    "rsync": "rsync",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
INIT = Path(__file__).with_name("host_init.py")


class Host:
    """One of the hosts.

    Attributes:
        name: Of the host.
        address: Of its only link.
        pid: Of its first process, as this machine counts.
        files: Where its own files lie, as this machine sees them.
    """

    def __init__(self, name: str, address: str, space: str, files: Path) -> None:
        self.name, self.address, self.space, self.files = name, address, space, files
        self.pid = 0

    def start(self, arguments: Sequence[str], **options: object) -> "subprocess.Popen[bytes]":
        """Starts a command on the host."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--net", "--pid", "--ipc"]
        return subprocess.Popen([*enter, *arguments], **options)  # type: ignore[call-overload,no-any-return]

    def processes(self) -> list[str]:
        """Command lines of all that runs there, but its first process and its ssh server."""
        space = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if os.readlink(folder / "ns/pid") == space and line:
                    found.append(line)
        return [line for line in found if "sshd" not in line and INIT.name not in line]


class Hosts:
    """All hosts and the switch between them."""

    def __init__(self, environments: Mapping[str, Mapping[str, str]]) -> None:
        self.prefix = f"hsearch-{os.getpid()}-{secrets.token_hex(2)}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.prefix}-", dir="/var/tmp"))
        self.key = self.folder / "key"
        self.environments = environments
        self.hosts = {
            name: Host(name, f"{NETWORK}.{n}", f"{self.prefix}-{name}", self.folder / name)
            for n, name in enumerate(environments, start=1)
        }

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())

    @contextmanager
    def running(self) -> Iterator["Hosts"]:
        """Starts all hosts; nothing of them is left afterwards."""
        _remove_leftovers()
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
            (self.folder / "hosts").write_text(
                "127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in self)
            )
            self._add_space(stack, self.switch)
            _run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", self.switch, "link", "set", "bridge", "up")
            for host in self:
                self._add_space(stack, host.space)
                self._join(host)
                self._start(stack, host)
            for host in self:
                self._wait_for_ssh(host)
            yield self

    @property
    def switch(self) -> str:
        """The namespace that joins the others."""
        return f"{self.prefix}-switch"

    def set_link(self, name: str, state: str) -> None:
        """Plugs the cable of a host in (`up`) or out (`down`)."""
        _run("ip", "-n", self.switch, "link", "set", name, state)

    def _add_space(self, stack: ExitStack, space: str) -> None:
        _run("ip", "netns", "add", space)
        stack.callback(subprocess.run, ["ip", "netns", "del", space], check=False)
        _run("ip", "-n", space, "link", "set", "lo", "up")

    def _join(self, host: Host) -> None:
        link = ("link", "add", "eth0", "netns", host.space, "type", "veth")
        _run("ip", *link, "peer", "name", host.name, "netns", self.switch)
        _run("ip", "-n", host.space, "address", "add", f"{host.address}/24", "dev", "eth0")
        _run("ip", "-n", host.space, "link", "set", "eth0", "up")
        limit = ("rate", RATE, "burst", "64kb", "latency", "100ms")
        _run("tc", "-n", host.space, "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
        _run("ip", "-n", self.switch, "link", "set", host.name, "master", "bridge", "up")

    def _start(self, stack: ExitStack, host: Host) -> None:
        for part in OWN:
            (host.files / part).mkdir(parents=True)
        (host.files / "run/sshd").mkdir()
        ssh = host.files / "root/.ssh"
        ssh.mkdir(mode=0o700)
        shutil.copy(f"{self.key}.pub", ssh / "authorized_keys")
        shutil.copy(self.key, ssh / "id_ed25519")  # the head reaches the workers with it
        (host.files / "sshd_config").write_text(self._sshd_config(host))
        os.chmod(host.files / "tmp", 0o1777)
        host.files.chmod(0o755)
        kept = [sys.prefix, sys.base_prefix, str(INIT.parents[2])]
        own = ("setpriv", "--pdeathsig=KILL", "nsenter", f"--net=/run/netns/{host.space}")
        spaces = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc")
        command = [*own, *spaces, sys.executable, "-S", str(INIT), str(host.files), host.name]
        with (host.files / "log").open("wb") as log:
            process = subprocess.Popen([*command, *kept], stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.kill)
        host.pid = _child_of(process)

    def _sshd_config(self, host: Host) -> str:
        variables = self.environments[host.name].items()
        quoted = [f"{name}={value}".replace('"', '\\"') for name, value in variables]
        settings = " ".join(f'"{text}"' for text in quoted)
        return (
            f"HostKey {self.key}\nAuthorizedKeysFile .ssh/authorized_keys\nPermitRootLogin yes\n"
            "StrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\nUseDNS no\n"
            f"Subsystem sftp internal-sftp\nListenAddress {host.address}\nSetEnv {settings}\n"
        )

    def _wait_for_ssh(self, host: Host) -> None:
        deadline = time.monotonic() + 60
        probe = ["bash", "-c", f": < /dev/tcp/{host.address}/22"]
        while host.start(probe, stderr=subprocess.DEVNULL).wait():
            if time.monotonic() > deadline:
                pytest.fail(f"{host.name} takes no ssh: {(host.files / 'log').read_text()}")
            time.sleep(0.2)


@contextmanager
def running_hosts(environments: Mapping[str, Mapping[str, str]]) -> Iterator[Hosts]:
    """Yields hosts of these names; each has the variables that are set in its ssh sessions."""
    missing = {package for name, package in PROGRAMS.items() if not shutil.which(name)}
    if missing:
        pytest.fail(f"This test needs the Debian packages {', '.join(sorted(missing))}.")
    if os.geteuid():
        pytest.fail("This test makes network namespaces, for which it must run as root.")
    with Hosts(environments).running() as hosts:
        yield hosts


def _remove_leftovers() -> None:
    """Removes what killed tests have left; their hosts have died with them."""
    for path in [*Path("/run/netns").glob("hsearch-*"), *Path("/var/tmp").glob("hsearch-*")]:
        if not Path("/proc", path.name.split("-")[1]).exists():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                _run("ip", "netns", "del", path.name)


def _child_of(process: "subprocess.Popen[bytes]") -> int:
    """The first process of the new namespace, once there is one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if text := children.read_text().split():
            return int(text[0])
        time.sleep(0.05)
    pytest.fail("The namespaces of a host could not be made; does this machine allow them?")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
