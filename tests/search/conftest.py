"""A storage and studies in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hsearch.search.record import StudySpec
from hsearch.search.study import Study
from tests.search.made_study import (
    SPACE,
    made_spec,
)

Open = Callable[..., Study]


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture
def opened(storage: str) -> Iterator[Open]:
    """Opens the study `s` as a driver; all are closed after the test."""
    studies = []

    def open_study(spec: StudySpec | None = None, space=SPACE, name: str = "s") -> Study:
        studies.append(Study.open(name, storage, spec or made_spec(space), space))
        studies[-1].take_over()
        return studies[-1]

    yield open_study
    for study in studies:
        study.close()
