"""Passwords of databases where libpq itself looks for them: ~/.pgpass, for its user alone."""

import os
import re
import secrets
from pathlib import Path

from hsearch.files import replacing

_MODE = 0o600


def password_for(host: str, port: int, user: str) -> str:
    """Returns the password of a user; one that has none yet gets one, before all other entries.

    The first entry that fits is the one that counts.
    """
    path = Path.home() / ".pgpass"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    start = f"{host}:{port}:*:{user}:"
    for line in lines:
        if line.startswith(start):
            return re.sub(r"\\(.)", r"\1", line.removeprefix(start))
    password = secrets.token_hex(32)
    with replacing(path) as temporary:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in (start + password, *lines))
    return password
