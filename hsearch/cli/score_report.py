"""What an evaluation found: tables for people, JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from hsearch.cli.counting import counting
from hsearch.cli.label_report import label_facts, label_words, print_label_table
from hsearch.cli.output import print_table
from hsearch.errors import ConfigError
from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.evaluation.protocols import Spread, separated
from hsearch.evaluation.scores import check_points
from hsearch.evaluation.scoring import (
    AnyEmbedded,
    Embedded,
    ScoreOptions,
    join,
    protocol_of,
    score,
)
from hsearch.files import write_whole
from hsearch.results import ALL_LEVEL_METRICS, Metrics, level_prefix
from hsearch.words import metric_title, plural


def report(
    scored: dict[str, object],
    models: Sequence[AnyEmbedded],
    options: ScoreOptions,
    as_json: bool,
    out: Path | None,
) -> None:
    """Says what is scored, scores it, and tells what came of it.

    Args:
        scored: What they are, for the JSON.
        models: The same images as each of the models sees them, at least one.
        options: Which metrics.
        as_json: Print JSON instead of tables.
        out: Where to write the JSON as well.
    """
    for model in models:
        if isinstance(model, Embedded):
            check_points(model.embeddings, model.geometry, model.curvature)
    first = models[0]
    if not as_json:
        click.echo(f"{_title(scored, first)}\n{_protocol_words(first)}")
    with counting("scoring") as progress:
        each = [score(model, options, progress) for model in models]
        joined = score(join(models), options, progress) if len(models) > 1 else None
    page = json.dumps(
        _facts(scored, models, options) | _numbers(each, joined), indent=2, allow_nan=False
    )
    if as_json:
        click.echo(page)
    else:
        _print_tables(each, joined, _columns(first))
        if isinstance(first, LabelEmbedded):
            print_label_table(models)
    if out is not None:
        _write(out, page)
        click.echo(f"hsearch: note: the scores are in {out}", err=True)


def _write(path: Path, page: str) -> None:
    try:
        write_whole(path, f"{page}\n".encode())
    except OSError as error:
        raise ConfigError(f"The scores cannot be written to {path}: {error.strerror}.") from error


def _facts(
    scored: dict[str, object], models: Sequence[AnyEmbedded], options: ScoreOptions
) -> dict[str, object]:
    first = models[0]
    if isinstance(first, LabelEmbedded):
        return {
            "scored": scored | {"images": len(first.labels), "labels": len(first.label_names)},
            "per_label": label_facts(models),
        }
    images, dimensions = first.embeddings.shape
    curvatures = [m.curvature or None for m in models if isinstance(m, Embedded)]
    return {
        "scored": scored | {"images": images, "dimensions": dimensions},
        "protocol": asdict(protocol_of(first)),
        "geometry": first.similarity,
        "curvature": curvatures[0] if len(set(curvatures)) == 1 else curvatures,
        "alpha": options.alpha,
        "levels": first.level_names,
        **({"test_sets": _set_sizes(first)} if first.test_sets else {}),
    }


def _set_sizes(model: Embedded) -> dict[str, int]:
    return {name: int(rows.sum()) for name, rows in model.test_sets.items()}


def _numbers(each: list[Metrics], joined: Metrics | None) -> dict[str, object]:
    if joined is None:
        return {"metrics": each[0]}
    spreads = {name: asdict(spread) for name, spread in separated(each).items()}
    return {"separated": spreads, "concatenated": joined, "runs": each}


def _title(scored: dict[str, object], model: AnyEmbedded) -> str:
    if "embeddings" in scored:
        return str(scored["embeddings"])
    runs = scored["runs"]
    assert isinstance(runs, list)
    what = "images" if isinstance(model, LabelEmbedded) else "classes"
    return f"{', '.join(facts['run'] for facts in runs)}, best epoch, {scored['on']} {what}"


def _protocol_words(model: AnyEmbedded) -> str:
    if isinstance(model, LabelEmbedded):
        return label_words(model)
    protocol = protocol_of(model)
    words = f"{plural(len(model.embeddings), 'image')}, {model.similarity}, {protocol.kind}"
    if model.test_sets:
        sizes = (f"{name} {size}" for name, size in _set_sizes(model).items())
        words += f" ({', '.join(sizes)} images)"
    if protocol.queries < len(model.embeddings) or protocol.gallery < len(model.embeddings):
        words += f": {protocol.queries} query {plural(protocol.gallery, 'image')}"
    if protocol.queries_without_match:
        words += f"; {protocol.queries_without_match} queries have no match at the finest level"
    return words


def _print_tables(each: list[Metrics], joined: Metrics | None, columns: Mapping[str, str]) -> None:
    if joined is None:
        _print_scores(each[0], columns)
    else:
        _print_fold_scores(separated(each), joined, columns)


def _print_scores(metrics: Metrics, columns: Mapping[str, str]) -> None:
    """Prints the metrics of one model: a row per metric, a column per level and one for all."""
    names = [name for name in metrics if "/" not in name and name not in ALL_LEVEL_METRICS]
    rows = [
        [metric_title(name), *(f"{metrics[prefix + name]:.4f}" for prefix in columns)]
        for name in names
    ]
    titles = ["metric", *columns.values()]
    over_all = [name for name in ALL_LEVEL_METRICS if name in metrics and len(columns) > 1]
    if over_all:
        titles.append("all levels")
        rows = [[*row, ""] for row in rows]
        rows += [
            [metric_title(name), *("" for _ in columns), f"{metrics[name]:.4f}"]
            for name in over_all
        ]
    print_table(titles, rows)


def _print_fold_scores(
    separated: Mapping[str, Spread], concatenated: Metrics, columns: Mapping[str, str]
) -> None:
    """Prints the metrics of several models: a row per level and metric, both ways side by side."""
    rows = []
    for prefix, level in columns.items():
        names = [name for name in separated if _prefix(name) == prefix]
        rows += [[level, *_row(name, separated, concatenated)] for name in names]
    if len(columns) > 1:
        names = [name for name in separated if name in ALL_LEVEL_METRICS]
        rows += [["all", *_row(name, separated, concatenated)] for name in names]
    print_table(["level", "metric", "separated", "concatenated"], rows)


def _row(name: str, separated: Mapping[str, Spread], concatenated: Metrics) -> list[str]:
    spread = separated[name]
    return [
        metric_title(name.rpartition("/")[2]),
        f"{spread.mean:.4f} +- {spread.std or 0.0:.4f}",
        f"{concatenated[name]:.4f}",
    ]


def _columns(model: AnyEmbedded) -> dict[str, str]:
    """What the metrics of each level, or each test set, begin with -> its name, coarsest first."""
    if isinstance(model, LabelEmbedded):
        return {"": "all labels"}
    if model.test_sets:
        return {f"{name}/": name for name in model.test_sets} | {"": "mean"}
    levels = enumerate(model.level_names)
    return {level_prefix(level, len(model.level_names)): name for level, name in levels}


def _prefix(name: str) -> str | None:
    """What the name of a metric of one level begins with; None for one over all levels."""
    level, slash, _ = name.rpartition("/")
    return None if name in ALL_LEVEL_METRICS else level + slash
