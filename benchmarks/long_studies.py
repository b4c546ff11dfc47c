"""What a sampler that sees a part of a long study finds, beside one that sees all of it.

    python benchmarks/long_studies.py [--quick] [--check]

Above 500 ended trials hsearch shows its sampler the newest 500 and the best 25 of the others (see
`hsearch/search/proposal.py`); the peer is the same sampler with all trials. Both search hpl's space
for the top of a made-up hill, whose height is seen with noise. Regret: how far the best trial, by
the heights that were seen, is below the top; lower is better.
"""

import argparse
import statistics
import sys
import tempfile
import time
from unittest import mock

from optuna.trial import TrialState, create_trial
from scaling.recorded import share

import hsearch.search.proposal as proposal
from hsearch.search.domain import Choices
from hsearch.search.plan import StudyPlan, plan_study
from hsearch.seeds import rng_for
from hsearch.spec import KnobValue

TRIALS, SEEDS = 1500, 3
NOISE = 0.02
WAYS = {"hsearch": proposal.NEWEST_SHOWN, "all trials": 10**9}
WORST = 1.5  # times the regret of the peer


class Hill:
    """Heights of knobs: 0 at the top, which a seed moves, and lower with the squared distance."""

    def __init__(self, plan: StudyPlan, seed: int) -> None:
        self._domains = {knob.name: knob.domain for knob in plan.space.knobs}
        tops = rng_for(seed, "top").uniform(0.2, 0.8, len(self._domains))
        self._top = dict(zip(self._domains, tops, strict=True))
        self._noise = rng_for(seed, "noise")

    def height(self, knobs: dict[str, KnobValue]) -> float:
        """The true one; of choices, the first is the top and the others are half a range away."""
        return -sum(self._depth(name, value) for name, value in knobs.items())

    def _depth(self, name: str, value: KnobValue) -> float:
        domain = self._domains[name]
        if isinstance(domain, Choices):
            return 0.25 * (value != domain.values[0])
        return float((share(domain, value) - self._top[name]) ** 2)

    def seen(self, height: float) -> float:
        """The height as it is measured."""
        return height + float(self._noise.normal(0, NOISE))


def search(plan: StudyPlan, seed: int, trials: int, shown: int) -> tuple[list[float], float]:
    """Returns the regret after every trial, and the milliseconds of a late proposal."""
    spec = plan.spec.model_copy(
        update={"job": plan.spec.job.model_copy(update={"seed": seed}), "race": False}
    )
    hill = Hill(plan, seed)
    best = -float("inf")
    regrets: list[float] = []
    seconds: list[float] = []
    with mock.patch.object(proposal, "NEWEST_SHOWN", shown):
        proposer = proposal.Proposer(spec, plan.space)
        for number in range(trials):
            began = time.process_time()
            asked = proposer.propose()
            seconds.append(time.process_time() - began)
            height = hill.height(asked.knobs)
            seen = hill.seen(height)
            made = create_trial(
                state=TrialState.COMPLETE,
                value=seen,
                params=asked.knobs,
                distributions=asked.distributions,
                system_attrs=dict(asked.system_attrs),
            )
            made.number = number
            proposer.remember(made)
            regrets.append(-height if seen > best else regrets[-1])
            best = max(best, seen)
    return regrets, 1000 * statistics.fmean(seconds[-100:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds: says nothing")
    parser.add_argument("--check", action="store_true", help="exit 1 if the regret is much larger")
    options = parser.parse_args()
    trials, seeds = (60, 1) if options.quick else (TRIALS, SEEDS)
    moments = [trials // 3, 2 * trials // 3, trials]
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict("os.environ", HSEARCH_DATA=folder),
    ):
        plan = plan_study(method="hpl", data="glyphs", recipe="small", settings={})
    print(f"{'sees':<12}" + "".join(f"{f'regret at {m}':>18}" for m in moments) + f"{'ms':>8}")
    last = {}
    for name, shown in WAYS.items():
        runs = [search(plan, seed, trials, shown) for seed in range(seeds)]
        means = [statistics.fmean(regrets[m - 1] for regrets, _ in runs) for m in moments]
        milliseconds = statistics.fmean(each for _, each in runs)
        print(
            f"{name:<12}" + "".join(f"{mean:>18.4f}" for mean in means) + f"{milliseconds:>8.1f}",
            flush=True,
        )
        last[name] = means[-1], milliseconds
    (ours, fast), (theirs, slow) = last.values()
    print(
        f"\nlong_studies: regret {ours / theirs:.2f} x that of a sampler that sees all trials, "
        f"proposals {slow / fast:.1f} x as fast, after {trials} trials"
    )
    return int(options.check and ours > WORST * theirs)


if __name__ == "__main__":
    sys.exit(main())
