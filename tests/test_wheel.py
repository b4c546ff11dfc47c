"""The built wheel: every module, recipe and search space is inside, and they are found there."""

import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns

import pytest

import hsearch
from hsearch.cluster.cluster_file import PROJECT
from hsearch.search.space import available_spaces

ROOT = Path(hsearch.__file__).parent.parent
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The unpacked wheel, built from a copy so that the checkout stays as it is."""
    folder: Path = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for part in PROJECT:  # what the machines of a cluster get
        if (ROOT / part).is_dir():
            copytree(ROOT / part, source / part, ignore=ignore_patterns("__pycache__"))
        else:
            copyfile(ROOT / part, source / part)
    build = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_every_file_is_shipped(site):
    shipped = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    source = site.parent / "source"
    kinds = ("*.py", "*.yaml", "*.csv", "*.txt")
    files = [path for kind in kinds for path in (source / "hsearch").rglob(kind)]
    wanted = {path.relative_to(source).as_posix() for path in files}
    wanted |= {f"hsearch/search_spaces/{path.name}" for path in source.glob("search_spaces/*.yaml")}
    assert wanted - shipped == set(), "a room is missing in pyproject.toml's list of packages"
    assert {name.split("/")[0] for name in shipped if ".dist-info/" not in name} == {"hsearch"}


def test_an_installed_package_finds_its_search_spaces(site):
    program = (
        "import hsearch.search.space as space; print(space._folder(), space.available_spaces())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=site.parent,
        env={"PYTHONPATH": str(site), "PATH": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == f"{site / 'hsearch' / 'search_spaces'} {available_spaces()}"
