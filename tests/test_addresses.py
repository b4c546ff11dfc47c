from pathlib import Path

import pytest

from hsearch.addresses import (
    Address,
    address_in,
    is_address,
    read_address,
    read_place,
    shared_place,
)
from hsearch.errors import DatasetError


@pytest.mark.parametrize(
    ("uri", "path", "options"),
    [
        ("s3://bucket/a/mine.arrow", "bucket/a/mine.arrow", {}),
        ("S3://bucket/mine.arrow", "bucket/mine.arrow", {}),
        ("gs://bucket/mine.arrow?anonymous=true", "bucket/mine.arrow", {"anonymous": "true"}),
        ("file:///a/mine.arrow", "/a/mine.arrow", {}),
        ("file:/a/mine.arrow", "/a/mine.arrow", {}),
        ("file://localhost/a%20b/mine.arrow", "/a b/mine.arrow", {}),
        (
            "s3://bucket/mine.arrow?endpoint_override=host:9000&scheme=http",
            "bucket/mine.arrow",
            {"endpoint_override": "host:9000", "scheme": "http"},
        ),
    ],
)
def test_an_address_is_read(uri, path, options):
    assert is_address(uri)
    address = read_address(uri)
    assert (address.path, address.options, address.name) == (path, options, "mine")
    assert str(address) == uri


@pytest.mark.parametrize("text", ["mine", "a/b.arrow", "/s3/b.arrow", "./s3:b.arrow", "c:d.arrow"])
def test_names_and_paths_are_no_addresses(text):
    assert not is_address(text)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("https://host/mine.arrow", "begins with one of file:, s3:, gs:, not 'https:'"),
        ("s3a://bucket/mine.arrow", "not 's3a:'"),
        ("s3:bucket/mine.arrow", r"must look like s3://bucket/folder/name\.arrow"),
        ("s3:///mine.arrow", "must look like s3://bucket"),
        ("s3://[bucket/mine.arrow", "must look like s3://bucket"),
        ("file:mine.arrow", "must look like file:///folder"),
        ("file://host/mine.arrow", "must look like file:///folder"),
        ("s3://bucket", "must look like s3://bucket"),
        ("s3://bucket/mine", r"names a \.arrow file, but 's3://bucket/mine' does not"),
        ("s3://bucket/mine.csv", r"names a \.arrow file"),
        ("file:///a%00/mine.arrow", r"must look like file:///folder"),
    ],
)
def test_a_wrong_address_ends_in_a_sentence(uri, message):
    assert is_address(uri)
    with pytest.raises(DatasetError, match=message):
        read_address(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://KEY:HUSH@bucket/mine.arrow",
        "s3://KEY:HU/HUSH@bucket/mine.arrow",
        "s3://HUSH@bucket/mine.arrow",
        "s3://bucket/mine.arrow?secret_key=HUSH",
        "s3://bucket/mine.arrow?endpoint_override=KEY:HUSH@host",
        "gs://HUSH@bucket/mine.arrow",
        "gs://bucket/mine.arrow?access_token=HUSH",
        "file://KEY:HUSH@localhost/mine.arrow",
        "file:///mine.arrow?key=HUSH",
    ],
)
def test_credentials_are_refused_and_not_repeated(uri):
    for read in (read_address, lambda uri: address_in(uri, "mine")):
        with pytest.raises(DatasetError, match="must not hold credentials") as caught:
            read(uri)
        assert "HUSH" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "expected", "path"),
    [
        ("s3://bucket", "s3://bucket/a/b", "bucket/a/b"),
        ("gs://bucket/c/?anonymous=true", "gs://bucket/c/a/b?anonymous=true", "bucket/c/a/b"),
        ("file:///", "file:/a/b", "/a/b"),
        ("file:///c%20d", "file:///c%20d/a/b", "/c d/a/b"),
    ],
)
def test_a_folder_elsewhere_has_folders(uri, expected, path):
    folder = read_place(uri)
    assert isinstance(folder, Address)
    inner = folder / "a" / "b"
    assert (str(inner), inner.path) == (expected, path)
    assert read_place(str(inner)) == inner


def test_a_place_may_be_a_path(monkeypatch):
    assert read_place("a/b") == Path("a/b")
    monkeypatch.delenv("HSEARCH_SHARED", raising=False)
    assert shared_place() is None
    monkeypatch.setenv("HSEARCH_SHARED", "~/shared")
    assert shared_place() == Path.home() / "shared"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("https://host/a", "The address of a folder begins with one of file:, s3:, gs:"),
        ("s3:bucket/a", r"must look like s3://bucket/folder\.$"),
        ("s3:///a", r"must look like s3://bucket/folder\.$"),
        ("file:a", r"must look like file:///folder\.$"),
        ("s3://KEY:HUSH@bucket", "must not hold credentials"),
    ],
)
def test_a_wrong_address_of_a_folder_ends_in_a_sentence(uri, message):
    with pytest.raises(DatasetError, match=message) as caught:
        read_place(uri)
    assert "HUSH" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket", "s3://bucket/mine.arrow"),
        ("s3://bucket/a/", "s3://bucket/a/mine.arrow"),
        ("s3://bucket/a/other.arrow", "s3://bucket/a/other.arrow"),
        ("s3://bucket/a?region=r", "s3://bucket/a/mine.arrow?region=r"),
        ("file:///", "file:/mine.arrow"),
    ],
)
def test_a_folder_gets_the_name(uri, expected):
    assert str(address_in(uri, "mine")) == expected
