"""What a source yields, and what the store writer reports about it."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hsearch.errors import DatasetError

VALIDATION = ("validation", "valid", "val", "dev")
SPLITS = {
    "": "",
    **dict.fromkeys(("train", "training", "trainval", *VALIDATION), "train"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""Names of splits that users give, in any case, and what the store calls them."""

SEEN = "seen"
"""Split of images that are held out although their class is trained on."""

LEVEL_TESTS = ("test-coarse", "test-middle", "test-fine")
"""Splits of data with one test set per level: each image counts at the level of its set."""

Image = Path | bytes | Callable[[], bytes]

Box = tuple[int, int, int, int]

_LEVEL_NAME = re.compile(r"\w[\w .-]{0,39}")
_NUMBERED_LEVEL = re.compile(r"level_\d+")

_REASONS = 3
"""How many reasons a sentence counts."""


@dataclass(frozen=True, slots=True)
class Record:
    """One image of a source.

    Attributes:
        id: Unique inside the data set.
        image: The file, its bytes, or what reads or makes them when they are needed.
        labels: The label path, coarsest level first; empty where images have `tags`.
        split: One of `SPLITS`, `SEEN` or `LEVEL_TESTS`.
        is_query: Whether it may be a query.
        is_gallery: Whether it may be retrieved.
        order: Number of the class where the data set has one; classes are sorted by it and then
            by their label path as text.
        tags: All labels of an image of multi-label data, in any order.
        box: Left, top, right and bottom of the part to keep, in pixels; the whole if not given.
        where: What its user finds it by, if not by its id.
    """

    id: str
    image: Image
    labels: tuple[str, ...]
    split: str = ""
    is_query: bool = True
    is_gallery: bool = True
    order: int = 0
    tags: tuple[str, ...] = ()
    box: Box | None = None
    where: str = field(default="", compare=False)

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


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the whole source that its user should read.

    Attributes:
        text: The sentence.
        images: Files that the source knows and leaves out, if it is about such.
    """

    text: str
    images: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelNames:
    """What the levels are called, where the source or its user names them; coarsest first."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What a preparation found.

    Attributes:
        images: Images that are, or would be, in the store.
        classes: Their classes.
        problems: What was left out, or stands in the way.
        duplicates: Groups of ids whose images are byte for byte the same; kept, but worth a look.
        conflicts: Those of them whose labels differ.
        singles: Classes with one image that were kept because the data set has them so.
        notes: What the source said.
        tags: How many there are; 0 for data with classes.
    """

    images: int
    classes: int
    problems: tuple[Problem, ...]
    duplicates: tuple[tuple[str, ...], ...]
    conflicts: tuple[tuple[str, ...], ...] = ()
    singles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tags: int = 0

    def by_reason(self) -> dict[str, list[str]]:
        """Returns where each kind of problem occurred, most frequent first."""
        groups: dict[str, list[str]] = defaultdict(list)
        for problem in self.problems:
            groups[problem.reason].append(problem.where)
        return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


class BadFilesError(DatasetError):
    """Files that cannot become part of a store; `report` lists them all."""

    def __init__(self, report: Report) -> None:
        groups = report.by_reason()
        counts = [f"{reason}: {len(places)}" for reason, places in groups.items()]
        if len(counts) > _REASONS:
            more = len(counts) - _REASONS
            counts[_REASONS:] = [f"{more} more {'kind' if more == 1 else 'kinds'}"]
        count, it = len(report.problems), "it" if len(report.problems) == 1 else "them"
        others = f"list all with --report FILE.csv, or go on without {it} with --skip-bad"
        super().__init__(
            f"Nothing was written, because {count} {'entry' if count == 1 else 'entries'} cannot "
            f"be used{'' if report.images else ' and nothing else is left'} ({'; '.join(counts)}); "
            f"correct {it}, {others if report.images else 'which --report FILE.csv lists'}."
        )
        self.report = report


def split_name(given: str, where: str) -> str:
    """Returns the store's name of a split; empty where none was given."""
    if given in (SEEN, *LEVEL_TESTS):
        return given
    name = SPLITS.get(given.strip().lower())
    if name is None:
        accepted = ", ".join(key for key in SPLITS if key)
        raise DatasetError(f"The split of {where} must be one of {accepted}, but is '{given}'.")
    return name


def check_level_names(names: Sequence[str]) -> None:
    """Raises unless people and files can be told the names of levels from each other."""
    for level, name in enumerate(names):
        if not _LEVEL_NAME.fullmatch(name):
            raise DatasetError(
                "The name of a level must be up to 40 letters, digits, blanks, '-', '_' and '.', "
                f"and begin with a letter or digit, but got '{name}'."
            )
        if _NUMBERED_LEVEL.fullmatch(name) and name != f"level_{level}":
            raise DatasetError(
                f"Levels are numbered from the coarsest, level_0, on, but level {level} would be "
                f"called '{name}'; give it another name."
            )
    if len({re.sub(r"[ .-]", "-", name.casefold()) for name in names}) < len(names):
        raise DatasetError(f"Levels need different names, but got {', '.join(names)}.")


def check_num_levels(names: Sequence[str], example: Sequence[str], where: object) -> None:
    """Raises unless there is a name for every level.

    Args:
        names: Of the levels.
        example: Something of every level, coarsest first.
        where: What has these levels.
    """
    if len(names) != len(example):
        has = "1 level" if len(example) == 1 else f"{len(example)} levels"
        raise DatasetError(
            f"--levels must name every level, the coarsest first, but got {', '.join(names)}, and "
            f"{where} has {has}, such as {' > '.join(example)}."
        )


def box_from_one(given: Sequence[Any], where: str, *, sized: bool = False) -> Box:
    """Returns the box of a record from corners whose pixels count from 1, the last one included.

    Args:
        given: Left, top, right and bottom, as numbers or text. A 0 is taken for a 1.
        where: Whose box it is, for the message.
        sized: Width and height are given instead of right and bottom.
    """
    try:
        left, top, right, bottom = (int(float(number)) for number in given)
    except (TypeError, ValueError, OverflowError):
        raise DatasetError(
            f"The box of {where} must be four numbers, but is '{' '.join(map(str, given))}'."
        ) from None
    if sized:
        right, bottom = left + right - 1, top + bottom - 1
    return max(left - 1, 0), max(top - 1, 0), right, bottom


def check_depths(records: Sequence[Record]) -> None:
    """Raises unless all label paths have the same depth, or all images have tags instead."""
    if not records:
        raise DatasetError("No image was found that could be used; a store needs at least two.")
    depths = {len(record.labels): record.id for record in records}
    has_tags = any(record.tags for record in records)
    if len(depths) > 1 or (0 in depths) != has_tags:
        found = ", ".join(f"{depth} ({where})" for depth, where in sorted(depths.items()))
        raise DatasetError(f"All label paths must have the same depth, but found: {found}.")
