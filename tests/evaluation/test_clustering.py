import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score

from hsearch.errors import DatasetError, DivergedError
from hsearch.evaluation.clustering import nmi, normalised_mutual_information
from hsearch.evaluation.neighbors import kmeans_assignments
from hsearch.geometry import exp_map_zero

partitions = st.integers(1, 60).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 5), min_size=n, max_size=n)] * 2)
)


def of_a_loop(first, second):
    """From the definition I = sum p(a, b) log(p(a, b) / (p(a) p(b))), one pair of labels a time."""
    n = len(first)

    def share(condition):
        return sum(map(condition, range(n))) / n

    information = 0.0
    for a in set(first):
        for b in set(second):
            both = share(lambda i, a=a, b=b: first[i] == a and second[i] == b)
            pa, pb = share(lambda i, a=a: first[i] == a), share(lambda i, b=b: second[i] == b)
            information += both * math.log(both / (pa * pb)) if both else 0.0
    entropies = 0.0
    for labels in (first, second):
        for a in set(labels):
            p = share(lambda i, a=a, labels=labels: labels[i] == a)
            entropies -= p * math.log(p)
    return 2 * information / entropies if entropies else 1.0


def blobs(seed=0, classes=6, per_class=20, dim=8, noise=0.05):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    centres = np.eye(classes, dim)
    return (centres[labels] + noise * rng.normal(size=(len(labels), dim))).astype(
        np.float32
    ), labels


@settings(deadline=None, max_examples=60)
@given(partitions)
def test_information_is_that_of_a_loop_and_of_sklearn(pair):
    found = normalised_mutual_information(*pair)
    assert 0 <= found <= 1
    assert found == pytest.approx(of_a_loop(*pair), abs=1e-12)
    assert found == pytest.approx(normalized_mutual_info_score(*pair), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(partitions, st.randoms(use_true_random=False))
def test_information_is_symmetric_and_ignores_order_and_names(pair, random):
    first, second = (np.array(labels) for labels in pair)
    expected = normalised_mutual_information(first, second)
    assert normalised_mutual_information(second, first) == expected
    order = list(range(len(first)))
    random.shuffle(order)
    names = np.array(["e", "d", "c", "b", "a", "f"])
    assert normalised_mutual_information(first[order], names[second[order]]) == expected


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=80))
def test_equal_partitions_score_exactly_one(labels):
    assert normalised_mutual_information(labels, [9 - label for label in labels]) == 1.0


def test_many_classes_need_no_table():
    """A dense table of 200,000 x 200,000 would take 320 GB."""
    labels = np.arange(200_000)
    assert normalised_mutual_information(labels, labels[::-1]) == 1.0


def test_partitions_of_other_items_are_refused():
    with pytest.raises(DatasetError, match="3 and 2"):
        normalised_mutual_information([0, 1, 2], [0, 1])
    with pytest.raises(DatasetError, match="0 and 0"):
        normalised_mutual_information([], [])


def test_kmeans_ends_where_every_point_has_its_nearest_centre():
    """Lloyd's fixed point, checked in float64 on clear clusters."""
    x, _ = blobs(noise=0.1)
    clusters = kmeans_assignments(x, 4, seed=3)
    assert clusters.dtype == np.int64
    assert set(clusters) == {0, 1, 2, 3}
    centres = np.stack([x[clusters == c].astype(np.float64).mean(axis=0) for c in range(4)])
    distances = ((x[:, None] - centres[None]) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == clusters).all()


def test_kmeans_depends_on_its_seed_alone():
    x = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    found = kmeans_assignments(x, 3, seed=1)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert np.array_equal(kmeans_assignments(torch.from_numpy(x), 3, seed=1), found)
    assert not np.array_equal(kmeans_assignments(x, 3, seed=2), found)


@pytest.mark.parametrize("num_clusters", [0, 6])
def test_the_number_of_clusters_must_be_possible(num_clusters):
    with pytest.raises(ValueError, match=r"1\.\.5"):
        kmeans_assignments(np.zeros((5, 2), np.float32), num_clusters, seed=0)


def test_as_many_clusters_as_points_and_no_word_from_faiss(capfd):
    x = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    assert nmi(x, np.arange(12), seed=0) == 1.0
    assert nmi(x, np.zeros(12), seed=0) == 1.0
    nmi(x, np.arange(12) // 2, seed=0)
    assert capfd.readouterr() == ("", "")


def test_clear_clusters_score_high_and_noise_low():
    """From random first centres k-means may join two classes, so not every seed gives 1."""
    x, labels = blobs()
    scores = [nmi(x, labels, seed=seed) for seed in range(10)]
    assert max(scores) == 1.0
    assert min(scores) > 0.7
    noise = np.random.default_rng(0).normal(size=x.shape).astype(np.float32)
    assert nmi(noise, labels, seed=0) < 0.3


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), classes=st.integers(1, 8))
def test_range_and_determinism(seed, classes):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, classes, 40)
    found = nmi(x, labels, seed=seed)
    assert 0 <= found <= 1
    assert nmi(x, labels, seed=seed) == found


def test_the_ball_is_clustered_in_its_tangent_space():
    x, labels = blobs(noise=0.3)
    ball = exp_map_zero(torch.from_numpy(x), 0.5)
    found = nmi(ball, labels, geometry="poincare", curvature=0.5, seed=0)
    assert found == pytest.approx(nmi(x, labels, seed=0), abs=1e-3)


def test_what_cannot_be_clustered_is_refused():
    x, labels = blobs()
    with pytest.raises(DatasetError, match=r"shape \(119,\) for 120"):
        nmi(x, labels[1:])
    x[0, 0] = np.nan
    with pytest.raises(DivergedError, match="1 of 120"):
        nmi(x, labels)
