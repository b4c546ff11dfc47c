"""The public face: every promised name is there, and importing the package costs nothing."""

import subprocess
import sys

import pytest

import hsearch


def test_names_are_pinned():
    assert hsearch.__all__ == sorted(hsearch._HOMES)


@pytest.mark.parametrize("name", hsearch.__all__)
def test_every_name_can_be_imported_and_is_documented(name):
    assert getattr(hsearch, name).__doc__


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hsearch.nothing


def test_import_is_light():
    code = "import sys, hsearch; print(sorted({'torch', 'numpy', 'ray'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
