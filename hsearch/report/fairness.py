"""The fairness audit: whatever was not the same for all methods of a leaderboard, in words.

Knobs of the methods, and settings that every study searches, are meant to differ and are left out.
"""

from collections.abc import Callable, Iterator, Sequence

from hsearch.methods import load_method
from hsearch.report.entrant import Entrant
from hsearch.report.values import Finding
from hsearch.results import FoldResult
from hsearch.spec import TrainingSpec
from hsearch.words import plural, typed

# Topic -> dotted names of settings; a name that ends with a dot stands for all that begin with it,
# unless an earlier topic has them.
_SETTINGS = {
    "regime": ("model.regime", "model.lora_rank", "model.lora_alpha"),
    "backbone": ("model.backbone", "model.backbone_args", "model.frozen", "model.batch_norm"),
    "weights": ("model.weights",),
    "pooling and head": ("model.pooling", "model.head", "model.head_init"),
    "embedding size": ("model.embedding_dim",),
    "image size": ("image.resize", "image.crop"),
    "augmentation": ("image.",),
    "batch": ("batch.",),
    "optimiser": ("optimizer.",),
    "schedule": ("schedule.",),
    "stages": ("stages.",),
}


def audit(entrants: Sequence[Entrant], names: Sequence[str]) -> tuple[Finding, ...]:
    """Returns one finding per topic: the training first, then what search and runs have cost.

    Args:
        entrants: Of one leaderboard.
        names: Of their rows.
    """
    differing = _differing_settings(entrants)
    findings = [_setting_finding(topic, differing, entrants, names) for topic in _SETTINGS]
    for topic, verb, value in _FACTS:
        by_name = dict(zip(names, map(value, entrants), strict=True))
        same = len(set(by_name.values())) == 1
        words = f"All were {verb} with {by_name[names[0]]}." if same else told(by_name, verb)
        findings.append(Finding(topic=topic, same=same, words=words))
    findings.append(_versions(entrants, names))
    return (*findings, *_selection(entrants))


def told(values: dict[str, str], verb: str) -> str:
    """Returns a sentence such as `a and b were searched with 50 trials, c with 20 trials`."""
    groups = _by_value(values)
    be = "was" if len(next(iter(groups.values()))) == 1 else "were"
    parts = [f"{_listed(found)} with {value}" for value, found in groups.items()]
    first = parts[0].replace(" with ", f" {be} {verb} with ", 1)
    return f"{', '.join([first, *parts[1:]])}."


