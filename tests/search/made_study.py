"""A small real search without training: scores follow from the knobs by a formula.

As a program it is a driver: `python -m tests.search.made_study STORAGE`, which ends only by a kill.
"""

import math
import subprocess
import sys
import time
from contextlib import closing

from hsearch.results import FoldResult
from hsearch.search.domain import Choices, Interval, KnobRange, StartPoint
from hsearch.search.record import Sampler, StudyRecord, StudySpec, TrialRecord
from hsearch.search.space import SearchSpace
from hsearch.search.study import Study
from hsearch.seeds import rng_for
from hsearch.spec import FoldJob
from tests.search.made_results import made_job, made_result

DIFFICULTY = (0.0, 0.08, -0.05, 0.03)

SPACE = SearchSpace(
    "hpl",
    (
        KnobRange("method.base", Choices(("proxy_anchor", "proxy_nca"))),
        KnobRange("method.fine_margin", Interval(0.0, 0.4), {"method.base": ("proxy_anchor",)}),
        KnobRange("method.fine_scale", Interval(4.0, 64.0, log=True)),
        KnobRange("optimizer.lr.proxies", Interval(1e-4, 1.0, log=True)),
    ),
    (
        StartPoint("a paper", {"method.base": "proxy_nca", "method.fine_scale": 9.0}),
        StartPoint("the same again", {"method.base": "proxy_nca", "method.fine_scale": 9.0}),
        StartPoint("the published values", {"method.base": "proxy_anchor"}),
    ),
    {},
)


def made_spec(
    space: SearchSpace = SPACE, *, sampler: Sampler = "tpe", race: bool = True, seed: int = 0
) -> StudySpec:
    texts = {knob.name: str(knob.domain) for knob in space.knobs}
    return StudySpec(job=made_job("hpl", seed), space=texts, sampler=sampler, race=race)


def formula(job: FoldJob) -> FoldResult:
    """The result of a job: best at a rate of 0.01 and a scale of 16; the same at every call."""
    rate = math.log10(job.training.optimizer.lr["proxies"])
    scale = math.log2(float(job.method.knobs["fine_scale"]))
    noise = rng_for(round(1e6 * abs(rate)), "noise", job.fold).normal(0, 0.003)
    quality = 0.5 - 0.05 * abs(rate + 2) - 0.02 * abs(scale - 4)
    return made_result(job, float(quality + DIFFICULTY[job.fold] + noise), epochs=1)


def fold_of(trial: TrialRecord, fold: int) -> FoldJob:
    return trial.job.model_copy(update={"fold": fold})


def finish(study: Study, trial: TrialRecord) -> TrialRecord:
    """Runs the folds that a running trial lacks, one after the other."""
    for fold in range(4):
        if trial.state == "running" and fold not in trial.folds:
            trial = study.record_fold(trial.number, formula(fold_of(trial, fold)))
    return trial


def search(study: Study, trials: int) -> StudyRecord:
    """Continues a study up to a number of trials, as a driver with one worker group does."""
    for trial in study.record().trials:
        if trial.state == "running":
            finish(study, trial)
    while len(study.record().trials) < trials:
        finish(study, study.propose())
    return study.record()


def outcome(record: StudyRecord) -> list[tuple[object, ...]]:
    """All that an interrupted search must share with an uninterrupted one: not the times."""
    return [
        (t.number, t.state, t.source, t.knobs, t.scores, t.reason, t.job) for t in record.trials
    ]


def kill_a_driver(storage: str, trials: int) -> None:
    """Starts a driver of its own, and kills it without warning in the midst of later trials."""
    command = [sys.executable, "-m", "tests.search.made_study", storage]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        try:
            for line in driver.stdout:
                if int(line) >= trials:
                    time.sleep(0.03)
                    break
        finally:
            driver.kill()


if __name__ == "__main__":
    endless = Study.open("s", sys.argv[1], made_spec(), SPACE)
    endless.take_over()
    for count in range(1, 1000):
        search(endless, count)
        sys.stdout.write(f"{count}\n")
        sys.stdout.flush()


def read(storage: str) -> StudyRecord:
    with closing(Study.load("s", storage)) as study:
        return study.record()
