"""A Python for Ray whose daemons and workers are forked from one that has imported much.

Most of the time of a short search goes into the imports of its fifteen processes. Ray's own code
runs in them as ever, but their parent is a process of the test, and not the driver or the raylet.
Any other program is run by the real Python.
"""

import array
import atexit
import ctypes
import importlib.util
import json
import os
import runpy
import secrets
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

PARENT_DIED = 1  # prctl's PR_SET_PDEATHSIG

# Ray's agents then learn from their standard input that the raylet is gone, not from their parent.
SETTING = {"RAY_enable_pipe_based_agent_to_parent_health_check": "1"}

# Sends what it was asked to run, with its files, and lives as long as the process that runs it.
CLIENT = """\
#!{python} -IS
import array, json, os, signal, socket, sys
script = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
if script.startswith({ray!r}):
    try:
        server = socket.socket(socket.AF_UNIX)
        server.connect({address!r})
    except OSError:
        pass
    else:
        blocked = [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])]
        command = sys.argv[sys.argv.index(script):]
        body = json.dumps([command, dict(os.environ), os.getcwd(), blocked])
        files = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
        server.sendmsg([len(body).to_bytes(8, "big")], [files])
        server.sendall(body.encode())
        server.recv(1)
        sys.exit(0)
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


def make_ready_python(folder: Path) -> str:
    """Forks the server of this process, and returns the path of a Python that asks it."""
    address = f"\0hsearch-{os.getpid()}-{secrets.token_hex(4)}"
    path = folder / f".ready-{os.getpid()}" / "python"
    path.parent.mkdir(exist_ok=True)
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.submodule_search_locations
    (ray,) = spec.submodule_search_locations
    path.write_text(CLIENT.format(python=sys.executable, address=address, ray=f"{ray}/"))
    path.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    parent, server = os.getpid(), os.fork()
    if server == 0:
        ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        _serve(listener)
    listener.close()
    atexit.register(_end, server)
    return str(path)


def _end(server: int) -> None:
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)


def _serve(listener: socket.socket) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the group gets them, but they are for workers
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _be_python(client)
        client.close()


def _be_python(client: socket.socket) -> None:
    """Runs what the client asks for, as long as the client lives, which lives as long as this."""
    code = 1
    try:
        arguments, environment, folder, blocked = _receive(client)
        sys.stdin = os.fdopen(0, closefd=False)  # that of a forked process reads nothing
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        threading.Thread(target=_end_with, args=(client,), daemon=True).start()  # with this mask
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        if os.path.basename(arguments[0]) == "setup_worker.py":
            arguments = _set_up(arguments)
        sys.argv = arguments
        sys.path[0] = os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except EOFError:
        pass  # who asked is gone
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _receive(client: socket.socket) -> Any:
    files = array.array("i")
    length, ancillary, _, _ = client.recvmsg(8, socket.CMSG_LEN(3 * files.itemsize))
    if len(length) < 8:
        raise EOFError
    files.frombytes(ancillary[0][2])
    body = b""
    while len(body) < int.from_bytes(length, "big"):
        part = client.recv(1 << 16)
        if not part:
            raise EOFError
        body += part
    for standard, given in enumerate(files):
        os.dup2(given, standard)
        os.close(given)
    return json.loads(body)


def _end_with(client: socket.socket) -> None:
    client.recv(1)
    os._exit(1)


def _set_up(arguments: list[str]) -> list[str]:
    """Does as Ray's setup_worker.py does, but for starting Python anew."""
    from ray._private.runtime_env.context import RuntimeEnvContext
    from ray._private.utils import update_envs
    from ray._private.workers.setup_worker import parser

    known, rest = parser.parse_known_args(arguments[1:])
    context = RuntimeEnvContext.deserialize(known.serialized_runtime_env_context)
    assert not context.command_prefix
    update_envs(context.env_vars)
    return list(rest)