def _by_value(values: dict[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return groups


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _differing_settings(entrants: Sequence[Entrant]) -> dict[str, str]:
    """Returns the topic of every setting that differs and is not searched by all that have it."""
    first = entrants[0].job.training
    differing = {name for each in entrants[1:] for name in first.differences(each.job.training)}
    return {
        name: topic
        for name in sorted(differing)
        if (topic := _topic(name)) and not _searched_by_all(entrants, name)
    }


def _topic(name: str) -> str | None:
    exact = (topic for topic, keys in _SETTINGS.items() if _covers(name, keys))
    return next(exact, None)


def _covers(name: str, keys: Sequence[str]) -> bool:
    return any(name == key or name.startswith(key.rstrip(".") + ".") for key in keys)


def _searched_by_all(entrants: Sequence[Entrant], name: str) -> bool:
    having = [each for each in entrants if _setting(each.job.training, name) is not None]
    return all(name in each.study.spec.space for each in having)


def _setting(training: TrainingSpec, name: str) -> object:
    value: object = training.to_dict()
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _setting_finding(
    topic: str, differing: dict[str, str], entrants: Sequence[Entrant], names: Sequence[str]
) -> Finding:
    sentences = []
    for setting, found in differing.items():
        if found == topic:
            values = [_value_words(_setting(each.job.training, setting)) for each in entrants]
            groups = _by_value(dict(zip(names, values, strict=True)))
            parts = [f"{value} for {_listed(who)}" for value, who in groups.items()]
            sentences.append(f"{setting} is {', but '.join([parts[0], ', '.join(parts[1:])])}.")
    same = f"The same for all: {_summary(topic, entrants[0].job.training)}."
    return Finding(topic=topic, same=not sentences, words=" ".join(sentences) or same)


def _value_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(_parts(value)) or "empty"
    if isinstance(value, list):
        return str(value)
    return "not set" if value is None else typed(value)


def _parts(values: dict[str, object], before: str = "") -> Iterator[str]:
    """Nested values as `share 0.5`, `method.gamma 0.0`."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _parts(value, f"{before}{name}.")
        else:
            yield f"{before}{name} {_value_words(value)}"


def _summary(topic: str, training: TrainingSpec) -> str:
    """Returns the settings of a topic in a few words."""
    model, image, batch = training.model, training.image, training.batch
    schedule = training.schedule
    return {
        "backbone": f"{model.backbone}, batch norm {model.batch_norm}",
        "weights": model.weights,
        "pooling and head": f"{model.pooling} pooling, head {model.head}",
        "regime": model.regime,
        "embedding size": str(model.embedding_dim),
        "image size": f"{image.crop} pixels, cut from {image.resize}",
        "augmentation": f"{image.cropping} crops, flips with a chance of {image.flip:g}",
        "batch": plural(batch.size, "image"),
        "optimiser": training.optimizer.name,
        "stages": ", ".join([*training.stages, "the rest"]) if training.stages else "one",
        "schedule": f"at most {plural(schedule.epochs, 'epoch')}, learning rate {schedule.lr}",
    }[topic]


def _trials(entrant: Entrant) -> str:
    trials = entrant.study.trials
    complete = sum(trial.state == "complete" for trial in trials)
    return f"{plural(len(trials), 'trial')} ({complete} complete)"


def _search_cost(entrant: Entrant) -> str:
    return _cost([fold for trial in entrant.study.trials for fold in trial.folds.values()])


def _run_cost(entrant: Entrant) -> str:
    return _cost([fold for run in entrant.reproduction.runs for fold in run.folds.values()])


def _cost(folds: Sequence[FoldResult]) -> str:
    epochs = sum(len(fold.history) - 1 for fold in folds)  # epoch 0 is the untrained network
    return f"{plural(len(folds), 'training')} of {plural(epochs, 'epoch')} in all"


def _runs(entrant: Entrant) -> str:
    runs, complete = entrant.reproduction.runs, entrant.reproduction.complete
    failed = sum(run.state == "failed" for run in runs)
    return f"{plural(len(complete), 'complete run')}" + (f" ({failed} failed)" if failed else "")


def _seeds(entrant: Entrant) -> str:
    seeds = sorted(run.seed for run in entrant.reproduction.complete)
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"the seeds {seeds[0]} to {seeds[-1]}"
    return f"the seed{'' if len(seeds) == 1 else 's'} {_listed([str(seed) for seed in seeds])}"


def _views(entrant: Entrant) -> str:
    job = entrant.job
    views = job.training.batch.views or load_method(job.method.name).views
    return f"{plural(views, 'view')} of each image"


def _sampler(entrant: Entrant) -> str:
    spec = entrant.study.spec
    return f"the sampler {spec.sampler} and {'a' if spec.race else 'no'} race"


_FACTS: list[tuple[str, str, Callable[[Entrant], str]]] = [
    ("recipe", "trained", lambda each: f"the recipe {each.job.training.recipe}"),
    ("views", "trained", _views),
    ("objective", "searched", lambda e: f"the objective {e.study.score_title}"),
    ("sampler", "searched", _sampler),
    ("searched knobs", "searched", lambda each: plural(len(each.study.spec.space), "free knob")),
    ("trials", "searched", _trials),
    ("cost of the search", "searched", _search_cost),
    ("runs", "reproduced", _runs),
    ("seeds", "reproduced", _seeds),
    ("cost of the runs", "reproduced", _run_cost),
]


def _versions(entrants: Sequence[Entrant], names: Sequence[str]) -> Finding:
    versions = [each.reproduction.versions for each in entrants]
    packages = sorted({package for found in versions for package in found})
    differing = [p for p in packages if len({found.get(p) for found in versions}) > 1]
    if not differing:
        return Finding(topic="packages", same=True, words="All ran with the same versions.")
    words = {
        name: ", ".join(f"{package} {found.get(package, '(none)')}" for package in differing)
        for name, found in zip(names, versions, strict=True)
    }
    return Finding(topic="packages", same=False, words=told(words, "run"))


def _selection(entrants: Sequence[Entrant]) -> list[Finding]:
    """Returns a finding for every study whose best trial is no longer the reproduced one."""
    findings = []
    for entrant in entrants:
        best, spec = entrant.study.best, entrant.reproduction.spec
        if best is not None and best.number != spec.trial:
            words = (
                f"{spec.study} is shown by trial {spec.trial}, but its best one is now trial "
                f"{best.number}."
            )
            findings.append(Finding(topic=f"best trial of {spec.study}", same=False, words=words))
    return findings
