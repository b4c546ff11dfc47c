"""How many worker groups one driver keeps busy: recorded trainings replayed in virtual time.

    python benchmarks/scale.py [--quick] [--check] [--storage sqlite] [--fold-seconds 300]

Real: searcher, scheduler, desk, study, race, TPE, the Optuna storage (PostgreSQL by default) and
the projection to MLflow. Virtual: groups, which replay `fold_race/glyphs.json` (the recorded
configuration that is nearest to a trial's knobs), and the clock. The driver is one server: each of
its calls takes the processor seconds that it really took, its own and the database's, and what the
thread for MLflow computes delays it too.

Measured in the same run: what Tune adds to a report, how long a light trial takes to start, its
memory, and how long an outcome is under way, by a real Tune run with 16 light trials (as many as a
search on 512 groups has, so that nothing of it is extrapolated); and the seconds of a
call to MLflow's own server. With --quick only two trials, and MLflow's seconds are those of
earlier runs. Not modelled: the network between machines, and processors that the database, the
board and the head's other processes would take from the driver.

Utilisation: of the steady part, from when every group has had its first fold until the last trial
is proposed. To best: until a complete trial is within 1 % of the best recorded configuration. Peer:
Ray's own OptunaSearch in the same simulation, one process per trial that trains all its folds.
"""

import argparse
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tests' way to start PostgreSQL

from optuna.storages import RDBStorage
from scaling.drivers import MlflowThread, OurDriver, PeerDriver
from scaling.measured import Stopwatch, TuneCost, mlflow_seconds, tune_cost
from scaling.recorded import Recorded
from scaling.virtual import Cluster, Seen

from hsearch.search.plan import StudyPlan, plan_study
from hsearch.search.storage import storage_url
from hsearch.search.study import Study

TABLE = Path(__file__).parent / "fold_race" / "glyphs.json"
TARGET = 0.90
GROUPS = [2**power for power in range(10)]
PEER_GROUPS = [8, 64, 512]
QUICK_GROUPS, QUICK_PEER_GROUPS = [1, 16], [16]
FEWEST_TRIALS, TRIALS_PER_GROUP = 16, 3
PEER_TRIALS_PER_GROUP = 1.25
EARLIER_MLFLOW_SECONDS = 0.12


@dataclass
class Bench:
    """What all simulations share."""

    plan: StudyPlan
    recorded: Recorded
    cost: TuneCost
    call_seconds: float
    url: str
    folder: Path


@dataclass
class Row:
    """One line of the table."""

    seen: Seen
    trials: int
    storage_calls: float
    transactions: float
    mlflow_calls: float = 0.0
    mlflow_lag: float = 0.0

    def __str__(self) -> str:
        seen, (begin, end) = self.seen, self.seen.steady
        best = "never" if seen.to_best is None else f"{seen.to_best / 3600:.2f}"
        return (
            f"{seen.groups:>6}{self.trials:>8}{len(seen.spans):>7}{100 * seen.utilisation:>9.1f}"
            f"{best:>9}{100 * seen.driver_share:>9.1f}{seen.wait_95:>9.2f}{self.transactions:>8.2f}"
            f"{self.storage_calls:>8.1f}{self.mlflow_calls:>9.2f}{self.mlflow_lag:>8.1f}"
            f"{begin:>8.0f}{seen.end - end:>8.0f}"
        )


HEAD = (
    f"{'groups':>6}{'trials':>8}{'folds':>7}{'utilis.%':>9}{'to best':>9}{'driver':>9}{'p95 of':>9}"
    f"{'trans-':>8}{'state-':>8}{'MLflow':>9}{'its lag':>8}{'start':>8}{'end':>8}\n"
    f"{'':>30}{'hours':>9}{'busy %':>9}{'waits s':>9}{'act./s':>8}{'ments/s':>8}{'calls/s':>9}"
    f"{'p95 s':>8}{'s':>8}{'s':>8}"
)


def simulate(bench: Bench, groups: int, trials: int) -> Row:
    """Runs hsearch's driver over so many virtual groups."""
    stopwatch = Stopwatch()
    study = Study.open(f"ours-{groups}", bench.url, bench.plan.spec, bench.plan.space)
    study.take_over()
    stopwatch.attach(study)
    cluster = Cluster(groups, bench.recorded, bench.cost, stopwatch)
    driver = OurDriver(cluster, study, trials, bench.folder)
    cluster.driver = driver
    mlflow = MlflowThread(cluster, driver, bench.call_seconds)
    seen = cluster.run()
    study.close()
    if driver.desk.trouble is not None:
        raise driver.desk.trouble
    lags = [lag for _, lag in mlflow.lags]
    return Row(
        seen,
        trials,
        stopwatch.statements / seen.end,
        stopwatch.transactions / seen.end,
        mlflow.client.count / seen.end,
        statistics.quantiles(lags, n=20)[-1],
    )


