"""What the next trial tries: published values, then start points, then the sampler.

The sampler works on a copy of the record in memory, so that the record itself only ever sees
whole trials and a proposal costs milliseconds.
"""

import heapq
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FixedTrial, FrozenTrial, TrialState, create_trial

from hsearch.errors import ConfigError
from hsearch.methods import load_method
from hsearch.search.domain import Choices, Interval
from hsearch.search.reading import LOST
from hsearch.search.record import StudySpec
from hsearch.search.sampling import sampler_for_trial
from hsearch.search.space import SearchSpace
from hsearch.spec import FoldJob, KnobValue
from hsearch.training.optimizer import learning_rates
from hsearch.training.resolve import with_knobs

NEWEST_SHOWN, BEST_SHOWN = 500, 25  # ended trials that a sampler sees in a long study

ATTEMPTS = 50  # proposals for one trial, where ranges allow knobs that do not fit together

MOVED = ", with "  # in a source, before what was moved inside the ranges

_NAME, _ID = "copy", 0  # of the one study of the copy


@dataclass(frozen=True)
class Proposal:
    """Knobs to try.

    Attributes:
        source: Who proposes them.
        knobs: By dotted name.
        distributions: Optuna's form of each knob's range.
        job: Fold 0 with these knobs.
        system_attrs: What Optuna's sampler must find again in a resumed study.
    """

    source: str
    knobs: dict[str, KnobValue]
    distributions: dict[str, BaseDistribution]
    job: FoldJob
    system_attrs: Mapping[str, object]


