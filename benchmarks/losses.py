"""Time and memory of every method's loss beside a straightforward dense form of it (dense/).

Forward and backward of a batch of 256 images (twice as many rows for methods with two views) of
dimension 512, 4 per class, with 1,000 classes in 3 levels; one thread. Both forms must give the
same loss, not 0, and the same gradients in the features before they are timed; of methods that draw
random numbers (hier) the mean losses of a smaller batch are compared. They take turns, and the
figure is the median ratio of process times, which other work on the machine hardly moves.

Memory is the peak of what tensors hold beyond the inputs, summed from every allocation and release
that torch's own allocator reports: exact to the byte, whereas the growth of a process also shows
what it kept from before and what its memory allocator rounds up.
"""

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler talks about GPUs, found or not

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from dense import PEERS
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from hsearch.hierarchy import Hierarchy
from hsearch.methods import Setting, available_methods, check_knobs, knobs_of, load_method

Loss = Callable[[Tensor, Tensor], Tensor]

NOISE = 0.05  # by which two timings of the same code differ
SPEED, LOOP_SPEED, MEMORY = 1.0, 3.0, 0.25
LOOPS = ("hier", "himulcon")
BLOCKS = ("happier", "roadmap", "smooth_ap")
SPREAD = 3.0  # of images around their class, in units of the spread of classes
DRAWS = 16  # of methods that draw random numbers: their mean loss is compared


@dataclass(frozen=True)
class Size:
    """What is measured, and for how long."""

    batch: int
    dim: int
    fan_out: tuple[int, int, int]  # labels of the first level, then below each label
    seconds: float
    knobs: Mapping[str, int]  # other than the published ones, for methods that have them


FULL = Size(256, 512, (10, 10, 10), 4.0, {})
QUICK = Size(64, 64, (4, 5, 5), 0.3, {"num_lcas": 64})


@dataclass(frozen=True)
class Figures:
    """Seconds and bytes of our form and of the dense one, and the median ratio of times."""

    seconds: tuple[float, float]
    num_bytes: tuple[int, int]
    speed: float

    @property
    def memory(self) -> float:
        return self.num_bytes[0] / self.num_bytes[1]


@dataclass(frozen=True)
class Case:
    """One method with both forms of its loss and a batch."""

    name: str
    forms: tuple[Loss, Loss]
    embed: Callable[[Tensor], Tensor]
    features: Tensor
    labels: Tensor
    draws: bool

    def run(self, form: Loss) -> tuple[Tensor, Tensor]:
        """Returns the loss and its gradient in the features, which are embedded first."""
        x = self.features.clone().requires_grad_()
        loss = form(self.embed(x), self.labels)
        torch.autograd.backward(loss)
        assert x.grad is not None
        return loss.detach(), x.grad


