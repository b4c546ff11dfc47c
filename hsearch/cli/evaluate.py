"""`hsearch evaluate`: score a trained run."""

import json
from pathlib import Path
from typing import Literal

import click

from hsearch.cli.output import print_table


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--on",
    "part",
    default="validation",
    show_default=True,
    type=click.Choice(["validation", "test"]),
    help="Validation classes of the run's fold, or the test classes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def evaluate(run: Path, part: Literal["validation", "test"], as_json: bool) -> None:
    """Score a trained network on validation or test classes.

    RUN is a folder that `hsearch train` has written; the network of its best epoch is scored.
    """
    from hsearch.training.score import score_run

    metrics = score_run(run, part)
    if as_json:
        click.echo(json.dumps({"run": str(run), "on": part, "metrics": metrics}, indent=2))
        return
    click.echo(f"{run}, best epoch, {part} classes")
    levels = sorted({name.rpartition("/")[0] for name in metrics})
    names = [name for name in metrics if "/" not in name]
    rows = [
        [level or "class", *(f"{metrics[f'{level}/{name}'.lstrip('/')]:.4f}" for name in names)]
        for level in levels[1:] + levels[:1]
    ]
    print_table(["level", *names], rows)
