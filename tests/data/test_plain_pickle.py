import os
import pickle
import struct

import numpy as np
import pytest

from hsearch.data.plain_pickle import read_plain_pickle
from hsearch.data.raw_images import RawArray
from hsearch.errors import DatasetError


def short(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def python2_pickle(filenames, labels, pixels: np.ndarray) -> bytes:
    """The bytes that Python 2 and its NumPy write with protocol 2 for a batch of CIFAR-100."""
    data = pixels.tobytes()
    rows, columns = pixels.shape
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x10cnumpy\nndarray\nq\x11K\x00\x85U\x01b\x87Rq\x12"
        b"(K\x01M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", columns) + b"\x86"
        b"cnumpy\ndtype\nq\x13U\x02u1K\x00K\x01\x87Rq\x14(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<i", len(data)) + data + b"tb"
    )
    return (
        b"\x80\x02}q\x01("
        + short(b"filenames") + b"q\x02]q\x03(" + b"".join(map(short, filenames)) + b"e"
        + short(b"fine_labels") + b"r\x00\x01\x00\x00](" + b"".join(b"K%c" % x for x in labels)
        + b"e" + short(b"data") + array + b"u."
    )  # fmt: skip


def read(tmp_path, data: bytes):
    path = tmp_path / "train"
    path.write_bytes(data)
    return read_plain_pickle(path)


PIXELS = np.arange(600, dtype=np.uint8).reshape(3, 200)
NAMES = [b"a.png", b"b.png", b"c.png"]


def values(array: RawArray) -> np.ndarray:
    return np.frombuffer(array.data, array.dtype).reshape(array.shape, order=array.order)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_python_3_writes(tmp_path, protocol, order):
    given = {
        b"filenames": NAMES,
        "text": "å",
        b"data": np.array(PIXELS, order=order),
        b"one": [1],
        b"none": [],
        b"numbers": (0, 255, 256, 65536, -1),
        b"marks": {"a": (None, True, False), "b": ((), (1,), (1, 2), (1, 2, 3))},
        b"again": NAMES,
        b"many": list(range(2500)),
    }
    found = read(tmp_path, pickle.dumps(given, protocol))
    assert isinstance(found, dict)
    array = found.pop(b"data")
    assert (values(array) == PIXELS).all()
    assert (array.dtype, array.order) == ("u1", order)
    assert found == {key: value for key, value in given.items() if key != b"data"}


def test_what_python_2_wrote(tmp_path):
    data = python2_pickle(NAMES, [19, 29, 0], PIXELS)
    peer = pickle.loads(data, encoding="bytes")
    assert (peer[b"data"] == PIXELS).all()
    found = read(tmp_path, data)
    assert isinstance(found, dict)
    array = found.pop(b"data")
    assert array.shape == (3, 200)
    assert (values(array) == PIXELS).all()
    assert found == {b"filenames": NAMES, b"fine_labels": [19, 29, 0]}


def test_long_strings_stay_in_the_file(tmp_path):
    found = read(tmp_path, python2_pickle(NAMES, [0, 0, 0], PIXELS))
    assert isinstance(found[b"data"].data, memoryview)
    assert type(found[b"data"].data.obj).__name__ == "mmap"


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("depth", [0, 1])
def test_nothing_is_ever_run(tmp_path, protocol, depth):
    mark = tmp_path / "run"
    evil = Evil(os.system, (f"touch {mark}",))
    with pytest.raises(DatasetError, match="only hold plain data and arrays") as caught:
        read(tmp_path, pickle.dumps([evil, {"x": evil}] if depth else evil, protocol))
    assert "\n" not in str(caught.value)
    assert not mark.exists()
    pickle.loads(pickle.dumps(evil, protocol))
    assert mark.exists()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"cos\nsystem\n(U\x04truetR.", "the name 'os.system'"),
        (b"cnumpy\nload\n.", "the name 'numpy.load'"),
        (b"(U\x04trueios\nsystem\n.", "the operation b'i'"),
        (b"Pid\n.", "the operation b'P'"),
        (b"\x82\x01.", r"the operation b'\\x82'"),
        (b"I1\n.", "the operation b'I'"),
    ],
)
def test_everything_else_is_refused(tmp_path, data, what):
    with pytest.raises(DatasetError, match=f"but .* has {what} before byte"):
        read(tmp_path, data)


DEEP = b")" + b"\x85" * 90
"""Tuples in tuples."""


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"}" + DEEP + b"K\x01s.", "a key that is neither text nor a number"),
        (b"})" + b"\x85" * 200_000 + b"K\x01s.", "more than 100 lists, tuples and dicts"),
        (b"]" * 101 + b".", "more than 100 lists, tuples and dicts"),
    ],
)
def test_keys_are_plain_and_nothing_nests_deep(tmp_path, data, what):
    """To hash a tuple in a tuple in a tuple and so on would end the process."""
    with pytest.raises(DatasetError, match=f"but .* has {what} before byte"):
        read(tmp_path, data)


@pytest.mark.parametrize(
    "data",
    [
        DEEP + b")R.",
        b"",
        b".",
        b"K",
        b"N",
        b"e.",
        b"h\x00.",
        b"}(K\x01u.",
        b"}](K\x01us.",
        b"K\x01(K\x01e.",
        b"X\x01\x00\x00\x00\xff.",
        b"cnumpy\n\xff\n.",
        b"cnumpy",
        b"U\x02os(U\x02lstR.",
        b"T\xff\xff\xff\xffabc.",
        b"c_codecs\nencode\nK\x01K\x02\x86R.",
        b"cnumpy\nndarray\n)R(K\x01tb.",
        b"cnumpy\nndarray\n)R(K\x01)U\x02u1\x89]tb.",
    ],
)
def test_damaged_ones_are_refused(tmp_path, data):
    with pytest.raises(
        DatasetError, match=r"train is damaged or cut off at byte \d+; get it again"
    ):
        read(tmp_path, data)


def test_cut_off_anywhere(tmp_path):
    data = python2_pickle(NAMES, [1, 2, 3], PIXELS[:, :20])
    for end in range(len(data)):
        with pytest.raises(DatasetError, match="damaged or cut off"):
            read(tmp_path, data[:end])


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(DatasetError, match="cannot be read"):
        read_plain_pickle(tmp_path)
