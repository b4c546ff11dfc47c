"""Which hsearch this is, to the letter: all machines of a search must have the same."""

import hashlib
from functools import cache
from pathlib import Path

import hsearch


@cache
def code_version() -> str:
    """Returns the version with a digest of the code, such as `0.1.0 (3f0c9a1b)`."""
    folder = Path(hsearch.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{hsearch.__version__} ({digest.hexdigest()[:8]})"
