"""What a source yields, and what the store writer reports about it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hsearch.errors import DatasetError

SPLITS = {"": "", "train": "train", "trainval": "train", "val": "train", "test": "test"}
"""Accepted names of splits, in any case, and what the store calls them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One image of a source.

    Attributes:
        id: Unique inside the data set.
        image: The file, or its bytes.
        labels: The label path, coarsest level first.
        split: As the source calls it, see `SPLITS`.
        is_query: Whether it may be a query.
        is_gallery: Whether it may be retrieved.
        order: Number of the class where the data set has one; classes are sorted by it and then
            by their label path as text.
    """

    id: str
    image: Path | bytes
    labels: tuple[str, ...]
    split: str = ""
    is_query: bool = True
    is_gallery: bool = True
    order: int = 0

    @property
    def class_key(self) -> tuple[int, str, tuple[str, ...]]:
        """What classes are sorted by."""
        return self.order, "/".join(self.labels), self.labels


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot become part of a store.

    Attributes:
        where: The id, file or class.
        reason: In a few words, the same for all of a kind.
    """

    where: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What a preparation found.

    Attributes:
        images: Images that are, or would be, in the store.
        classes: Their classes.
        problems: What was left out, or stands in the way.
        duplicates: Groups of ids whose images are byte for byte the same; kept, but worth a look.
    """

    images: int
    classes: int
    problems: tuple[Problem, ...]
    duplicates: tuple[tuple[str, ...], ...]

    def by_reason(self) -> dict[str, list[str]]:
        """Returns where each kind of problem occurred, most frequent first."""
        groups: dict[str, list[str]] = defaultdict(list)
        for problem in self.problems:
            groups[problem.reason].append(problem.where)
        return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


class BadFilesError(DatasetError):
    """Files that cannot become part of a store; `report` lists them all."""

    def __init__(self, report: Report) -> None:
        reasons = (
            f"{len(places)} {reason} (such as {places[0]})"
            for reason, places in report.by_reason().items()
        )
        super().__init__(
            f"Nothing was written, because {len(report.problems)} entries cannot be used: "
            f"{'; '.join(reasons)}. Correct them, or go on without them with --skip-bad."
        )
        self.report = report


def split_name(given: str, where: str) -> str:
    """Returns the store's name of a split: `train`, `test`, or empty where none was given."""
    name = SPLITS.get(given.strip().lower())
    if name is None:
        accepted = ", ".join(key for key in SPLITS if key)
        raise DatasetError(f"The split of {where} must be one of {accepted}, but is '{given}'.")
    return name


def check_depths(records: Sequence[Record]) -> None:
    """Raises unless there are images and all label paths have the same depth of at least one."""
    if not records:
        raise DatasetError("No image was found that could be used; a store needs at least two.")
    depths = {len(record.labels): record.id for record in records}
    if len(depths) > 1 or 0 in depths:
        found = ", ".join(f"{depth} ({where})" for depth, where in sorted(depths.items()))
        raise DatasetError(f"All label paths must have the same depth, but found: {found}.")
