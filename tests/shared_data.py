"""Real data that lie beside the project and are no part of it."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """A file or folder of them; a test that needs one is marked `realdata`."""
    if not (SHARED / name).exists():
        pytest.fail(f"This test needs `../shared/data/{name}` beside the project's folder.")
    return SHARED / name
