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

    score = score_run(run, part)
    if as_json:
        page = {"run": str(run), "on": part, "levels": score.level_names, "metrics": score.metrics}
        click.echo(json.dumps(page, indent=2))
        return
    names = [name for name in score.metrics if "/" not in name]
    prefixes = [f"level_{level}/" for level in range(len(score.level_names) - 1)] + [""]
    rows = [
        [level, *(f"{score.metrics[prefix + name]:.4f}" for name in names)]
        for level, prefix in zip(score.level_names, prefixes, strict=True)
    ]
    print_table(["level", *names], rows, title=f"{run}, best epoch, {part} classes")
