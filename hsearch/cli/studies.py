"""`hsearch studies`: what was searched, and what came of it."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import storage_option
from hsearch.cli.output import print_table
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.search.record import StudyRecord, TrialRecord


@click.command()
@click.argument("name", required=False, metavar="[NAME[/TRIAL]]")
@storage_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def studies(name: str | None, storage: str, as_json: bool) -> None:
    """List the studies, or show one with its best knobs and all trials.

    NAME/7 or NAME/best shows one trial with its knobs.
    """
    from hsearch.search.study import study_names

    if name is not None and "/" in name and name not in study_names(storage):
        record, trial = find_trial(name, storage)
        if as_json:
            click.echo(json.dumps(trial.to_dict(), indent=2))
        else:
            _show_trial(record, trial)
        return
    if name is not None:
        record = read_record(name, storage)
        if as_json:
            click.echo(json.dumps(record.to_dict(), indent=2))
        else:
            _show(record, storage)
        return
    records = [read_record(found, storage) for found in study_names(storage)]
    if as_json:
        click.echo(json.dumps([record.to_dict() for record in records], indent=2))
    elif not records:
        click.echo("No study is recorded yet; `hsearch tune --method hpl` makes one.")
    else:
        _list(records)


def read_record(name: str, storage: str) -> "StudyRecord":
    """Returns a study as it is recorded now."""
    from hsearch.search.study import Study

    with closing(Study.load(name, storage)) as study:
        return study.record()


def find_trial(name: str, storage: str) -> "tuple[StudyRecord, TrialRecord]":
    """Returns the study and the trial that `STUDY/NUMBER` or `STUDY/best` names."""
    from hsearch.errors import ConfigError, did_you_mean

    study, slash, which = name.rpartition("/")
    if not slash or not study or not which:
        raise ConfigError(f"A trial must be named STUDY/NUMBER or STUDY/best, but got '{name}'.")
    record = read_record(study, storage)
    if which == "best":
        if record.best is None:
            raise ConfigError(
                f"No trial of {study} has finished all folds, so none is the best; name one by its "
                f"number, which `hsearch studies {study}` shows."
            )
        return record, record.best
    trials = {str(trial.number): trial for trial in record.trials}
    if which not in trials:
        raise ConfigError(
            f"{study} has no trial '{which}'; {did_you_mean(which, ['best', *trials])}"
        )
    return record, trials[which]


def _list(records: "list[StudyRecord]") -> None:
    from hsearch.cli.study_words import count_words, score_words

    records.sort(key=lambda r: (r.spec.job.data, r.spec.job.objective, -_best_score(r), r.name))
    rows = [
        (
            record.name,
            record.spec.job.method.name,
            record.spec.job.data,
            record.score_title,
            score_words(record.best) if record.best else "-",
            count_words(record.trials, searching=record.searching),
            f"{record.folds_trained} / {record.folds_saved}",
        )
        for record in records
    ]
    columns = ("study", "method", "data", "objective", "best", "trials", "folds trained / saved")
    print_table(columns, rows)
    click.echo()
    for record in records:
        if record.driver:
            click.echo(f"{record.name} is driven by {record.driver}.")
    click.echo("More about one of them: hsearch studies NAME")


def _best_score(record: "StudyRecord") -> float:
    return (record.best.score or 0.0) if record.best else -1.0


def _show(record: "StudyRecord", storage: str) -> None:
    from hsearch.cli.study_words import count_words, print_result

    spec, job = record.spec, record.spec.job
    schedule, objective = job.training.schedule, record.score_title
    facts = [
        ("method", job.method.name),
        ("data", job.data),
        ("recipe", f"{job.training.recipe}, at most {plural(schedule.epochs, 'epoch')}"),
        *([("levels", " > ".join(record.level_names))] if record.level_names else []),
        ("objective", objective),
        ("splits", f"{job.splits}, seed {job.seed}"),
        ("sampler", f"{spec.sampler}, {'with' if spec.race else 'without'} race"),
        ("trials", count_words(record.trials, searching=record.searching)),
        *([("driver", record.driver)] if record.driver else []),
        *((f"searched {name}", text) for name, text in spec.space.items()),
    ]
    print_table(("what", "value"), facts, title=f"Study {record.name}")
    click.echo()
    print_result(record)
    for sentence in _reproduced(record, storage):
        click.echo(sentence)
    columns = ("trial", objective, "folds", "state", "source")
    rows = [_row(trial, record.searching) for trial in record.trials]
    print_table(columns, rows, title="")
    if record.trials:
        click.echo(f"\nKnobs of one of them: hsearch studies {record.name}/TRIAL")


def _reproduced(record: "StudyRecord", storage: str) -> Iterator[str]:
    """Yields a sentence per reproduction of a study."""
    from hsearch.search.reproduced import PROTOCOLS
    from hsearch.search.reproduction import load_reproduction
    from hsearch.words import metric_title

    for protocol in PROTOCOLS:
        found = load_reproduction(record.name, protocol, storage)
        if found is not None and found.complete:
            kind, means = "separated", found.means("separated")
            metric = found.spec.objective({key: mean.mean for key, mean in means.items()})
            if protocol == "classic":
                kind = "one network"
            title = metric_title(metric, found.level_names or record.level_names)
            yield (
                f"Reproduced ({protocol}, trial {found.spec.trial}, "
                f"{plural(len(found.complete), 'run')}): {title} {means[metric]} on "
                f"the test images, {kind}; more with `hsearch compare {record.name}`."
            )


def _show_trial(record: "StudyRecord", trial: "TrialRecord") -> None:
    from hsearch.cli.study_words import print_trial, state_words

    state = state_words(trial, searching=record.searching)
    print_trial(trial, f"Trial {trial.number} of {record.name} ({trial.source}): {state}")


def _row(trial: "TrialRecord", searching: bool) -> tuple[str, ...]:
    from hsearch.cli.study_words import score_words, state_words

    folds = " ".join(f"{score:.4f}" for score in trial.scores)
    state = state_words(trial, searching=searching)
    return str(trial.number), score_words(trial), folds, state, trial.source
