"""Embeddings that some other program has written, as a NumPy file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hsearch.errors import DatasetError
from hsearch.evaluation.scoring import Similarity

_BLOCK = 2**22  # numbers that are looked at together, so that a check needs little memory
_LARGEST_NORM = 1e18  # float32 still holds the square of twice that


def read_embeddings(path: Path, similarity: Similarity = "cosine") -> NDArray[Any]:
    """Returns the (N, D) embeddings of a .npy file, as float64 if they are so there, else float32.

    For `cosine` every row is scaled to norm 1, so that euclidean order is the order of cosines.

    Raises:
        DatasetError: It is no such file, or a row is not finite, too long, or has no direction.
    """
    given = _mapped(path)
    wide = given.dtype.itemsize > np.dtype(np.float32).itemsize
    embeddings = np.empty(given.shape, np.float64 if wide else np.float32)
    step = max(_BLOCK // given.shape[1], 1)
    for start in range(0, len(given), step):
        rows = np.asarray(given[start : start + step], dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.linalg.norm(rows, axis=1)
        _check(path, rows, norms, start, similarity)
        embeddings[start : start + step] = rows / norms[:, None] if similarity == "cosine" else rows
    return embeddings


def _mapped(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise DatasetError(f"Embeddings come from a file, but there is no file {path}.")
    try:
        given = np.lib.format.open_memmap(path, mode="r")  # knows no pickle, unlike np.load
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"Embeddings come from a .npy file of floating-point numbers, as np.save writes it, "
            f"but {path} cannot be read as one: {str(error).rstrip('.')}."
        ) from None
    if given.ndim != 2 or not given.size or given.dtype.kind != "f":
        raise DatasetError(
            "Embeddings must be floating-point numbers of shape (images, dimensions), but "
            f"{path} has {given.dtype} of shape {given.shape}."
        )
    return given


def _check(
    path: Path,
    rows: NDArray[np.float64],
    norms: NDArray[np.float64],
    start: int,
    similarity: Similarity,
) -> None:
    finite = np.isfinite(rows).all(axis=1)
    rules = [
        (finite, "be finite numbers", "is not"),
        (norms < _LARGEST_NORM, f"be shorter than {_LARGEST_NORM:g}", "is not"),
    ]
    if similarity == "cosine":
        rules.append((norms > 0, "not be zero, which has no direction (--geometry cosine)", "is"))
    for good, rule, wrong in rules:
        if not good.all():
            first = start + int(np.argmin(good))
            raise DatasetError(
                f"Embeddings must {rule}, but row {first} of {path} {wrong} (rows count from 0)."
            )
