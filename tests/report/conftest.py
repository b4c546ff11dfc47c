"""Trained runs on the toy data, once for all tests, and what pictures are made from."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hsearch.data.decoding import decode
from hsearch.data.store import Store
from hsearch.report.looking import Look, look_at
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import resolve_job
from tests.conftest import TINY

KNOBS = {"hpl": {"method.num_coarse": 4}, "hier": {"method.num_lcas": 40}}


@pytest.fixture(scope="session")
def trained(toy_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Trains a method for two short epochs and returns the folder of its run."""

    @cache
    def train(method: str) -> Path:
        path = tmp_path_factory.mktemp("runs") / method
        settings = {**TINY, **KNOBS.get(method, {})}
        job = resolve_job(
            method=method,
            data=str(toy_store.path),
            recipe="small",
            settings=settings,
        )
        train_locally(job, Report(), path)
        return path

    return train


@pytest.fixture(scope="session")
def looked(trained: Callable[[str], Path]) -> Callable[[str], Look]:
    """Looks at a trained method's validation classes."""
    return cache(lambda method: look_at(trained(method), "validation"))


def pixels_of(path: Path) -> NDArray[np.uint8]:
    """(H, W, 3) of a PNG file."""
    image: torch.Tensor = decode(path.read_bytes())
    return image.permute(1, 2, 0).numpy()
