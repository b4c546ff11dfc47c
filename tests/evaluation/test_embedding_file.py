"""Embeddings of a file: read in blocks, scaled, checked row by row."""

import numpy as np
import pytest

from hsearch.errors import DatasetError
from hsearch.evaluation import embedding_file
from hsearch.evaluation.embedding_file import read_embeddings


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(embedding_file, "_BLOCK", 7)  # two rows of three


def test_blocks_make_no_difference(tmp_path, small_blocks):
    given = np.random.default_rng(0).normal(size=(9, 3))
    np.save(tmp_path / "x.npy", given)
    assert np.array_equal(read_embeddings(tmp_path / "x.npy", "euclidean"), given)
    scaled = read_embeddings(tmp_path / "x.npy", "cosine")
    assert scaled.dtype == np.float64
    assert scaled == pytest.approx(given / np.linalg.norm(given, axis=1, keepdims=True))


def test_the_row_of_a_fault_is_counted_over_all_blocks(tmp_path, small_blocks):
    given = np.ones((9, 3), dtype=np.float32)
    given[5] = 0
    np.save(tmp_path / "x.npy", given)
    with pytest.raises(DatasetError, match="row 5"):
        read_embeddings(tmp_path / "x.npy", "cosine")
    assert np.array_equal(read_embeddings(tmp_path / "x.npy", "poincare"), given)


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_half_precision_is_scaled_without_overflow(tmp_path, scale):
    np.save(tmp_path / "x.npy", np.full((2, 400), scale, dtype=np.float16))
    scaled = read_embeddings(tmp_path / "x.npy", "cosine")
    assert scaled.dtype == np.float32
    assert np.linalg.norm(scaled, axis=1) == pytest.approx(1.0)
