"""An image folder tree: every folder above an image is one level of its label path.

All images lie equally deep, so `animals/cats/tabby/1.jpg` has three levels. If the folders at the
top have names of splits only (train, val or validation, test), these are no level. Hidden files are
passed over; any other file counts as an image and must be one. Levels are called level_0 and so on,
or as --levels says.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from hsearch.data.images import SUFFIXES
from hsearch.data.records import SPLITS, LevelNames, Problem, Record, check_num_levels
from hsearch.errors import DatasetError


def records(
    path: Path, levels: tuple[str, ...] | None = None
) -> Iterator[Record | Problem | LevelNames]:
    """Yields the images of the tree below `path`, sorted by their relative path.

    Args:
        path: The folder.
        levels: Names of the levels, coarsest first.
    """
    if not path.is_dir():
        raise DatasetError(f"An image folder tree must be a folder, but {path} is none.")
    root = path.resolve()
    found = list(_walk(root, root, ()))
    images = [parts for parts in found if not isinstance(parts, Problem)]
    depth = _depth(path, images)
    tops = {parts[0] for parts in images if len(parts) == depth + 1}
    first = 1 if depth > 1 and all(SPLITS.get(top.lower()) for top in tops) else 0
    if levels is not None:
        example = next(parts for parts in images if len(parts) == depth + 1)
        check_num_levels(levels, example[first:-1], path)
        yield LevelNames(levels)
    for parts in found:
        if isinstance(parts, Problem):
            yield parts
        elif len(parts) != depth + 1:
            yield Problem("/".join(parts), "not an image")
        else:
            split = parts[0] if first else ""
            yield Record("/".join(parts), root.joinpath(*parts), parts[first:-1], split)


def _walk(
    root: Path, folder: Path, parents: tuple[str, ...]
) -> Iterator[tuple[str, ...] | Problem]:
    """Yields the relative path of every file as a tuple of names."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        yield Problem("/".join(parents) or str(folder), "unreadable folder")
        return
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    if not visible and parents:
        yield Problem("/".join(parents), "empty folder")
    for entry in visible:
        parts = (*parents, entry.name)
        fault = _fault(root, entry)
        if fault:
            yield Problem(os.fsencode("/".join(parts)).decode(errors="backslashreplace"), fault)
        elif entry.is_dir():
            yield from _walk(root, Path(entry.path), parts)
        else:
            yield parts


def _fault(root: Path, entry: os.DirEntry[str]) -> str | None:
    """Why a file or folder cannot be used by its name or kind alone."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in entry.name):
        return "name is not UTF-8"
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(root):
            return "symlink out of the tree"
        if not target.is_file():
            return "symlink to a folder or to nothing"
    elif not (entry.is_dir() or entry.is_file()):
        return "neither file nor folder"
    return None


def _depth(path: Path, images: list[tuple[str, ...]]) -> int:
    """The number of folders above the images; files that cannot be images have no say."""
    examples: dict[int, list[str]] = defaultdict(list)
    for parts in images:
        if parts[-1].lower().endswith(SUFFIXES):
            examples[len(parts) - 1].append("/".join(parts))
    if not examples:
        raise DatasetError(f"The folder {path} holds no JPEG, PNG or WEBP file.")
    if len(examples) > 1:
        counts = ", ".join(
            f"{len(files)} lie {depth} deep (such as {files[0]})"
            for depth, files in sorted(examples.items())
        )
        raise DatasetError(f"All images must lie equally deep, but {counts}; move them.")
    (depth,) = examples
    if depth == 0:
        raise DatasetError(
            f"Images must lie in one folder per class, but those of {path} lie in no folder."
        )
    return depth
