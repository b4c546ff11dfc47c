"""The command that a user gave, for the record: as it can be pasted, without secrets."""

import shlex

import click
from click.core import ParameterSource

from hsearch.words import typed

_PLACES = ("storage", "tracking_uri", "address")
"""Where things are: they may hold passwords, and differ from machine to machine."""


def command_of(ctx: click.Context) -> str:
    """Returns the command with the options that were given, such as `hsearch tune --seed 3`."""
    words = ["hsearch", *ctx.command_path.split()[1:]]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _PLACES:
            words += _words(parameter, ctx.params[name])
    return shlex.join(words)


def _words(parameter: click.Parameter, value: object) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [typed(value)]
    assert isinstance(parameter, click.Option)
    if parameter.is_flag:
        return [(parameter.opts if value else parameter.secondary_opts)[-1]]
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values for word in (parameter.opts[-1], typed(each))]
