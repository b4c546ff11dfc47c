"""Real data that lie beside the project and are no part of it."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """A file or folder of them; a test that needs one is marked `realdata`.

    Where they are not, the test is skipped, but fails if `CI` is set: there none may be left out.
    """
    if not (SHARED / name).exists():
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"This test needs `../shared/data/{name}` beside the project's folder.")
    return SHARED / name
