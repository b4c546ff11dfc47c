"""What an evaluation refuses, takes and leaves behind: inputs, memory, threads, ranks."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch import distributed
from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation.evaluate import retrieval_metrics
from tests.evaluation import oracles
from tests.evaluation.cases import random_case, random_paths
from tests.training.ranks import on_ranks


@pytest.mark.parametrize(
    ("labels", "masks", "message"),
    [
        ([0, 1, 2], {}, "none of 3"),
        ([0, 0], {}, "labels of shape"),
        ([0, 0, 1], {"queries": np.zeros(3, bool)}, "`queries`.*0 set"),
        ([0, 0, 1], {"gallery": np.ones(2, bool)}, "`gallery` must be 3 booleans"),
        ([0, 0, 1], {"gallery": np.array([0, 1, 2])}, "int64"),
    ],
)
def test_what_cannot_be_scored_is_refused(labels, masks, message):
    with pytest.raises(DatasetError, match=message):
        retrieval_metrics(np.eye(3, dtype=np.float32), labels, **masks)


def test_diverged_embeddings_are_refused():
    embeddings, labels = random_case(0)
    embeddings[5] = np.nan
    with pytest.raises(DivergedError, match="row 5"):
        retrieval_metrics(embeddings, labels)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"geometry": "cosine"}, "sphere or poincare"),
        ({"average": "class"}, "queries or classes"),
        ({"recall_at": (0, 1)}, "numbers from 1"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1e4}, "alpha"),
    ],
)
def test_wrong_requests_are_refused(given, message):
    embeddings, labels = random_case(0)
    with pytest.raises(ConfigError, match=message):
        retrieval_metrics(embeddings, labels, **given)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4,), (4, 2, 2)])
def test_what_is_no_table_of_embeddings_is_refused(shape):
    with pytest.raises(DatasetError, match="one row per image"):
        retrieval_metrics(np.ones(shape), [0] * shape[0])


def test_points_at_the_border_of_the_ball_are_judged_exactly():
    """Squared in float32 they seem to lie on the other side."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4000, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    squares = (vectors.astype(np.float64) ** 2).sum(axis=1)
    seeming = np.einsum("nd,nd->n", vectors, vectors)
    outside = vectors[(squares > 1) & (seeming < 1)]
    inside = vectors[(squares < 1) & (seeming >= 1)]
    assert len(outside)
    assert len(inside)
    rest = 0.5 * vectors[:5]
    ball: dict[str, Any] = {"geometry": "poincare", "curvature": 1.0}
    with pytest.raises(ConfigError, match="norms below 1"):
        retrieval_metrics(np.concatenate([outside[:1], rest]), [0, 0, 1, 1, 2, 2], **ball)
    retrieval_metrics(np.concatenate([inside[:1], rest]), [0, 0, 1, 1, 2, 2], **ball)


@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1e15])
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16 tensor", "big-endian", "strided"])
def test_embeddings_of_any_kind_and_scale(scale, kind):
    embeddings, labels = random_case(4, n=60)
    points: Any = np.float64(embeddings) * scale
    if kind == "bfloat16 tensor":
        points = torch.tensor(points).bfloat16()
        embeddings = (points.double() / scale).numpy()
    elif kind == "strided":
        points = np.repeat(points, 2, axis=1)[::-1, ::2][::-1]
    else:
        points = points.astype({"big-endian": ">f8"}.get(kind, kind))
    expected = oracles.retrieval(np.float64(embeddings), labels)
    for whole_list in (False, True):
        found = retrieval_metrics(points, labels, whole_list=whole_list)
        assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-12)


