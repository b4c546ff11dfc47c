"""`hsearch recipes`: all recipes with a line each; one of them as YAML to copy."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hsearch.cli.output import print_table

if TYPE_CHECKING:
    from hsearch.recipes import Recipe


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table or YAML.")
def recipes(name: str | None, as_json: bool) -> None:
    """List the recipes, or print one as YAML to copy.

    A recipe is named with `--recipe NAME`; one of your own with `--recipe mine.yaml`. It may begin
    with `extends: NAME`, and then says only what differs.
    """
    from hsearch.recipes import available_recipes, read_recipe

    if name is not None:
        page = _page(read_recipe(name))
        click.echo(json.dumps(_plain(page), indent=2) if as_json else _yaml(page))
        return
    general_first = sorted(available_recipes(), key=lambda each: ("/" in each, each))
    rows = [(each, read_recipe(each).about) for each in general_first]
    if as_json:
        listed = [{"name": each, "about": about} for each, about in rows]
        click.echo(json.dumps(listed, indent=2))
        return
    print_table(["recipe", "what it is for"], rows)
    click.echo(
        "\nWithout --recipe it follows the data. One of them as YAML to copy: hsearch recipes NAME"
    )


@dataclass(frozen=True)
class _Page:
    """All that is shown of a recipe.

    Attributes:
        recipe: Itself.
        sources: Where its values come from: the comments at the head of its files.
        backbone: Of its network.
        licence: Of the backbone's weights, as timm calls it; null where that does not say.
        at_hand: Whether the weights are on this machine; null for a network from scratch.
        follows: Settings that follow from the backbone, by dotted name.
    """

    recipe: "Recipe"
    sources: tuple[str, ...]
    backbone: str
    licence: str | None
    at_hand: bool | None
    follows: dict[str, object]


def _page(recipe: "Recipe") -> _Page:
    from hsearch.models.backbone import backbone_defaults
    from hsearch.recipes import compose
    from hsearch.spec import TrainingSpec
    from hsearch.training.backbone_settings import fill_in_backbone
    from hsearch.training.pretrained import weights_at_hand

    content = compose(recipe, {}, {})
    given = _dotted(content)
    fill_in_backbone(content, recipe, {})
    model = TrainingSpec.from_dict(content).model
    scratch = model.weights == "random"
    return _Page(
        recipe,
        _sources(recipe),
        model.backbone,
        None if scratch else backbone_defaults(model.backbone).licence,
        None if scratch else weights_at_hand(model),
        {key: value for key, value in _dotted(content).items() if key not in given},
    )


def _sources(recipe: "Recipe") -> tuple[str, ...]:
    """The comments at the head of a recipe's file and of those that it extends."""
    from hsearch.recipes import read_recipe

    lines = recipe.file.path.read_text(encoding="utf-8").splitlines()
    while lines and not lines[0].startswith("#"):
        if lines[0].strip() and not lines[0].startswith("about:"):
            break
        lines = lines[1:]
    number = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    own = tuple(line.lstrip("# ").rstrip() for line in lines[:number])
    base = recipe.file.content.get("extends")
    known = isinstance(base, str) and not base.endswith((".yaml", ".yml"))
    return own + (_sources(read_recipe(str(base))) if known else ())


def _yaml(page: _Page) -> str:
    lines = [f"# {line}" for line in _comments(page)]
    for key, value in page.recipe.to_yaml_values().items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {name}: {_flow(inner)}" for name, inner in value.items())]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines)


def _flow(value: object) -> str:
    """A value as YAML on one line."""
    import yaml

    text = yaml.safe_dump(
        value, sort_keys=False, default_flow_style=True, allow_unicode=True, width=10_000
    )
    return text.removesuffix("...\n").strip()


def _comments(page: _Page) -> list[str]:
    from hsearch.models.backbone import weight_files

    lines = [
        f"hsearch recipes {page.recipe.name}: a copy with changes serves as --recipe FILE.yaml"
    ]
    lines += page.sources
    if page.at_hand is None:
        return [*lines, f"Backbone: {page.backbone}, from scratch; no weights are needed."]
    where = "at hand" if page.at_hand else "not on this machine yet"
    licence = page.licence or "not told by timm"
    lines.append(f"Backbone: {page.backbone}; licence of its weights: {licence}; they are {where}.")
    if not page.at_hand:
        files = " or ".join(weight_files(page.backbone))
        lines.append(f"Without a network: put {files} into the folder HSEARCH_WEIGHTS.")
    if page.follows:
        told = ", ".join(f"{key}={_shown(value)}" for key, value in page.follows.items())
        lines.append(f"From the backbone, unless given: {told}")
    return lines


def _plain(page: _Page) -> dict[str, object]:
    return {
        "name": page.recipe.name,
        **page.recipe.to_yaml_values(),
        "backbone": page.backbone,
        "licence": page.licence,
        "weights_at_hand": page.at_hand,
        "sources": list(page.sources),
        "from_backbone": page.follows,
    }


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _dotted(content: object, at: str = "") -> dict[str, object]:
    """Nested values by dotted key."""
    if not isinstance(content, dict):
        return {at: content}
    found: dict[str, object] = {}
    for key, value in content.items():
        found |= _dotted(value, f"{at}.{key}".lstrip("."))
    return found