def simulate_peer(bench: Bench, groups: int, trials: int) -> Row:
    """Runs OptunaSearch over so many virtual groups."""
    stopwatch = Stopwatch()
    storage = RDBStorage(storage_url(bench.url).render_as_string(hide_password=False))
    stopwatch.attach_engine(storage.engine)
    cluster = Cluster(groups, bench.recorded, bench.cost, stopwatch)
    cluster.driver = PeerDriver(cluster, bench.plan.space, storage, trials, f"peer-{groups}")
    seen = cluster.run()
    storage.engine.dispose()
    return Row(seen, trials, stopwatch.statements / seen.end, stopwatch.transactions / seen.end)


def draw(ours: list[Row], peers: list[Row], path: Path) -> None:
    """Utilisation and time to best against the number of groups, with the limits."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 7), dpi=100, sharex=True)
    for rows, name in ((ours, "hsearch"), (peers, "Tune's OptunaSearch, no fold race")):
        groups = [row.seen.groups for row in rows]
        upper.plot(groups, [100 * row.seen.utilisation for row in rows], "o-", label=name)
        found = [row for row in rows if row.seen.to_best is not None]
        hours = [(row.seen.to_best or 0.0) / 3600 for row in found]
        lower.plot([row.seen.groups for row in found], hours, "o-", label=name)
    groups = [row.seen.groups for row in ours]
    busy = [100 * row.seen.driver_share for row in ours]
    upper.plot(groups, busy, "s:", color="grey", label="hsearch's driver, busy")
    upper.axhline(100 * TARGET, color="red", linewidth=0.8, label=f"target, {100 * TARGET:.0f} %")
    upper.set_ylabel("% of the time")
    upper.set_ylim(0, 102)
    first = ours[0].seen.to_best
    if first is not None:
        ideal = [first / 3600 / count for count in groups]
        lower.plot(groups, ideal, ":", color="grey", label="one group's time / groups")
    lower.set_ylabel("hours until a trial is within 1 % of the best")
    lower.set_yscale("log")
    lower.set_xscale("log", base=2)
    lower.set_xticks(groups, [str(count) for count in groups])
    lower.set_xlabel("worker groups")
    upper.legend(loc="lower left")
    lower.legend(loc="upper right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


@contextmanager
def storage(kind: str, folder: Path) -> Iterator[str]:
    """Yields a storage: a PostgreSQL of its own, or a SQLite file."""
    if kind == "sqlite":
        yield str(folder / "hsearch.db")
        return
    from tests.search.postgres import postgres_server

    with postgres_server() as url:
        yield url


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="under a minute: few groups")
    parser.add_argument("--check", action="store_true", help="exit 1 if the target is missed")
    parser.add_argument("--storage", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--fold-seconds", type=float, default=300.0, help="of the mean fold")
    parser.add_argument("--groups", type=int, nargs="+", help="instead of 1, 2, 4, ..., 512")
    parser.add_argument("--out", type=Path, help="by default scale.png beside this file")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Define-by-run function")  # Ray's, on slow machines
    sizes = options.groups or (QUICK_GROUPS if options.quick else GROUPS)
    peer_sizes = [g for g in (QUICK_PEER_GROUPS if options.quick else PEER_GROUPS) if g in sizes]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["HSEARCH_DATA"] = temporary
        plan = plan_study(method="hpl", data="glyphs", recipe="small", settings={})
        recorded = Recorded(TABLE, plan.space, options.fold_seconds)
        calls = EARLIER_MLFLOW_SECONDS if options.quick else mlflow_seconds(folder)
        cost = tune_cost(plan.spec.job, recorded, 2 if options.quick else 16)
        print(
            f"Tune: {1000 * cost.report:.0f} ms of the driver per report, {cost.start:.1f} s to "
            f"start a light trial of {cost.megabytes:.0f} MB, {1000 * cost.latency:.0f} ms from a "
            f"fold's end to its report; MLflow: {1000 * calls:.0f} ms a call"
        )
        with storage(options.storage, folder) as url:
            bench = Bench(plan, recorded, cost, calls, url, folder / "networks")
            ours = []
            for groups in sizes:
                trials = max(FEWEST_TRIALS, TRIALS_PER_GROUP * groups)
                ours.append(simulate(bench, groups, trials))
                print(f"{HEAD}\n{ours[-1]}" if groups == sizes[0] else ours[-1], flush=True)
            peers = []
            print("\nTune's OptunaSearch, no fold race")
            for groups in peer_sizes:
                trials = round(PEER_TRIALS_PER_GROUP * groups)
                peers.append(simulate_peer(bench, groups, trials))
                print(peers[-1], flush=True)
    if options.out or not options.quick:
        draw(ours, peers, options.out or Path(__file__).with_suffix(".png"))
    last = ours[-1].seen
    print(
        f"\nscale: {100 * last.utilisation:.1f} % of {last.groups} groups busy with folds of "
        f"{options.fold_seconds:g} s (target {100 * TARGET:.0f} %)"
    )
    return int(options.check and last.utilisation < TARGET)


if __name__ == "__main__":
    sys.exit(main())