@pytest.mark.parametrize("whole_list", [False, True])
def test_progress_is_told_until_all_queries_are_done(whole_list):
    embeddings, labels = random_case(2, n=530)
    told = []
    retrieval_metrics(
        embeddings,
        labels,
        whole_list=whole_list,
        memory_budget=200_000,
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == (530, 530)
    assert {total for _, total in told} == {530}


def test_a_failure_on_the_way_leaves_the_threads_of_torch_as_they_were():
    embeddings, labels = random_case(2, n=530)
    before = torch.get_num_threads()

    def stop(done, total):
        raise KeyboardInterrupt

    try:
        torch.set_num_threads(2)
        with pytest.raises(KeyboardInterrupt):
            retrieval_metrics(embeddings, labels, whole_list=True, progress=stop)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_two_evaluations_at_once_leave_the_threads_of_torch_as_they_were():
    embeddings, labels = random_case(2, n=530)
    expected = retrieval_metrics(embeddings, labels, whole_list=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with ThreadPoolExecutor(2) as pool:
            asked = [
                pool.submit(retrieval_metrics, embeddings, labels, whole_list=True)
                for _ in range(8)
            ]
            found = [future.result() for future in asked]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert found == [pytest.approx(expected, rel=1e-13)] * 8


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), whole_list=st.booleans())
def test_the_number_of_threads_does_not_count(seed, whole_list):
    embeddings, labels = random_case(seed, n=200)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(retrieval_metrics(embeddings, labels, whole_list=whole_list))
    finally:
        torch.set_num_threads(before)
    assert found[1] == pytest.approx(found[0], rel=1e-13)
    assert found[2] == pytest.approx(found[0], rel=1e-13)


def scored_together(seed: int, whole_list: bool) -> dict[str, float]:
    """Every rank scores a part; a second evaluation shows that nobody waits for anybody."""
    embeddings, labels = random_case(seed, n=530, num_classes=40)
    paths = random_paths(seed, labels, 3)
    alone = retrieval_metrics(embeddings, paths, whole_list=whole_list)
    shared = retrieval_metrics(embeddings, paths, whole_list=whole_list, sharded=True)
    assert shared == alone
    return shared


@pytest.mark.parametrize("whole_list", [False, True])
def test_ranks_share_the_queries_and_get_the_same_numbers(whole_list):
    embeddings, labels = random_case(5, n=530, num_classes=40)
    paths = random_paths(5, labels, 3)
    queried = []

    def keep(values):
        queried.append(values)
        return [values]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "rank", lambda: 1)
        patch.setattr(distributed, "world_size", lambda: 3)
        patch.setattr(distributed, "gather_objects", keep)
        retrieval_metrics(embeddings, paths, whole_list=whole_list, sharded=True)
    (values,) = queried
    share = np.count_nonzero(values["level_0/recall_at_8"]) / 530
    assert 0.1 < share < 0.6  # one of three ranks has not scored everything
    expected = retrieval_metrics(embeddings, paths, whole_list=whole_list)
    assert on_ranks(scored_together, 5, whole_list) == expected


def test_memory_stays_within_the_budget():
    """40,000 x 40,000 float32 are 6.4 GB; what the keys of 2,000 ball queries alone are, 640 MB."""
    script = """
        from pathlib import Path
        import numpy as np
        from hsearch.evaluation.evaluate import retrieval_metrics

        def run(n, **options):
            x = np.random.default_rng(0).normal(size=(n, 16)).astype(np.float32) * 0.01
            fine = np.arange(n) % (n // 10)
            retrieval_metrics(x, np.stack([fine % 40, fine % 200, fine], axis=1), **options)

        def peak():  # not `ru_maxrss`, which a new process has from the one that started it
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) / 1024

        ball = {"geometry": "poincare", "curvature": 0.1, "whole_list": True}
        run(1000), run(1000, whole_list=True), run(1000, **ball)
        before = peak()
        few = np.arange(40_000) < 2_000
        run(40_000, queries=few, memory_budget=2**27, **ball)
        run(40_000, queries=few, memory_budget=2**27, whole_list=True)
        small = peak() - before
        run(40_000, queries=np.arange(40_000) < 8_000, whole_list=True)
        print(small, peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    small, default = map(float, done.stdout.split())
    assert small < 128 + 50  # MiB: the budget, and copies of labels and points
    assert default < 1024 + 50
