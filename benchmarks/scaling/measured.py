"""What is measured for real: processor time of calls, Tune with light trials, MLflow's server."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine, event

from hsearch.cluster.session import ray_session
from hsearch.search.study import Study
from hsearch.spec import FoldJob
from scaling.recorded import Recorded
from tests.cluster.searches import processes_of


class Stopwatch:
    """Seconds of this thread and of the database that works for it, and how it is called.

    Only processor time counts, so that neighbours on this machine do not; a SQLite file waits for
    its disk, so there every second counts.
    """

    def __init__(self) -> None:
        self.transactions = self.statements = 0
        self._servers: set[int] = set()
        self._whole = False

    def attach(self, study: Study) -> None:
        """Counts what the storage of a study does from now on."""
        self.attach_engine(study._storage._database.engine)

    def attach_engine(self, engine: Engine) -> None:
        """Counts what a database does from now on."""
        self._whole = engine.dialect.name == "sqlite"
        event.listen(engine, "checkout", self._checkout)
        event.listen(engine, "commit", lambda _: self._count("transactions"))
        event.listen(engine, "before_cursor_execute", lambda *_: self._count("statements"))

    def now(self) -> float:
        """Returns seconds from any moment."""
        if self._whole:
            return time.perf_counter()
        return time.thread_time() + sum(map(_seconds_on_processor, self._servers))

    def time(self, function: Callable[[], Any]) -> tuple[Any, float]:
        """Returns what a call returns, and its seconds."""
        began = self.now()
        answer = function()
        return answer, max(0.0, self.now() - began)

    def _count(self, what: str) -> None:
        setattr(self, what, getattr(self, what) + 1)

    def _checkout(self, connection: Any, *_: object) -> None:  # noqa: ANN401 (a driver's own)
        if info := getattr(connection, "info", None):
            self._servers.add(info.backend_pid)


def _seconds_on_processor(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        return 0.0


@dataclass(frozen=True)
class TuneCost:
    """What Ray Tune and the board add to the desk's own seconds, in a search with no training.

    Attributes:
        report: Processor seconds of the driver for each report of a light trial.
        start: Seconds from one light trial to the next while they are started.
        latency: Seconds from the end of a fold until the driver has its report.
        megabytes: Of one light process, of its own.
    """

    report: float
    start: float
    latency: float
    megabytes: float


class NoDesk:
    """A desk that costs nothing, so that what is left is Tune's."""

    def __init__(self, job: FoldJob, trials: int, at_once: int) -> None:
        self.job, self.trials, self.at_once = job, trials, at_once
        self.proposed, self.trouble, self.folds_ahead = 0, None, 1
        self.running: dict[int, int] = {}
        self.entered: list[tuple[float, float, float]] = []  # processor, moment, latency
        self.begun: list[float] = []

    def concurrency(self) -> int:
        return self.at_once

    @property
    def is_over(self) -> bool:
        return self.proposed >= self.trials

    def next_trial(self) -> SimpleNamespace | None:
        if self.is_over or len(self.running) >= self.at_once:
            return None
        self.running[self.proposed] = 4
        self.proposed += 1
        self.begun.append(time.time())
        return SimpleNamespace(number=self.proposed - 1, folds={}, job=self.job)

    def path(self, number: int, fold: int) -> str:
        return "nowhere"

    def enter(self, number: int, outcome: dict[str, str]) -> bool:
        now = time.time()
        self.entered.append((time.thread_time(), now, now - float(outcome["finished"])))
        self.running[number] -= 1
        ended = not self.running[number]
        if ended:
            del self.running[number]
        return ended


def tune_cost(job: FoldJob, recorded: Recorded, at_once: int) -> TuneCost:
    """Runs Tune for real over so many trials at once, three times as many in all."""
    with ray_session(None) as session:
        import ray

        from hsearch.cluster.board import Board, light
        from hsearch.cluster.tuning import run_tune
        from scaling.trainers import Trainers

        name = "scale"
        little = {"num_cpus": 0, "resources": light()}
        board = ray.remote(**little, max_concurrency=10_000)(Board).options(name=name).remote()
        trainers = ray.remote(**little)(Trainers).remote()
        work = trainers.work.remote(name, at_once, recorded.result(job, 0, 0))
        desk = NoDesk(job, 3 * at_once, at_once)
        sizes: list[float] = []

        def every_step() -> None:
            if ray.wait([work], timeout=0)[0]:
                ray.get(work)  # it goes on until the board is closed: what ended it is raised
            if not sizes and len(desk.entered) > at_once:
                sizes.extend(_sizes_of_light_processes())

        crew = SimpleNamespace(
            board=board,
            name=name,
            session=session,
            is_halted=lambda: False,
            every_step=every_step,
        )
        run_tune(desk, crew, threading.Event())  # type: ignore[arg-type]
        ray.get([board.close.remote(), work])
    later = desk.entered[len(desk.entered) // 2 :]
    starts = [b - a for a, b in zip(desk.begun, desk.begun[1:at_once], strict=False)]
    return TuneCost(
        report=(later[-1][0] - later[0][0]) / (len(later) - 1),
        start=statistics.fmean(starts),
        latency=statistics.median(latency for _, _, latency in later),
        megabytes=statistics.fmean(sizes) if sizes else float("nan"),
    )


def _sizes_of_light_processes() -> list[float]:
    """In megabytes, without what they share with others."""
    found = []
    for pid in processes_of(os.getpid(), "ImplicitFunc"):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            found.append(sum(int(line.split()[1]) for line in lines if "Private" in line) / 1e3)
    return found


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """Yields the address of MLflow's own server, on a SQLite file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(folder / "mlflow.log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        _wait_until_it_answers(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        for pid in processes_of(server.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.kill()
        server.wait(30)


def mlflow_seconds(folder: Path, metrics: int = 400) -> float:
    """Returns the seconds of a call to MLflow's server: the median over calls of ten trials."""
    from mlflow.entities import Metric

    from hsearch.tracking.writer import open_client

    with mlflow_server(folder) as address:
        client = open_client(address)
        experiment = client.create_experiment("scale")
        seconds = []
        for _ in range(10):
            began = time.perf_counter()
            run = client.create_run(experiment).info.run_id
            seconds.append(time.perf_counter() - began)
            points = [Metric(f"m{number % 40}", 0.5, 0, number // 40) for number in range(metrics)]
            began = time.perf_counter()
            client.log_batch(run, points)
            seconds.append(time.perf_counter() - began)
            began = time.perf_counter()
            client.set_terminated(run)
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _wait_until_it_answers(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.5)
    raise RuntimeError("MLflow's server did not start; see mlflow.log")
