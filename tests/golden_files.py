"""Golden vectors: recorded inputs, settings and results of the methods' and metrics' official code.

A vector is `NAME.json` (settings, results, tolerances) with, mostly, `NAME.npz` (arrays) beside it.
It comes from the folder in the environment variable HSEARCH_GOLDEN, or else from tests/golden.
"""

import fnmatch
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OWN_FOLDER = Path(__file__).parent / "golden"
DEFAULT_RTOL = 1e-9


def names(pattern: str) -> list[str]:
    """Returns the sorted names of all vectors that match a shell pattern such as `hpl_*`."""
    found = {path.stem for folder in _folders() for path in folder.glob("*.json")}
    return sorted(fnmatch.filter(found, pattern))


def load(name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns the settings and the arrays (none, if there is no .npz) of a vector."""
    folder = next((folder for folder in _folders() if (folder / f"{name}.json").is_file()), None)
    if folder is None:
        raise FileNotFoundError(f"no golden vector '{name}' in {_folders()}")
    meta = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    if not (folder / f"{name}.npz").is_file():
        return meta, {}
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        return meta, {key: arrays[key] for key in arrays.files}


def tolerance(meta: dict[str, Any]) -> dict[str, Any]:
    """Returns `rtol` and `atol` of a vector, ready for `np.testing.assert_allclose`."""
    return {
        "rtol": float(meta.get("suggested_rtol", DEFAULT_RTOL)),
        "atol": float(meta.get("suggested_atol", 0.0)),
    }


def _folders() -> list[Path]:
    given = os.environ.get("HSEARCH_GOLDEN")
    return [Path(given), OWN_FOLDER] if given else [OWN_FOLDER]
