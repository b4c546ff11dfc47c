"""YAML reading: plain data comes through, every trap ends in a sentence with file and line."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import ConfigError
from hsearch.yaml_file import read_yaml


def write(tmp_path: Path, text: str | bytes) -> Path:
    folder = tmp_path / "spaces"
    folder.mkdir(exist_ok=True)
    path = folder / "case.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Text without digits: `1e5` as unquoted text is refused on purpose.
words = st.text(st.characters(exclude_categories=["Cs", "Nd"]))
scalars = st.none() | st.booleans() | st.integers() | words | st.floats(allow_nan=False)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@settings(max_examples=40, deadline=None)
@given(content=st.dictionaries(st.text(), values))
def test_whatever_yaml_dumps_as_plain_data_is_read_back(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "dumped.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert read_yaml(path).content == content


def test_lines_are_those_of_the_keys(tmp_path):
    file = read_yaml(write(tmp_path, "# top\na: 1\nb:\n  c.d:\n    - 5\n    - {low: 1}\n"))
    assert file.content == {"a": 1, "b": {"c.d": [5, {"low": 1}]}}
    assert file.lines[("b", "c.d")] == 4
    assert file.lines[("b", "c.d", "1", "low")] == 6
    assert str(file.error("no.", "b", "c.d", "0")) == "spaces/case.yaml:5: no."


def test_an_error_at_a_missing_key_names_the_nearest_parent(tmp_path):
    file = read_yaml(write(tmp_path, "a: 1\nb:\n  c: 1\n"))
    assert str(file.error("no.", "b", "absent", "deeper")) == "spaces/case.yaml:2: no."
    assert str(file.error("no.")) == "spaces/case.yaml:1: no."


def test_an_empty_file_is_an_empty_mapping(tmp_path):
    assert read_yaml(write(tmp_path, "# nothing\n")).content == {}


@pytest.mark.parametrize(
    ("given_number", "advice"),
    [
        ("1e-3", "1.0e-3"),
        ("-2E6", "-2.0e+6"),
        ("1.5e3", "1.5e+3"),
        (".5e3", ".5e+3"),
        ("3.e+2", None),
        ("1.0e-3", None),
    ],
)
def test_scientific_notation_is_a_number_or_an_error_whose_advice_works(
    tmp_path, given_number, advice
):
    path = write(tmp_path, f"first: 0\nsecond: [{given_number}]\n")
    if advice is None:
        assert read_yaml(path).content["second"] == [float(given_number)]
        return
    with pytest.raises(ConfigError, match=r"spaces/case.yaml:2: YAML reads .* as text") as caught:
        read_yaml(path)
    assert f"write `{advice}`" in str(caught.value)
    fixed = read_yaml(write(tmp_path, f"second: {advice}\n")).content["second"]
    assert fixed == float(given_number)
    assert isinstance(fixed, float)


def test_quoted_scientific_notation_is_text(tmp_path):
    assert read_yaml(write(tmp_path, 'a: "1e-3"\n')).content == {"a": "1e-3"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' stands twice"),
        ("a:\n  b: 1\n  b: 1\n", 3, "the key 'b' stands twice"),
        ("- 1\n- 2\n", 1, "must hold a mapping"),
        ("just text\n", 1, "must hold a mapping"),
        ("a: 1\nb: [1, 2\n", 3, "not valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        ("a: 1\n? [x, y]\n: 2\n", 2, "a key must be a single word"),
        ("a: 1\nb: 2020-02-30\n", 2, "a timestamp is not read here"),
        ("a: !!binary aGk=\n", 1, "a binary is not read here"),
        ("a: !mine 3\n", 1, "a !mine is not read here"),
        ("a: !!python/object/apply:os.getcwd []\n", 1, "python/object/apply:os.getcwd is not read"),
        ("a: &x [1]\nb: *x\n", 1, "aliases are not read"),
        ("a: &x [*x]\n", 1, "aliases are not read"),
        ("a: 1\nb: !!int text\n", 2, "no usable number"),
        ("a: 1\nb: " + "9" * 5000 + "\n", 2, "no usable number"),
    ],
)
def test_a_fault_names_file_and_line(tmp_path, text, line, message):
    with pytest.raises(ConfigError) as caught:
        read_yaml(write(tmp_path, text))
    assert str(caught.value).startswith(f"spaces/case.yaml:{line}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: \xff\xfe\n", "not a UTF-8 text file"),
        (b"a: \x00\n", "not a UTF-8 text file"),
        ("a: " + "[" * 5000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_text_ends_in_one_sentence(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_yaml(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"gone.yaml cannot be read: No such file"):
        read_yaml(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path)