class _Copy(InMemoryStorage):
    """Shows a sampler the trials that it can weigh in good time.

    Those are all that run, the newest that have ended, and the best of the others, which TPE
    models the good part of the space by; to it, what is old counts little anyway.
    """

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Returns the trials that are shown."""
        trials = super().get_all_trials(study_id, deepcopy, states)
        ended = [trial for trial in trials if trial.state.is_finished()]
        if len(ended) <= NEWEST_SHOWN:
            return trials
        old = [t for t in ended[:-NEWEST_SHOWN] if t.state == TrialState.COMPLETE]
        best = heapq.nlargest(BEST_SHOWN, old, key=lambda trial: (trial.value, -trial.number))
        shown = {trial.number for trial in (*best, *ended[-NEWEST_SHOWN:])}
        return [t for t in trials if t.number in shown or not t.state.is_finished()]

    def all_trials(self) -> list[FrozenTrial]:
        """Returns all trials, by number."""
        return super().get_all_trials(_ID, deepcopy=False)


class Proposer:
    """Proposes the trials of a study.

    Args:
        spec: Of the study.
        space: What is searched.
    """

    def __init__(self, spec: StudySpec, space: SearchSpace) -> None:
        self._spec, self._space = spec, space
        self._given = _values_of_conditions(spec.job, space)
        self._first = first_proposals(spec.job, space, self._given)
        self._seen: dict[int, FrozenTrial] = {}
        self._start_copy()

    def remember(self, trial: FrozenTrial) -> None:
        """Takes note of a trial of the record: each one when it is recorded, and at its end."""
        self._seen[trial.number] = self._as_the_sampler_sees(trial)
        copied = self._copied()
        if trial.number < len(copied):
            if trial.state.is_finished() and not copied[trial.number].state.is_finished():
                key, now = copied[trial.number]._trial_id, self._seen[trial.number]
                for step, value in now.intermediate_values.items():
                    self._copy.set_trial_intermediate_value(key, step, value)
                self._copy.set_trial_state_values(key, now.state, now.values)
        else:
            self._copy.create_new_trial(_ID, self._seen[trial.number])

    def propose(self) -> Proposal:
        """Returns what the trial after the remembered ones tries."""
        number = len(self._seen)
        if number < len(self._first):
            return self._first[number]
        reason = ""
        for attempt in range(ATTEMPTS):
            if len(self._copied()) > number:  # a proposal that was not recorded
                self._start_copy()
            sampler = sampler_for_trial(self._spec.sampler, self._spec.job.seed, number, attempt)
            study = optuna.load_study(study_name=_NAME, storage=self._copy, sampler=sampler)
            trial = study.ask()
            knobs = self._space.suggest(trial, self._given)
            try:
                job = with_knobs(self._spec.job, knobs)
            except ConfigError as error:
                reason = str(error)
                continue
            asked = self._copy.get_trial(trial._trial_id)
            return Proposal(self._spec.sampler, knobs, asked.distributions, job, asked.system_attrs)
        raise ConfigError(f"{ATTEMPTS} proposals in a row could not be used; the last: {reason}")

    def _start_copy(self) -> None:
        self._copy = _Copy()
        self._copy.create_new_study([StudyDirection.MAXIMIZE], _NAME)
        for number in sorted(self._seen):
            self._copy.create_new_trial(_ID, self._seen[number])

    def _copied(self) -> list[FrozenTrial]:
        return self._copy.all_trials()

    def _as_the_sampler_sees(self, trial: FrozenTrial) -> FrozenTrial:
        """The trial without its results.

        A Gaussian process learns from complete trials alone, so it gets a lost one with the mean
        that it would have had by staying as far behind the best trial on the other folds.
        """
        state, value = trial.state, trial.values[0] if trial.values else None
        if self._spec.sampler == "gp" and state == TrialState.PRUNED:
            state, value = TrialState.COMPLETE, trial.user_attrs[LOST]["expected"]
        return create_trial(
            state=state,
            value=value,
            params=trial.params,
            distributions=trial.distributions,
            system_attrs=trial.system_attrs,
            intermediate_values=trial.intermediate_values,
        )


def first_proposals(
    job: FoldJob, space: SearchSpace, given: Mapping[str, KnobValue] | None = None
) -> list[Proposal]:
    """Returns the published values and then the start points, each set of knobs once.

    A knob that a point does not name has the value of the job, which are the published ones and
    the recipe's; a value outside the searched range is moved to the nearest one inside, and the
    source says so.
    """
    given = _values_of_conditions(job, space) if given is None else given
    found: list[Proposal] = []
    for proposal in _all_points(job, space, given):
        if not any(proposal.knobs == earlier.knobs for earlier in found):
            found.append(proposal)
    return found


def points_that_coincide(job: FoldJob, space: SearchSpace) -> list[tuple[str, str]]:
    """Returns start points that are another one once they are moved inside the ranges.

    Each is a pair of its own source and that of the earlier point.
    """
    found: list[tuple[str, str]] = []
    seen: list[Proposal] = []
    for proposal in _all_points(job, space, _values_of_conditions(job, space)):
        same = next((other for other in seen if other.knobs == proposal.knobs), None)
        if same is None:
            seen.append(proposal)
        elif MOVED in proposal.source:
            source, _, where = proposal.source.partition(MOVED)
            found.append((f"{source} ({where})", same.source))
    return found


def _all_points(
    job: FoldJob, space: SearchSpace, given: Mapping[str, KnobValue]
) -> Iterator[Proposal]:
    base = {knob.name: value_in(job, knob.name) for knob in space.knobs}
    points = [("published", base)]
    points += [(point.source, base | dict(point.values)) for point in space.start]
    distributions = space.distributions()
    for source, wanted in points:
        inside = {knob.name: _nearest(knob.domain, wanted[knob.name]) for knob in space.knobs}
        knobs = space.suggest(FixedTrial(inside), given)
        moved = [f"{n} {v} instead of {wanted[n]}" for n, v in knobs.items() if v != wanted[n]]
        text = f"{source}{MOVED}{', '.join(moved)}" if moved else source
        drawn = {name: distributions[name] for name in knobs}
        yield Proposal(text, knobs, drawn, with_knobs(job, knobs), {})


def value_in(job: FoldJob, name: str) -> KnobValue | None:
    """Returns what a job uses for a setting of that dotted name; null where it uses nothing."""
    section, *inner = name.split(".")
    if section == "stages":
        return _value_in_stage(job, *inner)
    if section == "method":
        return job.method.knobs[inner[0]]
    if inner[0] == "lr" and section == "optimizer":
        return learning_rates(job.training.optimizer, load_method(job.method.name))[inner[1]]
    value: KnobValue | None = getattr(getattr(job.training, section), inner[0])
    return value


def _value_in_stage(job: FoldJob, stage: str, *setting: str) -> KnobValue | None:
    names = list(job.training.stages)
    if stage not in names:
        return None
    if setting == ("share",):
        return job.training.stages[stage].share
    return value_in(job.stages()[names.index(stage)].job, ".".join(setting))


def _values_of_conditions(job: FoldJob, space: SearchSpace) -> dict[str, KnobValue]:
    """The job's values of all knobs that conditions name and that are not searched."""
    searched = {knob.name for knob in space.knobs}
    named = {name for knob in space.knobs for name in knob.when} - searched
    values = {name: value_in(job, name) for name in sorted(named)}
    return {name: value for name, value in values.items() if value is not None}


def _nearest(domain: Interval | Choices, value: KnobValue | None) -> KnobValue:
    if isinstance(domain, Choices):
        return value if value is not None and value in domain.values else domain.values[0]
    if value is None or isinstance(value, str):
        return domain.low
    inside = min(max(value, domain.low), domain.high)
    if domain.step is not None:
        inside = domain.low + round((inside - domain.low) / domain.step) * domain.step
    return inside
