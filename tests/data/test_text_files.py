import os

import pytest

from hsearch.data.text_files import is_number, read_json, read_json_list, read_lines
from hsearch.errors import DatasetError


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_of_any_system(tmp_path, ends, mark):
    path = tmp_path / "x.txt"
    path.write_bytes((mark + ends.join(["1 a b.jpg", "", "2\tc.jpg", ""])).encode())
    assert list(read_lines(path, columns=2)) == [(1, ["1", "a b.jpg"]), (3, ["2", "c.jpg"])]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"1 a\n2\n", "Line 2 of .* must have 2 columns, but has 1"), (b"\xff\xfe1", "UTF-8")],
)
def test_wrong_lines_are_sentences(tmp_path, content, message):
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        list(read_lines(tmp_path / "x.txt", columns=2))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_json_is_read(tmp_path, mark):
    path = tmp_path / "x.json"
    path.write_bytes((mark + "[1,\r\n 2]").encode())
    assert read_json_list(path) == [1, 2]
    path.write_bytes((mark + '{"names":\r\n ["a", "\u00e9"]}').encode())
    assert read_json(path) == {"names": ["a", "\u00e9"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n  }', "x.json must be JSON, but is not from line 2, column 3 on"),
        (b"", "must be JSON, but is not from line 1, column 1 on"),
        (b"[1, 2]", "x.json must hold a JSON object, but something else begins at line 1"),
        (b"null", "must hold a JSON object"),
        (b"\xff\xfe{}", "x.json must be UTF-8 text"),
        (b'{"a":' * 100_000, "x.json must be JSON of ordinary depth"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "x.json must be JSON of ordinary depth and numbers"),
    ],
)
def test_wrong_json_is_one_sentence(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_json(tmp_path / "x.json")
    assert "\n" not in str(caught.value)
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(DatasetError, match="must hold a JSON list"):
        read_json_list(tmp_path / "x.json")


def test_a_key_can_be_left_out_of_json(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [{"b": 1, "c": 2}, {"b": {"b": 3}}], "b": 4}')
    assert read_json(tmp_path / "x.json", without="b") == {"a": [{"c": 2}, {}]}


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_list_must_be_a_file(tmp_path, make):
    make(tmp_path / "x.txt")
    with pytest.raises(DatasetError, match=r"x\.txt must be a file, but is none"):
        list(read_lines(tmp_path / "x.txt"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", True), ("123456789012345678", True), ("9" * 19, False), ("٣", False), ("-1", False)],
)
def test_numbers_have_a_usual_length(text, expected):
    assert is_number(text) == expected
