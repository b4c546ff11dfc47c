"""Scoring trained runs on their validation images or on the test images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from hsearch.data.pixels import open_pixels
from hsearch.data.records import LEVEL_TESTS
from hsearch.data.splits import split_store
from hsearch.data.store import Store
from hsearch.errors import ConfigError
from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.evaluation.scoring import AnyEmbedded, Embedded
from hsearch.geometry import l2_normalise
from hsearch.models.embedder import Embedder
from hsearch.seeds import seed_for
from hsearch.spec import FoldJob
from hsearch.training.checkpoint import load_checkpoint
from hsearch.training.embedding import LabelNetwork, Network, embed_labels, embed_rows
from hsearch.training.folder import RunFolder, read_job
from hsearch.training.pretrained import local_weights
from hsearch.training.setup import build_step, open_job_store, pick_device
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
    step = job_network(job, store, RunFolder(path).best)
    see = see_labels if store.tag_names else embed_part
    return see(step, job, store, part_rows(job, store, part), progress)


def job_network(job: FoldJob, store: Store, checkpoint: Path | None = None) -> TrainingStep:
    """Returns the network of a job with the weights of a checkpoint, or as it is before training.

    Args:
        job: What is trained.
        store: The job's data.
        checkpoint: That a run of the job has written.
    """
    hierarchy = split_store(store, job.splits).fold(job.fold).hierarchy
    step = build_step(job, hierarchy, pick_device(), restored=checkpoint is not None)
    if checkpoint is not None:
        load_checkpoint(checkpoint, step)
    return step


def embed_frozen(job: FoldJob, part: Part) -> Embedded:
    """Returns the images of some classes as the job's backbone sees them before any training.

    Its pooled features are compared by cosine, without a head. Random weights are those with which
    the training of fold 0 begins.
    """
    store = open_job_store(job)
    return embed_part(_Frozen(job).to(pick_device()), job, store, part_rows(job, store, part))


class _Frozen(nn.Module):
    """The backbone of a job as it comes, with its pooling."""

    curvature = 0.0

    def __init__(self, job: FoldJob) -> None:
        super().__init__()
        spec = local_weights(job.training.model)
        seed = seed_for(job.seed, "model", 0)
        self.embedder = Embedder(spec, seed=seed, features="pooled")

    def embed(self, images: Tensor) -> Tensor:
        """Maps (B, 3, S, S) images to (B, C) features of norm 1."""
        return l2_normalise(self.embedder(images))


def see_labels(
    step: LabelNetwork,
    job: FoldJob,
    store: Store,
    part: PartRows,
    progress: Progress | None = None,
) -> LabelEmbedded:
    """Returns images with several labels each as a network sees them; as `embed_part` else."""
    rows, image = part.rows, job.training.image
    pixels = open_pixels(store, rows, image.resize)
    return embed_labels(step, pixels, rows, store.tags[rows], store.tag_names, image, progress)


def embed_part(
    step: Network,
    job: FoldJob,
    store: Store,
    part: PartRows,
    progress: Progress | None = None,
) -> Embedded:
    """Returns images of a part as a network sees them; `progress` as in `embed_run`."""
    rows, image = part.rows, job.training.image
    embeddings = embed_rows(step, open_pixels(store, rows, image.resize), rows, image, progress)
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
