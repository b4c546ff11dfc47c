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
from hsearch.words import typed

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
        print_table(["name", "summary"], [row[:2] for row in rows])
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
    min_levels: int


@dataclass(frozen=True)
class _Recipe:
    """The main facts of a recipe for a method; `knobs` are those that it gives to the method."""

    name: str
    about: str
    backbone: str
    embedding_dim: int
    optimizer: str
    lr: float
    epochs: int
    batch_size: int
    sampler: str
    image: int
    knobs: Mapping[str, object]


@dataclass(frozen=True)
class _Page:
    """All that is shown of one method."""

    name: str
    summary: str
    paper: str
    readings: Mapping[str, str]
    groups: Mapping[str, float]
    data: str
    wishes: Mapping[str, object]
    knobs: tuple[_Knob, ...]
    start: "tuple[StartPoint, ...]"
    recipes: tuple[_Recipe, ...]


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
    from hsearch.training.resolve import DATA

    space, kind = load_space(method), load_method(method)
    return _Page(
        *_summary(method),
        readings=_readings(kind.__doc__ or ""),
        groups=dict(kind.groups),
        data=DATA[kind.task],
        wishes=_dotted(kind.wishes),
        knobs=_knobs(space),
        start=space.start,
        recipes=tuple(_recipe(*recipe, method) for recipe in recipes_of(method).items()),
    )


def _readings(docstring: str) -> dict[str, str]:
    """What of a method is published and what is our reading, as far as its docstring says."""
    section = r"^((?:Published|Our reading)\b[^\n]*):\n((?:    [^\n]*\n)+)"
    found = re.findall(section, inspect.cleandoc(docstring), re.MULTILINE)
    return {title: " ".join(text.split()) for title, text in found}


def _recipe(name: str, about: str, method: str) -> _Recipe:
    from hsearch.methods import load_method
    from hsearch.recipes import compose, read_recipe, recipe_knobs
    from hsearch.spec import TrainingSpec

    recipe = read_recipe(name)
    given = recipe.settings_for(method)
    settings = {key: value for key, value in given.items() if not key.startswith("method.")}
    training = TrainingSpec.from_dict(compose(recipe, {}, load_method(method).wishes, settings))
    return _Recipe(
        name,
        about,
        backbone=training.model.backbone,
        embedding_dim=training.model.embedding_dim,
        optimizer=training.optimizer.name,
        lr=training.optimizer.lr["backbone"],
        epochs=training.schedule.epochs,
        batch_size=training.batch.size,
        sampler=training.batch.sampler,
        image=training.image.crop,
        knobs=recipe_knobs(name, method),
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
            about = f"Learning rate of {group}." if group != name else _setting_words(name)
            kind = settings[name].type.__name__
            shown.append(_Knob(name, about, kind, None, *_range(name, ranges)))
    return tuple(shown)


def _setting_words(name: str) -> str:
    section, stage, *inner = name.split(".")
    if section != "stages":
        return "A setting of the recipe."
    what = "Share of the epochs" if inner == ["share"] else f"The setting {'.'.join(inner)}"
    return f"{what} of the stage `{stage}`, which comes first."


def _range(
    name: str, ranges: "Mapping[str, KnobRange]"
) -> "tuple[Interval | Choices | None, Condition, int]":
    if name not in ranges:
        return None, {}, 1
    return ranges[name].domain, ranges[name].when, ranges[name].min_levels


def _show(page: _Page) -> None:
    click.echo(f"{page.name}\n{page.summary}\n{page.paper}\n")
    for title, text in page.readings.items():
        click.echo(f"{title}:\n{text}\n")
    print_table(["knob", "type", "meaning"], [[k.name, k.type, k.about] for k in page.knobs])
    click.echo()
    print_table(["knob", "published", "searched", "only when"], [_row(k) for k in page.knobs])
    for group, factor in page.groups.items():
        times = "" if factor == 1 else f"{factor:g} times "
        click.echo(
            f"\nThe group `{group}` learns {times}as fast as the backbone unless "
            f"optimizer.lr.{group} is given."
        )
    if page.wishes:
        click.echo(f"\nWhere a recipe leaves it open: {_values(page.wishes)}")
    if page.start:
        click.echo("\nStart points of a search:")
    for point in page.start:
        click.echo(f"  {point.source}\n    {_values(point.values)}")
    if page.recipes:
        _show_recipes(page)
    click.echo(f"\nTry it: hsearch train --method {page.name} --data {page.data}")


def _row(knob: _Knob) -> list[str]:
    from hsearch.search.domain import condition_words

    levels = f"{knob.min_levels} or more levels" if knob.min_levels > 1 else ""
    return [
        knob.name,
        "the recipe's" if knob.published is None else typed(knob.published),
        "no" if knob.searched is None else str(knob.searched),
        ", ".join(filter(None, [condition_words(knob.when), levels])),
    ]


def _show_recipes(page: _Page) -> None:
    click.echo("\nPublished recipes, for --recipe:")
    columns = ["recipe", "backbone", "dim", "optimiser", "epochs", "batch", "px", "knobs"]
    rows = [
        [
            recipe.name,
            recipe.backbone,
            str(recipe.embedding_dim),
            f"{recipe.optimizer} {recipe.lr:g}",
            str(recipe.epochs),
            f"{recipe.batch_size} {recipe.sampler}",
            str(recipe.image),
            _values(recipe.knobs),
        ]
        for recipe in page.recipes
    ]
    print_table(columns, rows)


def _dotted(values: Mapping[str, object]) -> dict[str, object]:
    """Nested values by dotted key, as `--set` takes them."""
    found: dict[str, object] = {}
    for key, value in values.items():
        inner = _dotted(value) if isinstance(value, Mapping) else {"": value}
        found |= {f"{key}.{name}".removesuffix("."): each for name, each in inner.items()}
    return found


def _values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={typed(value)}" for name, value in values.items())