def build(name: str, size: Size) -> Case:
    """Images lie so loosely around their classes that some pairs are hard and others are not."""
    generator = torch.Generator().manual_seed(0)
    paths = itertools.product(*(range(n) for n in size.fan_out))
    hierarchy = Hierarchy.from_names([tuple(map(str, path)) for path in paths])
    loss = load_method(name)
    given = {knob: value for knob, value in size.knobs.items() if knob in knobs_of(loss)}
    knobs = check_knobs(name, given)
    numbers = {knob: value for knob, value in knobs.items() if isinstance(value, int | float)}
    method = loss(Setting(hierarchy, (size.dim,), size.dim, generator), **knobs)
    chosen = torch.randperm(hierarchy.num_classes, generator=generator)[: size.batch // 4]
    classes = chosen.repeat_interleave(4).repeat(method.views)
    centres = torch.randn(hierarchy.num_classes, size.dim, generator=generator)
    noise = torch.randn(len(classes), size.dim, generator=generator)
    features = centres[classes] + SPREAD * noise
    labels = torch.tensor(hierarchy.paths)[classes]
    state = {**dict(method.named_parameters()), **dict(method.named_buffers())}

    def dense(x: Tensor, labels: Tensor) -> Tensor:
        return PEERS[name](state, numbers, x, labels)

    before = method.generator.get_state()
    method(method.embed(features), labels)
    draws = not torch.equal(before, method.generator.get_state())
    return Case(name, (method, dense), method.embed, features, labels, draws)


def check(case: Case) -> None:
    """Raises a ValueError if the two forms are not the same loss, on average if it is random."""
    if case.draws:
        means, errors = [], []
        for form in case.forms:
            losses = torch.stack([case.run(form)[0] for _ in range(DRAWS)])
            means.append(losses.mean())
            errors.append(losses.var() / DRAWS)
        same = bool((means[0] - means[1]).abs() <= 5.0 * (errors[0] + errors[1]).sqrt())
        found = f"mean losses {means}"
    else:
        (ours, gradient), (theirs, expected) = (case.run(form) for form in case.forms)
        same = torch.allclose(ours, theirs, rtol=1e-4) and bool(ours != 0)
        same &= bool((gradient - expected).abs().max() <= 1e-2 * expected.abs().max())
        found = f"losses {float(ours)} and {float(theirs)}"
    if not same:
        raise ValueError(f"The dense form of {case.name} is another loss: {found}.")


def measure(case: Case, seconds: float) -> Figures:
    """Times both forms by turns, three at least, and then runs each once for its memory."""
    times: list[tuple[float, float]] = []
    began = time.process_time()
    while len(times) < 3 or time.process_time() - began < seconds:
        ours, theirs = (_process_time(case, form) for form in case.forms)
        times.append((ours, theirs))
    speed = statistics.median(theirs / ours for ours, theirs in times)
    best = min(ours for ours, _ in times), min(theirs for _, theirs in times)
    ours, theirs = (peak_bytes(partial(case.run, form)) for form in case.forms)
    return Figures(best, (ours, theirs), speed)


def _process_time(case: Case, form: Loss) -> float:
    before = time.process_time()
    case.run(form)
    return time.process_time() - before


def peak_bytes(run: Callable[[], object]) -> int:
    """Returns the most bytes that tensors held at one time during a run, beyond those before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    assert recorded.profiler is not None
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return int(max(itertools.accumulate(event.nbytes() for event in events)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small batch, under a minute")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--method", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # dense forms draw from torch's global state
    size = QUICK if arguments.quick else FULL
    names = arguments.method or available_methods("retrieval")
    print(f"{'forward + backward':20}{'ms':>9}{'dense ms':>10}{'faster':>8}", end="")
    print(f"{'MB':>9}{'dense MB':>10}{'share':>7}")
    found = {}
    for name in names:
        if name not in PEERS:
            print(f"{name:20} has no dense form")
            continue
        case = build(name, size)
        check(build(name, QUICK) if case.draws else case)
        found[name] = measure(case, size.seconds)
        print(_row(name, found[name]), flush=True)
    return int(report(found) and arguments.check)


def _row(name: str, figures: Figures) -> str:
    ours, theirs = (1000 * seconds for seconds in figures.seconds)
    own, other = (num / 1e6 for num in figures.num_bytes)
    times = f"{name:20}{ours:9.1f}{theirs:10.1f}{figures.speed:7.1f}x"
    return f"{times}{own:9.1f}{other:10.1f}{figures.memory:7.2f}"


def report(found: dict[str, Figures]) -> bool:
    """Prints the worst figure of every target; returns whether one is missed."""
    missed = False
    for names, target in ((tuple(found), SPEED), (LOOPS, LOOP_SPEED)):
        speeds = {name: found[name].speed for name in names if name in found}
        if speeds:
            worst = min(speeds, key=speeds.__getitem__)
            missed |= speeds[worst] < target - NOISE
            print(f"losses/speed: {worst} {speeds[worst]:.2f}x (target {target:.0f}x)")
    shares = {name: found[name].memory for name in BLOCKS if name in found}
    if shares:
        worst = max(shares, key=shares.__getitem__)
        missed |= shares[worst] > MEMORY
        print(f"losses/memory: {worst} {shares[worst]:.3f} of the dense form's (target {MEMORY})")
    return missed


if __name__ == "__main__":
    sys.exit(main())
