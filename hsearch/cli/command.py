"""The command that a user gave, for the record: as it can be pasted, without secrets."""

import shlex
from collections.abc import Mapping

import click
from click.core import ParameterSource

from hsearch.words import typed

_PLACES = ("storage", "tracking_uri", "address")
"""Where things are: they may hold passwords, and differ from machine to machine."""


def command_of(ctx: click.Context) -> str:
    """Returns the command with the options that were given, such as `hsearch tune --seed 3`."""
    words = ctx.command_path.split()[1:]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _PLACES:
            words += _words(parameter, ctx.params[name])
    return shlex.join(["hsearch", *words])


def words_of(ctx: click.Context, instead: Mapping[str, object]) -> list[str]:
    """Returns what stands behind `hsearch`, with the options that the environment gave.

    Args:
        ctx: Of the command.
        instead: Other values of parameters, by name; those that are None are left out.
    """
    words = ctx.command_path.split()[1:]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        is_default = ctx.get_parameter_source(name) is ParameterSource.DEFAULT
        value = instead.get(name, None if is_default else ctx.params.get(name))
        if value is not None:
            words += _words(parameter, value)
    return words


def _words(parameter: click.Parameter, value: object) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [typed(value)]
    assert isinstance(parameter, click.Option)
    if parameter.is_flag:
        return [(parameter.opts if value else parameter.secondary_opts)[-1]]
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values for word in (parameter.opts[-1], typed(each))]
