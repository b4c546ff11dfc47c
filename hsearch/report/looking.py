"""A trained run as pictures need it: its images before and after training, with the proxies."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hsearch.data.progress import Progress, silent
from hsearch.data.records import LEVEL_TESTS
from hsearch.data.splits import split_store
from hsearch.data.store import Store
from hsearch.errors import ConfigError
from hsearch.evaluation.scoring import Embedded
from hsearch.methods import ProxyView
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder, read_job
from hsearch.training.score import PartRows, embed_part, job_network, part_rows
from hsearch.training.setup import open_job_store

LookPart = Literal["validation", "test"]


@dataclass(frozen=True, eq=False)
class Seen:
    """What one network makes of the images: their embeddings, and its method's proxies."""

    embedded: Embedded
    proxies: ProxyView | None


@dataclass(frozen=True, eq=False)
class Look:
    """A run that is looked at.

    Attributes:
        job: What was trained.
        store: Its data.
        part: Whose classes are shown.
        rows: (N,) the rows of their images; all embeddings are in this order.
        train_classes: (C,) the store's number of every training class, for the proxies.
        before: By the network before training.
        after: By that of the best epoch.
    """

    job: FoldJob
    store: Store
    part: LookPart
    rows: NDArray[np.int64]
    train_classes: NDArray[np.int64]
    before: Seen
    after: Seen

    @property
    def title(self) -> str:
        """What was trained and what is shown, in a few words."""
        return f"{self.job.method.name} on {self.job.data_name}, {self.part} classes"

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, coarsest first."""
        return self.store.hierarchy.level_names

    def names(self, level: int) -> tuple[str, ...]:
        """Names of a level's labels."""
        return self.store.hierarchy.names[level]


def look_at(run: Path, part: LookPart, progress: Progress = silent) -> Look:
    """Embeds the images of a run twice: as before training, and by its best epoch.

    Args:
        run: A folder that `hsearch train` or a search has written.
        part: Whose classes: the fold's `validation`, or `test`.
        progress: Told what goes on, how much of it is done, and of how much.

    Raises:
        ConfigError: There are no such images, or they are tested level by level.
    """
    job, store, shown = shown_rows(run, part)
    fold = split_store(store, job.splits).fold(job.fold)
    before = _see(job, store, None, shown, partial(progress, "embedding, before training"))
    after = _see(job, store, RunFolder(run).best, shown, partial(progress, "embedding, trained"))
    return Look(job, store, part, shown.rows, fold.classes, before, after)


def shown_rows(run: Path, part: LookPart) -> tuple[FoldJob, Store, PartRows]:
    """Returns the job of a run, its data, and the rows of the images that are shown.

    Raises:
        ConfigError: There are no such images, or they are tested level by level.
    """
    job = read_job(run)
    store = open_job_store(job)
    shown = part_rows(job, store, part)
    if part == "test" and np.isin(store.split[shown.rows], list(LEVEL_TESTS)).any():
        raise ConfigError(
            f"The data '{store.name}' have a test set of their own for every level, which these "
            "pictures cannot show; look with `--on validation`."
        )
    return job, store, shown


def _see(
    job: FoldJob,
    store: Store,
    checkpoint: Path | None,
    shown: PartRows,
    progress: "partial[None]",
) -> Seen:
    step = job_network(job, store, checkpoint)
    return Seen(embed_part(step, job, store, shown, progress), step.method.proxy_view())
