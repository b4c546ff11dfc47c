"""Scoring trained runs on their validation images or on the test images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hsearch.data.batches import Inputs
from hsearch.data.features import Features
from hsearch.data.pixels import Pixels
from hsearch.data.records import LEVEL_TESTS
from hsearch.data.splits import split_store
from hsearch.data.store import Store
from hsearch.distributed import pick_device
from hsearch.errors import ConfigError
from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.evaluation.scoring import AnyEmbedded, Embedded
from hsearch.spec import FoldJob
from hsearch.training.checkpoint import load_checkpoint
from hsearch.training.embedding import LabelNetwork, Network, embed_labels, embed_rows
from hsearch.training.features import evaluation_features, open_job_pixels
from hsearch.training.folder import RunFolder, read_job
from hsearch.training.setup import build_step, open_job_store
from hsearch.training.step import TrainingStep

Part = Literal["train", "seen", "validation", "test"]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class PartRows:
    """Rows of a store that are scored.

    Attributes:
        name: Of the part.
        rows: (N,).
        queries: (N,) which of them query.
        gallery: (N,) which of them are retrieved.
    """

    name: Part
    rows: IntArray
    queries: BoolArray
    gallery: BoolArray


def embed_runs(
    paths: Sequence[Path], part: Part, progress: Progress | None = None
) -> list[AnyEmbedded]:
    """Returns what the best network of each run makes of the same images.

    `progress` is told how many images, of how many, a network has embedded.

    Raises:
        ConfigError: The runs cannot be compared image by image, so they are no folds of one method.
    """
    jobs = [read_job(path) for path in paths]
    for path, job in zip(paths[1:], jobs[1:], strict=True):
        _check_alike(paths[0], jobs[0], path, job)
    if len(jobs) > 1:
        if part != "test":
            raise ConfigError(
                "Several runs can be scored together on the test images alone, because their "
                f"{part} images differ; add `--on test`, or give one run."
            )
        if len({path.resolve() for path in paths}) < len(paths):
            raise ConfigError("Every run counts once, but one was given twice.")
    return [embed_run(path, part, progress) for path in paths]


def run_facts(paths: Sequence[Path]) -> list[dict[str, object]]:
    """Returns what each run trained, for a report."""
    jobs = [(path, read_job(path)) for path in paths]
    return [
        {
            "run": str(path),
            "method": job.method.name,
            "data": job.data,
            "fold": job.fold,
            "seed": job.seed,
            "objective": job.objective,
        }
        for path, job in jobs
    ]


def differences(paths: Sequence[Path]) -> list[str]:
    """Returns in what the runs differ, beside their folds: in nothing, if they are one trial's."""
    jobs = [read_job(path).to_dict() for path in paths]
    return [
        key for key in jobs[0] if key != "fold" and any(job[key] != jobs[0][key] for job in jobs)
    ]


def embed_run(path: Path, part: Part, progress: Progress | None = None) -> AnyEmbedded:
    """Returns the images of some classes as the run's best network sees them.

    Args:
        path: A folder that `hsearch train` has written.
        part: `train`, the images that its fold was trained on; `seen`, images of the same classes
            that the data set holds out, which query those; `validation` or `test`, its classes.
        progress: Told how many images, of how many, are embedded.
    """
    job = read_job(path)
    store = open_job_store(job)
    rows = part_rows(job, store, part)
    inputs = _cached(job, store, part, progress)
    step = job_network(job, store, RunFolder(path).best, cached=inputs.shape if inputs else None)
    see = see_labels if store.tag_names else embed_part
    return see(step, job, store, rows, progress, inputs)


def job_network(
    job: FoldJob,
    store: Store,
    checkpoint: Path | None = None,
    cached: tuple[int, ...] | None = None,
) -> TrainingStep:
    """Returns the network of a job with the weights of a checkpoint, or as it is before training.

    Args:
        job: What is trained.
        store: The job's data.
        checkpoint: That a run of the job has written.
        cached: Shape of one item of cached features, if the network is to take these.
    """
    hierarchy = split_store(store, job.splits).fold(job.fold).hierarchy
    restored = checkpoint is not None
    step = build_step(job, hierarchy, pick_device(), restored=restored, cached=cached)
    if checkpoint is not None:
        load_checkpoint(checkpoint, step, leave_out=step.unchanged())
    return step


