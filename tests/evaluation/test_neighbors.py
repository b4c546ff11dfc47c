import sys

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import ConfigError, DivergedError
from hsearch.evaluation import neighbors
from hsearch.evaluation.neighbors import nearest_neighbors, neighbor_blocks
from tests.evaluation import oracles


def points(seed: int, n: int, dim: int = 4, scale: float = 1.0):
    return (np.random.default_rng(seed).normal(size=(n, dim)) * scale).astype(np.float32)


def in_the_ball(seed: int, n: int, curvature: float):
    x = points(seed, n)
    radius = np.random.default_rng(seed).uniform(0.1, 0.95, size=(n, 1)) / curvature**0.5
    return (x / np.linalg.norm(x, axis=1, keepdims=True) * radius).astype(np.float32)


@pytest.mark.parametrize("faiss_largest_k", [2048, 0])
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), exclude_self=st.booleans())
def test_neighbors_on_the_sphere_are_those_of_a_loop(faiss_largest_k, seed, k, exclude_self):
    x = points(seed, 13)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "FAISS_LARGEST_K", faiss_largest_k)
        found = nearest_neighbors(x, x, k, exclude_self=exclude_self)
    for query, row in enumerate(found):
        order = oracles.ranking(x, query, range(13), oracles.euclidean)
        assert list(row) == (order if exclude_self else [query, *order])[:k]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.01, 2.0), st.integers(1, 12))
def test_neighbors_in_the_ball_are_those_of_a_loop(seed, curvature, k):
    x = in_the_ball(seed, 13, curvature)
    found = nearest_neighbors(x, x, k, exclude_self=True, geometry="poincare", curvature=curvature)
    for query, row in enumerate(found):
        order = oracles.ranking(x, query, range(13), lambda a, b: oracles.poincare(a, b, curvature))
        assert list(row) == order[:k]


def test_the_ball_orders_differently_from_the_sphere():
    x = np.array([[0.80, 0.0], [0.95, 0.0], [0.60, 0.0]], dtype=np.float32)
    sphere = nearest_neighbors(x, x, 2, exclude_self=True)
    ball = nearest_neighbors(x, x, 2, exclude_self=True, geometry="poincare", curvature=1.0)
    assert list(sphere[0]) == [1, 2]
    assert list(ball[0]) == [2, 1]


@pytest.mark.parametrize("geometry", ["sphere", "poincare"])
@pytest.mark.parametrize("k", [1, 3, 19])
def test_self_is_excluded_by_index_among_duplicates(geometry, k):
    x = np.full((20, 3), 0.25, dtype=np.float32)
    found = nearest_neighbors(x, x, k, exclude_self=True, geometry=geometry, curvature=0.5)
    assert found.shape == (20, k)
    for query, row in enumerate(found):
        assert query not in row
        assert len(set(row)) == k


def test_equal_distances_are_listed_by_index():
    references = np.array([[2], [1], [-1], [2], [1], [-2]], dtype=np.float32)
    found = nearest_neighbors(np.zeros((1, 1), np.float32), references, 6, exclude_self=False)
    assert found.tolist() == [[1, 2, 4, 0, 3, 5]]


@pytest.mark.parametrize("faiss_largest_k", [2048, 0])
@pytest.mark.parametrize("budget", [1, 100_000, 2**30])
def test_blocks_do_not_change_the_neighbors(monkeypatch, faiss_largest_k, budget):
    monkeypatch.setattr(neighbors, "FAISS_LARGEST_K", faiss_largest_k)
    x = points(0, 300, 8)
    whole = nearest_neighbors(x, x, 10, exclude_self=True)
    blocks = list(neighbor_blocks(x, x, 10, own=np.arange(300), memory_budget=budget))
    assert [row for rows, _ in blocks for row in range(rows.start, rows.stop)] == list(range(300))
    assert np.array_equal(np.concatenate([indices for _, indices in blocks]), whole)
    assert (len(blocks) == 300) == (budget == 1)


def test_lists_that_lose_their_own_end_in_minus_one():
    x = np.array([[0.0], [1.0], [3.0]], dtype=np.float32)
    ((_, found),) = neighbor_blocks(x[:2], x, 3, own=np.array([0, -1]))
    assert found.tolist() == [[1, 2, -1], [1, 0, 2]]


@pytest.mark.parametrize("geometry", ["sphere", "poincare"])
def test_torch_and_numpy_inputs_agree_and_stay_unchanged(geometry):
    x = points(3, 40)
    copy = x.copy()
    x.setflags(write=False)
    tensor = torch.tensor(copy, requires_grad=True)
    of_array = nearest_neighbors(x, x, 5, exclude_self=True, geometry=geometry, curvature=1e-3)
    of_tensor = nearest_neighbors(
        tensor, tensor, 5, exclude_self=True, geometry=geometry, curvature=1e-3
    )
    assert np.array_equal(of_array, of_tensor)
    assert of_array.dtype == np.int64
    assert np.array_equal(x, copy)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("geometry", ["sphere", "poincare"])
def test_points_that_are_not_finite_are_refused(bad, geometry):
    x = points(0, 5)
    x[3, 1] = bad
    with pytest.raises(DivergedError, match="row 3"):
        neighbor_blocks(x, x, 2, geometry=geometry, curvature=1.0)


def test_the_ball_needs_a_curvature_and_points_inside():
    x = points(0, 5, scale=0.01)
    with pytest.raises(ConfigError, match="curvature above 0"):
        neighbor_blocks(x, x, 2, geometry="poincare")
    with pytest.raises(ConfigError, match=r"norms below 1,.*exp_map_zero"):
        neighbor_blocks(x * 1000, x, 2, geometry="poincare", curvature=1.0)


@pytest.mark.parametrize("k", [0, 6])
def test_k_must_be_possible(k):
    x = points(0, 6)
    with pytest.raises(ValueError, match="k"):
        nearest_neighbors(x, x, k, exclude_self=True)


def test_two_builds_of_faiss_are_refused_with_the_remedy(tmp_path, monkeypatch):
    for name in ("faiss_cpu", "faiss_gpu"):
        folder = tmp_path / f"{name}-1.9.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.9.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    neighbors._faiss.cache_clear()
    remedy = "pip uninstall -y faiss-cpu faiss-gpu && pip install faiss-gpu"
    with pytest.raises(ConfigError, match=remedy):
        nearest_neighbors(points(0, 5), points(0, 5), 2, exclude_self=True)


def test_faiss_follows_the_thread_limit_of_torch():
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            nearest_neighbors(points(0, 50), points(1, 50), 2, exclude_self=False)
            assert faiss.omp_get_max_threads() == threads
    finally:
        torch.set_num_threads(before)
