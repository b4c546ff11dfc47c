"""From `ray up` to `ray down` on hosts of their own: DDP across hosts, one of which is cut off."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from hsearch.data.store import Store
from tests.breakpoints import Breakpoint
from tests.cluster.hosts import Host, Hosts, running_hosts
from tests.cluster.searches import QUICK, scores, wait_until

PROJECT = Path(__file__).parents[2]
WORKERS = {"one": 2, "two": 1, "three": 1}  # CPUs: of two groups of two ranks one spans two hosts
TRIALS = 2
S3_PORT = 9000
LIMIT_SECONDS = 600  # six hosts share the cores of this machine, maybe with other tests

# Of every ssh session, and so of all that `ray up` starts. Ray finds in seconds what it would find
# in a minute.
ENVIRONMENT = {
    "AUTOSCALER_HEARTBEAT_TIMEOUT_S": "10",
    "AUTOSCALER_UPDATE_INTERVAL_S": "2",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "PYTHONPATH": f"{PROJECT}/tests/startup:{PROJECT}",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
}


# Asks MLflow's server on the head, which nobody else can reach.
RUNS = (
    "import mlflow; c = mlflow.MlflowClient(); "
    "e = [each.experiment_id for each in c.search_experiments()]; "
    "print([(run.info.run_name, run.info.status) for run in c.search_runs(e)])"
)


class Desk:
    """The machine of the user, on which all commands are given."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.home = host.files / "root"
        self.output = self.home / "printed"

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Starts a command in its home folder; what it prints goes to `output`."""
        path = f"PATH={Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        own = ["env", "-i", "--chdir=/root", "HOME=/root", "USER=root", "LANG=C.UTF-8", path]
        token = ["RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH=/root/.hsearch/ray_token"]
        rest = [f"PYTHONPATH={PROJECT}", "RAY_USAGE_STATS_ENABLED=0", "RAY_COLOR_MODE=off"]
        with self.output.open("wb") as file:
            command = [*own, *token, *rest, *arguments]
            return self.host.start(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
            )

    def run(self, *arguments: str, seconds: float = LIMIT_SECONDS) -> str:
        """Runs a command to its end and returns what it printed."""
        code = self.start(*arguments).wait(seconds)
        assert code == 0, self.printed()
        return self.printed()

    def on_head(self, command: str) -> str:
        """Runs a command on the head node."""
        return self.run("ray", "exec", "cluster.yaml", command)

    def printed(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for(self, text: str, process: "subprocess.Popen[bytes]", times: int = 1) -> None:
        def is_there() -> bool:
            return self.printed().count(text) >= times

        self.wait_until(is_there, text, process)

    def wait_until(
        self, predicate: Callable[[], object], what: str, process: "subprocess.Popen[bytes]"
    ) -> None:
        try:
            wait_until(predicate, what, LIMIT_SECONDS, process)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.printed()}") from None


@contextmanager
def running_store(host: Host, data: Store) -> Iterator[str]:
    """An S3 server on a host of its own, with the data in it; yields what the cluster shares."""
    command = [sys.executable, "-m", "moto.server", "-H", host.address, "-p", str(S3_PORT)]
    server = host.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    put = (
        "import sys, urllib.request as u\n"
        "for path, body in (('bucket', None), ('bucket/hsearch/data/toy.arrow', sys.stdin.buffer"
        ".read())):\n"
        f"    url = 'http://{host.address}:{S3_PORT}/' + path\n"
        "    kind = {'Content-Type': 'application/octet-stream'}\n"
        "    u.urlopen(u.Request(url, body, kind, method='PUT'), timeout=30)\n"
    )
    probe = ["bash", "-c", f": < /dev/tcp/{host.address}/{S3_PORT}"]
    try:
        wait_until(lambda: not host.start(probe, stderr=subprocess.DEVNULL).wait(), "S3", 60)
        with data.path.open("rb") as file:
            assert host.start([sys.executable, "-c", put], stdin=file).wait(60) == 0
        yield "s3://bucket/hsearch"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def point() -> Iterator[Breakpoint]:
    """A breakpoint of trainings on all hosts, which share /var/tmp."""
    with tempfile.TemporaryDirectory(prefix=f"hsearch-{os.getpid()}-", dir="/var/tmp") as folder:
        yield Breakpoint(Path(folder))


@pytest.fixture
def hosts(point: Breakpoint) -> Iterator[Hosts]:
    s3 = {"AWS_ENDPOINT_URL": f"http://10.213.77.3:{S3_PORT}"}
    common = {**ENVIRONMENT, **point.environment, **s3}
    cpus = {"desk": 1, "head": 1, "store": 1, **WORKERS}
    environments = {
        name: {**common, "RAY_OVERRIDE_RESOURCES": json.dumps({"CPU": number})}
        for name, number in cpus.items()
    }
    with running_hosts(environments) as made:
        yield made


def tune_command() -> str:
    sets = " ".join(f"--set {key}={value}" for key, value in QUICK.items())
    return (
        f"hsearch tune --method proxy_nca --data toy --study toy {sets} --trials {TRIALS} "
        "--no-race --groups 2 --workers-per-fold 2 --address auto 2>&1 | cat"
    )


@pytest.mark.timeout(3600)
def test_a_cluster_from_ray_up_to_ray_down(hosts, point, toy_store):
    desk = Desk(hosts["desk"])
    with ExitStack() as stack:
        shared = stack.enter_context(running_store(hosts["store"], toy_store))
        workers = ",".join(hosts[name].address for name in WORKERS)
        desk.run(
            *("hsearch", "cluster", "init", "--provider=local", f"--shared={shared}"),
            *(f"--head-host={hosts['head'].address}", f"--worker-hosts={workers}"),
            *("--ssh-user=root", "--ssh-key=/root/.ssh/id_ed25519", "--worker-gpus=0"),
            f"--installed={sys.prefix}",
        )
        desk.run("ray", "up", "-y", "cluster.yaml")
        point.set(fold=2, epoch=2)
        search = stack.enter_context(desk.start("ray", "exec", "cluster.yaml", tune_command()))
        stack.callback(search.kill)
        desk.wait_for("2 worker groups at work, room for 2", search)
        desk.wait_for("  fold ", search, times=2)
        desk.wait_until(lambda: point.waiting() == 2, "both at the breakpoint", search)
        hosts.set_link("one", "down")
        desk.wait_for("A worker was lost while training", search)
        desk.wait_for("1 worker group at work, room for 1", search)
        point.set(trial=1, fold=2, epoch=2)
        desk.wait_for("  fold ", search, times=3)  # the others go on
        hosts.set_link("one", "up")
        desk.wait_for("2 worker groups at work, room for 2", search, times=2)
        point.clear()
        assert search.wait(LIMIT_SECONDS) == 0, desk.printed()

        record = json.loads(_json_in(desk.on_head("hsearch studies toy --json")))
        assert [trial["state"] for trial in record["trials"]] == ["complete"] * TRIALS
        for trial in record["trials"]:
            assert len(scores(trial)) == 4
            for fold in trial["folds"].values():
                assert [epoch["epoch"] for epoch in fold["history"]] == list(range(3))
                assert fold["ranks"] == 2
        runs = desk.on_head(f"{sys.executable} -c '{RUNS}'")
        assert runs.count("FINISHED") == TRIALS + 1, runs  # the study's and those of its trials

        desk.run("ray", "down", "-y", "cluster.yaml")
        left = [hosts[name] for name in ("head", *WORKERS)]
        with suppress(AssertionError):
            wait_until(lambda: not any(host.processes() for host in left), seconds=120)
        assert [host.processes() for host in left] == [[] for _ in left]


def _json_in(printed: str) -> str:
    """The JSON among what `ray exec` prints around it."""
    return printed[printed.index("{") : printed.rindex("}") + 1]
