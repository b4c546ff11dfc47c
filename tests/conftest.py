"""Shared fixtures: a small data set in a folder of its own, and jobs that train in seconds."""

import os

# Threads that wait must not spin: tests start several processes on few cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import io
import signal
from collections.abc import Callable, Iterator

import hypothesis
import numpy as np
import pytest
from PIL import Image

from hsearch.data.records import Record
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.methods import load_method
from hsearch.spec import FoldJob
from hsearch.training.resolve import resolve_job
from tests.data.s3_server import S3Server, running_s3

# Shells start background jobs deaf to Ctrl-C, and so would be the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("any machine", deadline=None)  # a busy one is slow, not wrong
hypothesis.settings.load_profile("any machine")

TINY = {
    "image.resize": 16,
    "image.crop": 16,
    "model.embedding_dim": 16,
    "batch.size": 16,
    "schedule.epochs": 2,
    "schedule.iterations_per_epoch": 4,
}


@pytest.fixture(autouse=True, scope="session")
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's own data folder."""
    os.environ.pop("HSEARCH_SHARED", None)
    before = os.environ.get("HSEARCH_DATA")
    os.environ["HSEARCH_DATA"] = str(tmp_path_factory.mktemp("data"))
    yield
    if before is None:
        del os.environ["HSEARCH_DATA"]
    else:
        os.environ["HSEARCH_DATA"] = before


@pytest.fixture(scope="session")
def toy_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """24 classes in 4 colours x 3 stripe widths x 2 directions, 6 noisy images of 16 px each."""
    path = tmp_path_factory.mktemp("toy") / "toy.arrow"
    write_store(path, "toy", toy_records(), provenance={"made": "by the tests"})
    return Store.open(path)


def toy_records() -> Iterator[Record]:
    rng = np.random.default_rng(0)
    for number in range(24):
        colour, width, direction = number % 4, number // 4 % 3, number // 12
        for image in range(6):
            pixels = rng.normal(128 + rng.normal(0, 40), 45, (16, 16, 3))
            stripes = (np.arange(16) + rng.integers(16)) // (1 + width) % 2 == 0
            channels = slice(None) if colour == 3 else colour
            striped = pixels.transpose(1, 0, 2) if direction else pixels
            striped[stripes, :, channels] += 55
            file = io.BytesIO()
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "PNG")
            labels = (f"colour-{colour}", f"width-{width}", f"class-{number:02d}")
            yield Record(f"{number:02d}-{image}", file.getvalue(), labels, order=number)


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that lets this process and its children in; `s3_server.uri` leads to it."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
        yield server


@pytest.fixture(scope="session")
def label_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Noisy images of 16 px with 6 labels, 120 for training and 40 for the test."""
    path = tmp_path_factory.mktemp("toy") / "labels.arrow"
    write_store(path, "labels", label_records(), provenance={"made": "by the tests"})
    return Store.open(path)


def label_records() -> Iterator[Record]:
    """A label is a bright square of one colour in one half of the image; images have 0 to 6."""
    rng = np.random.default_rng(1)
    for number in range(160):
        pixels = rng.normal(90, 30, (16, 16, 3))
        there = rng.random(6) < 0.4
        for label in np.flatnonzero(there):
            top, left = rng.integers(0, 12), rng.integers(0, 4) + 8 * (label // 3)
            pixels[top : top + 4, left : left + 4, label % 3] += 110
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "PNG")
        tags = tuple(f"label-{label}" for label in np.flatnonzero(there))
        split = "train" if number < 120 else "test"
        yield Record(f"{number:03d}", file.getvalue(), (), split=split, tags=tags)


@pytest.fixture
def toy_job(toy_store: Store, label_store: Store) -> Callable[..., FoldJob]:
    """Makes jobs on the toy data of a method's task that train in a second."""

    def make(method: str = "hpl", *, fold: int = 0, seed: int = 0, **settings: object) -> FoldJob:
        given = {**TINY, **{key.replace("__", "."): value for key, value in settings.items()}}
        several = load_method(method).task == "multilabel"
        return resolve_job(
            method=method,
            data=str((label_store if several else toy_store).path),
            settings=given,  # type: ignore[arg-type]
            fold=fold,
            seed=seed,
        )

    return make
