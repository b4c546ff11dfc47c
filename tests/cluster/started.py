"""Programs of tests as processes of their own, forked from one that has imported what they need."""

import atexit
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.cluster.ready_python import SETTING, make_ready_python
from tests.processes import ready_processes


class Started:
    """A process that runs a function as if it were a program, with what Popen has for it.

    Args:
        function: The program; it must be importable.
        arguments: Of the function.
        folder: Working directory.
        output: File that gets all that it prints.
        environment: Beside the variables of this process.
    """

    def __init__(
        self,
        function: Callable[..., None],
        *arguments: object,
        folder: Path,
        output: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        place = (str(folder), str(output), {**os.environ, **SETTING, **(environment or {})})
        self._process = ready_processes().Process(target=_run, args=(function, arguments, *place))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        self._process.join(seconds)
        assert self.returncode is not None, f"it has not ended within {seconds} s"
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(
    function: Callable[..., None],
    arguments: tuple[object, ...],
    folder: str,
    output: str,
    environment: dict[str, str],
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(written)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.executable = make_ready_python(Path(folder))
    try:
        function(*arguments)
    finally:
        atexit._run_exitfuncs()