def _cached(job: FoldJob, store: Store, part: Part, progress: Progress | None) -> Features | None:
    """The cached features that hold a part, where the backbone is frozen and there is room."""
    if job.training.model.regime != "frozen" or part == "seen":
        return None
    splits = split_store(store, job.splits)
    rows = splits.test if part == "test" else splits.trainval
    return evaluation_features(job, store, rows, progress=progress)


def see_labels(
    step: LabelNetwork,
    job: FoldJob,
    store: Store,
    part: PartRows,
    progress: Progress | None = None,
    inputs: Inputs | None = None,
) -> LabelEmbedded:
    """Returns images with several labels each as a network sees them; as `embed_part` else."""
    rows, image = part.rows, job.training.image
    inputs = inputs or _open_part(job, store, part)
    return embed_labels(step, inputs, rows, store.tags[rows], store.tag_names, image, progress)


def embed_part(
    step: Network,
    job: FoldJob,
    store: Store,
    part: PartRows,
    progress: Progress | None = None,
    inputs: Inputs | None = None,
) -> Embedded:
    """Returns images of a part as a network sees them; `progress` as in `embed_run`.

    `inputs` are cached features that hold the part, for a network that takes these.
    """
    rows, image = part.rows, job.training.image
    inputs = inputs or _open_part(job, store, part)
    embeddings = embed_rows(step, inputs, rows, image, progress)
    masked = not (np.all(part.queries) and np.all(part.gallery))
    sets = {name: store.split[rows] == name for name in LEVEL_TESTS if part.name == "test"}
    return Embedded(
        embeddings=embeddings.numpy(),
        labels=store.hierarchy.paths[store.classes[rows]],
        level_names=store.hierarchy.level_names,
        similarity="poincare" if step.curvature else "cosine",
        curvature=step.curvature,
        queries=part.queries if masked else None,
        gallery=part.gallery if masked else None,
        test_sets={name.removeprefix("test-"): mask for name, mask in sets.items() if mask.any()},
    )


def _open_part(job: FoldJob, store: Store, part: PartRows) -> Pixels:
    """Opens the images of a part.

    Those of the test are cached, because many networks are tested on them; others only where the
    search has left them, because they are embedded once.
    """
    within: IntArray | None = part.rows
    if part.name == "test":
        within = None
    elif part.name != "seen":
        within = split_store(store, job.splits).trainval
    return open_job_pixels(store, part.rows, job.training.image, within)


def part_rows(job: FoldJob, store: Store, part: Part) -> PartRows:
    """Returns the rows of a part of the job's data, and which of them query and are retrieved.

    Raises:
        ConfigError: There are no such images.
    """
    splits = split_store(store, job.splits)
    fold = splits.fold(job.fold)
    if part == "validation" and not len(fold.validation):
        raise ConfigError(
            f"{job.method.name} was trained on all images of '{store.name}' but those of the test, "
            "so it has no validation images; add `--on test`."
        )
    if part == "test":
        rows = splits.test
        return PartRows(part, rows, store.is_query[rows], store.is_gallery[rows])
    rows = fold.validation if part == "validation" else fold.train
    everywhere = np.ones(len(rows), dtype=np.bool_)
    if part != "seen":
        return PartRows(part, rows, everywhere, everywhere)
    held_out = store.rows(fold.classes, seen=True)
    if not len(held_out):
        raise ConfigError(
            f"The data '{store.name}' hold out no image of the classes that are trained on, so "
            "there is nothing to score `--on seen`; choose train, validation or test."
        )
    is_query = np.repeat([True, False], [len(held_out), len(rows)])
    return PartRows(part, np.concatenate([held_out, rows]), is_query, ~is_query)


def _check_alike(first_path: Path, first: FoldJob, path: Path, job: FoldJob) -> None:
    """Raises unless two runs are of one method and one data set, and so have one test."""
    for what, one, other in [
        ("method", first.method.name, job.method.name),
        ("data set", first.data_digest[:12], job.data_digest[:12]),
    ]:
        if one != other:
            raise ConfigError(
                f"Runs that are scored together must have the same {what}, but {first_path} has "
                f"{one} and {path} has {other}; score them one by one."
            )
