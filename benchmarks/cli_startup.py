"""How long `hsearch --help` takes on a warm machine, and what it imports.

    python benchmarks/cli_startup.py [--quick] [--check]

Peers in the same run: the bare interpreter, and the interpreter with click alone, which is the
least that any click program can take. The programs take turns, so that a busy machine slows all of
them alike; the figure is the median.
"""

import argparse
import statistics
import subprocess
import sys
import time

TARGET_SECONDS = 0.5
PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    'python -c "import click"': ["-c", "import click"],
    "hsearch --version": ["-m", "hsearch", "--version"],
    "hsearch --help": ["-m", "hsearch", "--help"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="5 rounds instead of 30")
    parser.add_argument("--check", action="store_true", help="exit 1 if the target is missed")
    options = parser.parse_args()

    seconds = measure(rounds=5 if options.quick else 30)
    bare = statistics.median(seconds["python -c pass"])
    print(f"{'program':<26}{'median s':>10}{'fastest s':>11}{'slowest s':>11}{'over bare s':>13}")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(
            f"{name:<26}{median:>10.3f}{min(times):>11.3f}{max(times):>11.3f}{median - bare:>13.3f}"
        )

    print("\nSlowest imports of `hsearch --help`, with all they import in turn:")
    for milliseconds, module in slowest_imports()[:8]:
        print(f"{milliseconds:>8.1f} ms  {module}")

    figure = statistics.median(seconds["hsearch --help"])
    print(f"\ncli_startup: {figure:.3f} s (target {TARGET_SECONDS} s or less)")
    return int(options.check and figure > TARGET_SECONDS)


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall-clock seconds of every program, one list entry per round; a first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for number in range(rounds + 1):
        for name, arguments in PROGRAMS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def slowest_imports() -> list[tuple[float, str]]:
    """Cumulative milliseconds and name of every imported module, slowest first."""
    command = [sys.executable, "-X", "importtime", "-m", "hsearch", "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [line.split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    return sorted(
        (
            (int(total) / 1000, module.strip())
            for _, total, module in rows
            if total.strip().isdigit()
        ),
        reverse=True,
    )


if __name__ == "__main__":
    sys.exit(main())
