"""Who proposes knobs: Optuna's samplers, seeded anew for every proposal.

A sampler's own random state is not recorded, so each proposal has a fresh sampler whose seed
follows from the study's seed and the trial's number: a resumed study proposes the same.
"""

import warnings

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from hsearch.search.record import Sampler
from hsearch.seeds import seed_for

# Trials before the model takes over, the published values and start points among them. Optuna's
# ten would be half of a small study.
STARTUP_TRIALS = 8


def make_sampler(name: Sampler, seed: int) -> BaseSampler:
    """Returns a fresh sampler.

    Args:
        name: `tpe` models all knobs of a group together, a group being the knobs that appear
            together, and counts running trials as bad ones, so that parallel proposals differ.
            `gp` models the knobs that all trials have; those with a condition are drawn by TPE.
            `random` draws from the ranges.
        seed: Of all its draws, 32 bits.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match name:
            case "tpe":
                return _tpe(seed)
            case "gp":
                return GPSampler(
                    seed=seed,
                    n_startup_trials=STARTUP_TRIALS,
                    independent_sampler=_tpe(seed),
                    warn_independent_sampling=False,
                )
            case "random":
                return RandomSampler(seed=seed)


def sampler_for_trial(name: Sampler, study_seed: int, number: int, attempt: int) -> BaseSampler:
    """Returns the sampler of one proposal of a study.

    Args:
        name: Which sampler.
        study_seed: Root of all draws of the study.
        number: Of the trial.
        attempt: From 0; above when earlier proposals for this trial could not be used.
    """
    return make_sampler(name, seed_for(study_seed, "sampler", number, attempt))


def _tpe(seed: int) -> TPESampler:
    return TPESampler(
        seed=seed,
        n_startup_trials=STARTUP_TRIALS,
        multivariate=True,
        group=True,
        constant_liar=True,
    )
