"""`hsearch evaluate`: score trained runs, or embeddings from a file."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hsearch.cli.options import as_places
from hsearch.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hsearch.addresses import Place
    from hsearch.evaluation.scoring import AnyEmbedded, Embedded, Similarity
    from hsearch.training.score import Part

_MIB = 2**20
_OF_RUNS = ("part",)
_OF_FILES = ("labels", "similarity", "curvature")
_OF_RETRIEVAL = ("recall_at", "alpha", "classify", "nmi")


def _ranks(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Reads `1,10,20`."""
    texts = [text.strip() for text in value.split(",")]
    if not all(text.isdecimal() and int(text) > 0 for text in texts):
        raise click.BadParameter(f"must be numbers from 1 such as 1,10,20, but is '{value}'.")
    return tuple(dict.fromkeys(map(int, texts)))


def _alpha(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not 0 < value <= 100:
        raise click.BadParameter(f"must lie in (0, 100], but is {value:g}.")
    return value


def _positive(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"must be a number above 0, but is {value:g}.")
    return value


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", callback=as_places)
@click.option(
    "--on",
    "part",
    default="validation",
    show_default=True,
    type=click.Choice(["train", "seen", "validation", "test"]),
    help="Images that the run's fold was trained on, images of the same classes that the data set "
    "holds out (they query those), its validation images, or the test images.",
)
@click.option(
    "--embeddings",
    metavar="X.npy",
    type=click.Path(path_type=Path),
    help="Score these instead of a run: (images, dimensions) floats, as np.save writes them.",
)
@click.option(
    "--labels",
    metavar="Y.csv|Y.parquet",
    type=click.Path(path_type=Path),
    help="Their labels: `label`, or `level_0`, `level_1`, ... with the coarsest first; row i "
    "belongs to embedding i. With `is_query` and `is_gallery`, only those query and are found.",
)
@click.option(
    "--geometry",
    "similarity",
    default="cosine",
    show_default=True,
    type=click.Choice(["cosine", "euclidean", "poincare"]),
    help="How the embeddings of a file are compared.",
)
@click.option("--curvature", type=float, callback=_positive, help="Of the Poincare ball, above 0.")
@click.option(
    "--recall-at",
    default="1,2,4,8",
    show_default=True,
    metavar="K,K,...",
    callback=_ranks,
    help="How many neighbours R@K looks at.",
)
@click.option(
    "--alpha",
    default=1.0,
    show_default=True,
    callback=_alpha,
    help="Exponent of H-AP's relevance; above 1 it favours the fine levels.",
)
@click.option(
    "--classify",
    is_flag=True,
    help="Add the accuracy of k-NN and of a linear probe that learn from half of each class, or "
    "from the gallery where no query is in it.",
)
@click.option("--nmi", is_flag=True, help="Add NMI: how well clusters of k-means fit the labels.")
@click.option(
    "--memory",
    default=1024,
    show_default=True,
    metavar="MIB",
    type=click.IntRange(1),
    help="What the search may take beside the embeddings.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--out",
    metavar="FILE.json",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the JSON there as well.",
)
@click.pass_context
def evaluate(
    ctx: click.Context,
    runs: "tuple[Place, ...]",
    part: "Part",
    embeddings: Path | None,
    labels: Path | None,
    similarity: "Similarity",
    curvature: float | None,
    recall_at: tuple[int, ...],
    alpha: float,
    classify: bool,
    nmi: bool,
    memory: int,
    as_json: bool,
    out: Path | None,
) -> None:
    """Score trained networks, or embeddings from a file.

    RUN is a folder that `hsearch train` has written, or the address of one that a search keeps; the
    network of its best epoch is scored.
    Several runs of one method, such as its folds, are scored on the test images one by one
    (separated: mean and standard deviation) and with their embeddings joined (concatenated); for
    images with several labels that joins their scores of every label as well, by their mean.
    Embeddings of any other program are scored from files.

    \b
      hsearch evaluate runs/mine --on test
      hsearch evaluate runs/fold-0 runs/fold-1 runs/fold-2 runs/fold-3 --on test
      hsearch evaluate --embeddings x.npy --labels y.csv --out scores.json
    """  # noqa: D301 (click wants the backspace itself)
    _check_usage(ctx, runs, embeddings, labels)
    _check_curvature(similarity, curvature)
    _check_out(out, embeddings, labels)
    from hsearch.cli.score_report import report
    from hsearch.evaluation.scoring import ScoreOptions

    options = ScoreOptions(recall_at, alpha, memory * _MIB, classify, nmi)
    models: Sequence[AnyEmbedded]
    if embeddings is not None and labels is not None:
        models = [_read_files(embeddings, labels, similarity, curvature)]
        scored: dict[str, object] = {"embeddings": str(embeddings), "labels": str(labels)}
    else:
        from hsearch.training.kept import local_runs

        with local_runs(runs) as folders:
            models, facts = _embed(ctx, folders, part)
        named = [{**fact, "run": str(run)} for fact, run in zip(facts, runs, strict=True)]
        scored = {"runs": named, "on": part}
    report(scored, models, options, as_json, out)


def _embed(
    ctx: click.Context, runs: "list[Path]", part: "Part"
) -> "tuple[Sequence[AnyEmbedded], list[dict[str, object]]]":
    """Returns what the networks of runs make of their images, and what is known of the runs."""
    from hsearch.cli.counting import counting
    from hsearch.training.score import differences, embed_runs, run_facts

    _check_metrics(ctx, runs[0])
    with counting("embedding") as progress:
        models = embed_runs(runs, part, progress)
    if others := differences(runs):
        click.echo(
            f"hsearch: note: these runs differ not only in their fold: {', '.join(others)}",
            err=True,
        )
    return models, run_facts(runs)


def _check_usage(
    ctx: click.Context, runs: "tuple[Place, ...]", embeddings: Path | None, labels: Path | None
) -> None:
    """Raises unless there are either runs or files, each with its own options alone."""
    if not runs and embeddings is None:
        alone = "--labels belong to --embeddings. " if labels else ""
        raise click.UsageError(
            f"{alone}Say what to score: a RUN, or --embeddings X.npy --labels Y.csv."
        )
    if runs and embeddings:
        raise click.UsageError("Score either runs or --embeddings, but both are given.")
    if embeddings and not labels:
        raise click.UsageError("--embeddings need the --labels of their rows.")
    foreign, why = (_OF_FILES, "a run knows its own") if runs else (_OF_RUNS, "files have one part")
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        if option.name in foreign and given:
            raise click.UsageError(f"Leave {option.opts[0]} out: {why}.")


def _check_metrics(ctx: click.Context, run: Path) -> None:
    """Raises if an option is given for which images with several labels have no use."""
    from hsearch.methods import load_method
    from hsearch.training.folder import read_job

    if load_method(read_job(run).method.name).task != "multilabel":
        return
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        if option.name in _OF_RETRIEVAL and given:
            raise click.UsageError(
                f"Leave {option.opts[0]} out: it is about retrieval by classes, but these images "
                "have several labels each."
            )


def _check_curvature(similarity: "Similarity", curvature: float | None) -> None:
    if similarity == "poincare" and curvature is None:
        raise click.UsageError("--geometry poincare needs the --curvature of its ball.")
    if similarity != "poincare" and curvature is not None:
        raise click.UsageError("--curvature belongs to --geometry poincare alone.")


def _check_out(out: Path | None, *inputs: Path | None) -> None:
    if out is not None and out.resolve() in [path.resolve() for path in inputs if path]:
        raise click.UsageError(f"--out would overwrite {out}, which is scored; name another file.")


def _read_files(
    embeddings: Path, labels: Path, similarity: "Similarity", curvature: float | None
) -> "Embedded":
    from hsearch.data.labels import read_labels
    from hsearch.errors import DatasetError
    from hsearch.evaluation.embedding_file import read_embeddings
    from hsearch.evaluation.scoring import Embedded

    table = read_labels(labels)
    vectors = read_embeddings(embeddings, similarity)
    if len(table.classes) != len(vectors):
        raise DatasetError(
            f"Every embedding needs one row of labels, but {embeddings} has "
            f"{plural(len(vectors), 'row')} and {labels} has {len(table.classes)}."
        )
    if table.ignored:
        click.echo(f"hsearch: note: ignored columns: {', '.join(table.ignored)}", err=True)
    masked = not (table.is_query.all() and table.is_gallery.all())
    return Embedded(
        embeddings=vectors,
        labels=table.hierarchy.paths[table.classes],
        level_names=table.hierarchy.level_names,
        similarity=similarity,
        curvature=curvature or 0.0,
        queries=table.is_query if masked else None,
        gallery=table.is_gallery if masked else None,
    )
