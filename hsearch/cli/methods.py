"""`hsearch methods`: every method with its paper, its knobs, their ranges and published values."""

import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from hsearch.cli.output import print_table

if TYPE_CHECKING:
    from hsearch.search.domain import Choices, Condition, Interval, KnobRange, StartPoint
    from hsearch.search.space import SearchSpace
    from hsearch.spec import KnobValue


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or show one with its knobs and ranges.

    A knob's published value is its paper's, and is taken wherever no other is given.
    """
    if name is not None:
        page = _page(name)
        if as_json:
            click.echo(json.dumps(asdict(page), indent=2))
        else:
            _show(page)
        return
    from hsearch.methods import available_methods

    rows = [_summary(method) for method in available_methods()]
    if as_json:
        keys = ("name", "summary", "paper")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
    else:
        print_table(["name", "summary", "paper"], rows)
        click.echo("\nMore about one of them: hsearch methods NAME")


@dataclass(frozen=True)
class _Knob:
    """A knob as it is shown; `published` is null where the recipe decides."""

    name: str
    about: str
    type: str
    published: "KnobValue | None"
    searched: "Interval | Choices | None"
    when: "Condition"


@dataclass(frozen=True)
class _Page:
    """All that is shown of one method."""

    name: str
    summary: str
    paper: str
    groups: Mapping[str, float]
    wishes: Mapping[str, object]
    knobs: tuple[_Knob, ...]
    start: "tuple[StartPoint, ...]"
    recipes: Mapping[str, str]


def _summary(method: str) -> tuple[str, str, str]:
    """Name, first line of the module's docstring, and the references of the class's docstring."""
    from hsearch.methods import load_method

    loss = load_method(method)
    module = inspect.cleandoc(sys.modules[loss.__module__].__doc__ or "")
    references = re.search(r"References:\n(.*)", inspect.cleandoc(loss.__doc__ or ""), re.DOTALL)
    paper = " ".join(references[1].split()) if references else ""
    return method, module.split("\n")[0], paper


def _page(method: str) -> _Page:
    from hsearch.methods import load_method
    from hsearch.recipes import recipes_of
    from hsearch.search.space import load_space

    space, kind = load_space(method), load_method(method)
    return _Page(
        *_summary(method),
        groups=dict(kind.groups),
        wishes=dict(kind.wishes),
        knobs=_knobs(space),
        start=space.start,
        recipes=recipes_of(method),
    )


def _knobs(space: "SearchSpace") -> tuple[_Knob, ...]:
    """The method's own knobs in the order of its constructor, then searched recipe settings."""
    from hsearch.methods import knobs_of, load_method
    from hsearch.search.settings import searchable_settings

    own = {f"method.{n}": k for n, k in knobs_of(load_method(space.method)).items()}
    ranges = {knob.name: knob for knob in space.knobs}
    shown = [
        _Knob(n, k.about, " | ".join(k.choices or [k.type.__name__]), k.default, *_range(n, ranges))
        for n, k in own.items()
    ]
    settings = searchable_settings(space.method)
    for name in ranges:
        if name not in own:
            group = name.removeprefix("optimizer.lr.")
            about = f"Learning rate of {group}." if group != name else "A setting of the recipe."
            kind = settings[name].type.__name__
            shown.append(_Knob(name, about, kind, None, *_range(name, ranges)))
    return tuple(shown)


def _range(
    name: str, ranges: "Mapping[str, KnobRange]"
) -> "tuple[Interval | Choices | None, Condition]":
    return (ranges[name].domain, ranges[name].when) if name in ranges else (None, {})


def _show(page: _Page) -> None:
    click.echo(f"{page.name}\n{page.summary}\n{page.paper}\n")
    print_table(["knob", "type", "meaning"], [[k.name, k.type, k.about] for k in page.knobs])
    click.echo()
    print_table(["knob", "published", "searched", "only when"], [_row(k) for k in page.knobs])
    for group, factor in page.groups.items():
        click.echo(
            f"\nThe group `{group}` learns {factor:g} times as fast as the backbone unless "
            f"optimizer.lr.{group} is given."
        )
    if page.wishes:
        wishes = ", ".join(f"{name}={value}" for name, value in page.wishes.items())
        click.echo(f"\nWhere a recipe leaves it open: {wishes}")
    if page.start:
        click.echo("\nStart points of a search:")
    for point in page.start:
        values = ", ".join(f"{name}={value}" for name, value in point.values.items())
        click.echo(f"  {point.source}\n    {values}")
    if page.recipes:
        click.echo("\nIts recipes, for --recipe:")
        print_table(["recipe", "about"], [[*recipe] for recipe in page.recipes.items()])
    click.echo(f"\nTry it: hsearch train --method {page.name} --data glyphs")


def _row(knob: _Knob) -> list[str]:
    when = (f"{n} = {' or '.join(map(str, values))}" for n, values in knob.when.items())
    return [
        knob.name,
        "the recipe's" if knob.published is None else str(knob.published),
        "no" if knob.searched is None else str(knob.searched),
        ", ".join(when),
    ]
