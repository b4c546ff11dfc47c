"""How long work tells how far it is."""

from collections.abc import Callable, Iterator

Count = Callable[[int, int], None]
"""Is told how much is done, and of how much."""

Progress = Callable[[str, int, int], None]
"""Is told what goes on, how much of it is done, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


def counted(total: int, progress: Count) -> Iterator[int]:
    """Yields 0 to `total` - 1 and tells of each when it is done."""
    for number in range(total):
        yield number
        progress(number + 1, total)
