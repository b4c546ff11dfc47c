"""The first process of a host (see hosts.py): its mounts, its name, its ssh server.

Arguments: the folder of its files, its name, and paths that stay visible although they lie below
what the host has of its own.
"""

import os
import signal
import subprocess
import sys

OWN = ("root", "tmp", "run", "var/lib")


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def main() -> None:
    files, name, *kept = sys.argv[1:]
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "-o", "size=2g", "tmpfs", "/dev/shm")
    mount("--bind", f"{files}/../hosts", "/etc/hosts")
    for number, path in enumerate(kept):
        os.makedirs(f"{files}/kept-{number}")
        mount("--rbind", path, f"{files}/kept-{number}")
    for own in OWN:
        mount("--bind", f"{files}/{own}", f"/{own}")
    for path, number in sorted((path, number) for number, path in enumerate(kept)):
        if not os.path.exists(path):  # else it lies in one that is there already
            os.makedirs(path)
            mount("--rbind", f"{files}/kept-{number}", path)
    subprocess.run(["hostname", name], check=True)
    os.chdir("/")
    subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", f"{files}/sshd_config"])
    while True:  # whoever loses its parent becomes a child of this process
        try:
            os.wait()
        except ChildProcessError:
            signal.pause()


if __name__ == "__main__":
    main()
