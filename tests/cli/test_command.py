import click
import pytest
from click.testing import CliRunner

from hsearch.cli.command import command_of


@click.command()
@click.argument("name", required=False)
@click.option("--method", default="hpl")
@click.option("--set", "settings", multiple=True)
@click.option("--race/--no-race", default=True)
@click.option("--storage", envvar="MADE_STORAGE")
@click.option("--tracking-uri", default="x")
@click.pass_context
def made(ctx: click.Context, /, **options: object) -> None:
    click.echo(command_of(ctx))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "hsearch"),
        (["--method", "hier"], "hsearch --method hier"),
        (["a study", "--no-race"], "hsearch 'a study' --no-race"),
        (["--set", "a.b=1", "--set", "c=x y"], "hsearch --set a.b=1 --set 'c=x y'"),
        (["--storage", "postgresql://me:secret@host/db", "--tracking-uri", "none"], "hsearch"),
    ],
)
def test_only_what_was_given_is_told_and_no_address(arguments, told):
    result = CliRunner().invoke(made, arguments, prog_name="hsearch")
    assert result.output == f"{told}\n"


def test_the_environment_is_not_told(monkeypatch):
    monkeypatch.setenv("MADE_STORAGE", "postgresql://me:secret@host/db")
    assert CliRunner().invoke(made, [], prog_name="hsearch").output == "hsearch\n"
