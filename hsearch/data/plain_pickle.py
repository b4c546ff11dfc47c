"""Reads pickles of plain data and NumPy arrays; builds no object and calls nothing they name.

It knows dicts, lists, tuples, numbers and strings of protocols 2 and 3, and of all names only
those that NumPy writes an array with. Long strings stay in the mapped file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hsearch.data.raw_images import RawArray, mapped
from hsearch.errors import DatasetError

MAX_CONTAINERS = 100
"""So many lists, tuples and dicts may be in a pickle, and so none nests deeper; CIFAR has ten."""


def read_plain_pickle(path: Path) -> object:
    """Returns the value of a pickle file: strings of Python 2 as bytes, arrays as `RawArray`."""
    machine = _Machine(path)
    try:
        return machine.run()
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        raise DatasetError(
            f"The pickle {path} is damaged or cut off at byte {machine.at}; get it again."
        ) from None


class _Machine:
    """The stack of values that the operations of a pickle work on (see Python's pickletools)."""

    def __init__(self, path: Path) -> None:
        self.path, self.file, self.at = path, mapped(path), 0
        self.stack: list[Any] = []
        self.containers = 0
        self.memo: dict[int, object] = {}

    def run(self) -> object:
        while (code := bytes(self.take(1))) != b".":
            if code in _CONTAINERS:
                self.containers += 1
                if self.containers > MAX_CONTAINERS:
                    raise self.refusal(f"more than {MAX_CONTAINERS} lists, tuples and dicts")
            if code in _CONSTANTS:
                self.stack.append(_CONSTANTS[code])
            elif code in _VALUES:
                self.stack.append(_VALUES[code](self))
            elif code in _ACTIONS:
                _ACTIONS[code](self)
            else:
                raise self.refusal(f"the operation {code!r}")
        return self.stack.pop()

    def refusal(self, what: str) -> DatasetError:
        return DatasetError(
            f"A pickle may only hold plain data and arrays, but {self.path} has {what} before byte "
            f"{self.at}; get it from its official home again."
        )

    def take(self, count: int) -> memoryview:
        self.at += count
        if self.at > len(self.file):
            raise IndexError
        return self.file[self.at - count : self.at]

    def number(self, count: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(count), "little", signed=signed)

    def name(self) -> str:
        lines = [b"".join(iter(lambda: bytes(self.take(1)), b"\n")).decode() for _ in range(2)]
        if " ".join(lines) not in _CALLS:
            raise self.refusal(f"the name '{'.'.join(lines)}'")
        return " ".join(lines)

    def pop(self, count: int | None = None) -> tuple[Any, ...]:
        """Takes values off the stack; without a count, those above the last mark."""
        size = self.stack[::-1].index(_MARK) + 1 if count is None else count
        values = [self.stack.pop() for _ in range(size)][::-1]
        return tuple(values[1:] if count is None else values)

    def reduce(self) -> object:
        name, args = self.pop(2)
        if not isinstance(name, str):
            raise TypeError
        return _CALLS[name](*args)

    def add(self, values: tuple[Any, ...]) -> None:
        if isinstance(holder := self.stack[-1], dict):
            if not all(isinstance(key, bytes | str | int) for key in values[::2]):
                raise self.refusal("a key that is neither text nor a number")
            holder.update(zip(values[::2], values[1::2], strict=True))
        else:
            holder.extend(values)

    def build(self, state: tuple[Any, ...]) -> None:
        if isinstance(made := self.stack[-1], RawArray):  # of a dtype, only the name is kept
            _, made.shape, made.dtype, is_fortran, data = state
            made.order, made.data = "F" if is_fortran else "C", memoryview(data)


_MARK = object()
_CONTAINERS = (b"]", b"}", b"\x85", b"\x86", b"\x87", b"t")
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False, b"(": _MARK, b")": ()}
_CALLS: dict[str, Callable[..., object]] = {
    "numpy ndarray": lambda *_: RawArray(),
    "numpy.core.multiarray _reconstruct": lambda *_: RawArray(),
    "numpy._core.multiarray _reconstruct": lambda *_: RawArray(),
    "numpy dtype": lambda name, *_: name if isinstance(name, str) else name.decode(),
    "_codecs encode": lambda text, _: text.encode("latin1"),  # bytes, written for Python 2
}
_VALUES: dict[bytes, Callable[[_Machine], object]] = {
    **dict.fromkeys((b"U", b"C"), lambda m: bytes(m.take(m.number(1)))),
    **dict.fromkeys((b"T", b"B"), lambda m: m.take(m.number(4))),
    b"X": lambda m: bytes(m.take(m.number(4))).decode(),
    b"K": lambda m: m.number(1),
    b"M": lambda m: m.number(2),
    b"J": lambda m: m.number(4, signed=True),
    b"]": lambda _: [],
    b"}": lambda _: {},
    b"\x85": lambda m: m.pop(1),
    b"\x86": lambda m: m.pop(2),
    b"\x87": lambda m: m.pop(3),
    b"t": lambda m: m.pop(),
    b"h": lambda m: m.memo[m.number(1)],
    b"j": lambda m: m.memo[m.number(4)],
    b"c": lambda m: m.name(),
    b"R": lambda m: m.reduce(),
}
_ACTIONS: dict[bytes, Callable[[_Machine], object]] = {
    b"\x80": lambda m: m.take(1),
    b"q": lambda m: m.memo.update({m.number(1): m.stack[-1]}),
    b"r": lambda m: m.memo.update({m.number(4): m.stack[-1]}),
    b"a": lambda m: m.add(m.pop(1)),
    b"s": lambda m: m.add(m.pop(2)),
    **dict.fromkeys((b"e", b"u"), lambda m: m.add(m.pop())),
    b"b": lambda m: m.build(*m.pop(1)),
}
