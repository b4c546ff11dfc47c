"""Samplers: seeded, silent, and at home in conditional spaces."""

import warnings
from typing import get_args

import optuna
import pytest

from hsearch.search.record import Sampler
from hsearch.search.sampling import STARTUP_TRIALS, make_sampler, sampler_for_trial

NAMES = get_args(Sampler)


def objective(trial: optuna.Trial) -> float:
    """Best at 0.1 of `kind` a, with a knob that only kind b has."""
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    kind = trial.suggest_categorical("kind", ["a", "b"])
    margin = trial.suggest_float("margin", 0.0, 1.0) if kind == "b" else 0.0
    return -abs(rate - 0.1) - 0.5 * (kind == "b") - 0.1 * margin


def search(name: Sampler, trials: int, seed: int = 0) -> list[dict[str, object]]:
    """A search with a fresh sampler per trial."""
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="s", direction="maximize")
    for number in range(trials):
        study.sampler = sampler_for_trial(name, seed, number, 0)
        trial = study.ask()
        study.tell(trial, objective(trial))
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("name", NAMES)
def test_samplers_are_made_without_a_word(name, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_sampler(name, 1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_proposes_the_same_and_another_one_not(name):
    count = STARTUP_TRIALS + 3
    first = search(name, count)
    assert search(name, count) == first
    assert search(name, count, seed=1) != first


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_models_find_the_better_half_of_a_conditional_space(name):
    late = search(name, STARTUP_TRIALS + 12)[-8:]
    assert sum(params["kind"] == "a" for params in late) >= 5


def test_another_attempt_for_a_trial_draws_other_knobs():
    drawn = []
    for attempt in range(2):
        study = optuna.create_study(sampler=sampler_for_trial("random", 0, 5, attempt))
        drawn.append(study.ask().suggest_float("rate", 0, 1))
    assert drawn[0] != drawn[1]
