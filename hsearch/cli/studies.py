"""`hsearch studies`: what was searched, and what came of it."""

import json
from contextlib import closing
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import storage_option
from hsearch.cli.output import print_table

if TYPE_CHECKING:
    from hsearch.search.record import StudyRecord, TrialRecord


@click.command()
@click.argument("name", required=False)
@storage_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def studies(name: str | None, storage: str, as_json: bool) -> None:
    """List the studies, or show one with its best knobs and all trials."""
    from hsearch.search.study import study_names

    if name is not None:
        record = read_record(name, storage)
        if as_json:
            click.echo(json.dumps(record.to_dict(), indent=2))
        else:
            _show(record)
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


def _list(records: "list[StudyRecord]") -> None:
    from hsearch.cli.study_words import count_words, score_words

    records.sort(key=lambda r: (r.spec.job.data, -_best_score(r), r.name))
    rows = [
        (
            record.name,
            record.spec.job.method.name,
            record.spec.job.data,
            score_words(record.best) if record.best else "-",
            count_words(record.trials),
            f"{record.folds_trained} / {record.folds_saved}",
        )
        for record in records
    ]
    columns = ("study", "method", "data", "best MAP@R", "trials", "folds trained / saved")
    print_table(columns, rows)
    click.echo("\nMore about one of them: hsearch studies NAME")


def _best_score(record: "StudyRecord") -> float:
    return (record.best.score or 0.0) if record.best else -1.0


def _show(record: "StudyRecord") -> None:
    from hsearch.cli.study_words import count_words, print_result

    spec, job = record.spec, record.spec.job
    schedule = job.training.schedule
    facts = [
        ("method", job.method.name),
        ("data", job.data),
        ("recipe", f"{job.training.recipe}, at most {schedule.epochs} epochs"),
        ("splits", f"{job.splits}, seed {job.seed}"),
        ("sampler", f"{spec.sampler}, {'with' if spec.race else 'without'} race"),
        ("trials", f"{len(record.trials)}: {count_words(record.trials)}"),
        *((f"searched {name}", text) for name, text in spec.space.items()),
    ]
    print_table(("what", "value"), facts, title=f"Study {record.name}")
    click.echo()
    print_result(record)
    columns = ("trial", "MAP@R", "folds", "state", "source")
    print_table(columns, [_row(trial) for trial in record.trials], title="")


def _row(trial: "TrialRecord") -> tuple[str, ...]:
    from hsearch.cli.study_words import score_words, state_words

    folds = " ".join(f"{score:.4f}" for score in trial.scores)
    return str(trial.number), score_words(trial), folds, state_words(trial), trial.source
