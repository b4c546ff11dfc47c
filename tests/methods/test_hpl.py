"""HPL beyond the contract: its hierarchy, its modes, its limits."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.hierarchy import Hierarchy
from hsearch.methods import check_knobs
from hsearch.methods.hpl import cluster_means, k_means
from tests.methods.toy import HIERARCHY, batch, build, fit


def test_k_means_agrees_with_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    start = points[:7].clone()
    centroids, assignment = k_means(points, start)
    peer = KMeans(7, init=start.numpy(), n_init=1, tol=0, algorithm="lloyd").fit(points.numpy())
    np.testing.assert_allclose(centroids, peer.cluster_centers_, rtol=1e-9)
    assert assignment.tolist() == peer.labels_.tolist()


def test_k_means_ties_go_to_the_lowest_cluster_and_empty_clusters_keep_their_centroid():
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    start = torch.tensor([[0.5, 1.0], [0.5, -1.0], [9.0, 9.0]])
    centroids, assignment = k_means(points, start)
    assert assignment.tolist() == [0, 0]
    assert centroids.tolist() == [[0.5, 0.0], [0.5, -1.0], [9.0, 9.0]]


def test_duplicate_centroids_always_lose_to_the_lowest_index():
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        shape = torch.randint(3, 90, (3,), generator=generator).tolist()
        num_points, dim, num_centroids = shape
        points = l2_normalise(torch.randn(num_points, dim, generator=generator).double())
        centroids = torch.randn(num_centroids, dim, generator=generator).double()
        centroids = torch.cat([centroids, centroids])
        _, assignment = k_means(points, centroids, max_iterations=0)
        assert (assignment < num_centroids).all(), shape


def test_reclusters_every_period_and_says_what_it_overwrote():
    method = build("hpl", num_coarse=3, update_period=5)
    for iteration in (1, 2, 3, 4):
        assert list(method.step(iteration)) == []
    with torch.no_grad():
        method.proxies.copy_(torch.randn(method.proxies.shape))
    expected, parents = k_means(l2_normalise(method.proxies), l2_normalise(method.coarse_0))
    overwritten = list(method.step(5))
    assert [id(p) for p in overwritten] == [id(method.coarse_0)]
    torch.testing.assert_close(method.coarse_0.data, expected.data)
    assert method.parents[0].tolist() == parents.tolist()


def test_several_coarse_levels_shrink_geometrically():
    method = build("hpl", num_coarse=9, coarse_levels=2)
    assert [len(p) for p in method.level_proxies()] == [11, 9, 3]
    assert [len(p) for p in method.parents] == [11, 9]


def test_never_more_coarse_proxies_than_classes():
    method = build("hpl", num_coarse=500)
    assert [len(p) for p in method.level_proxies()] == [11, 11]


def test_given_hierarchy_takes_the_parents_of_the_labels():
    method = build("hpl", hierarchy_source="given")
    middle, top = method.parents
    assert middle.tolist() == HIERARCHY.paths[:, 1].tolist()
    assert top.tolist() == [0, 0, 1, 1, 1]
    fit(method, *batch(method), steps=40)
    assert method.parents[0].tolist() == middle.tolist()


def test_given_hierarchy_needs_more_than_one_level():
    with pytest.raises(ConfigError, match="more than one level"):
        build("hpl", Hierarchy.from_names([("a",), ("b",)]), hierarchy_source="given")


@pytest.mark.parametrize("source", ["learned", "given"])
def test_coarse_modes_move_as_they_say(source):
    moved = {}
    for mode in ("param", "frozen", "mean"):
        method = build("hpl", coarse_mode=mode, num_coarse=3, hierarchy_source=source)
        before = [p.detach().clone() for p in method.level_proxies()[1:]]
        features, labels = batch(method)
        loss = method(method.embed(features), labels)
        loss.backward()
        torch.optim.SGD(method.parameters(), lr=0.1).step()
        after = method.level_proxies()[1:]
        moved[mode] = any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        assert len(list(method.parameters())) == (1 + len(before) if mode == "param" else 1)
    assert moved == {"param": True, "frozen": False, "mean": True}


def test_mean_mode_sends_gradient_through_the_means():
    method = build("hpl", coarse_mode="mean", num_coarse=3).double()
    expected = cluster_means(l2_normalise(method.proxies), method.parents[0], method.coarse_0)
    torch.testing.assert_close(method.level_proxies()[1], expected)
    assert method.level_proxies()[1].requires_grad


@pytest.mark.parametrize(
    "knobs", [{"num_coarse": 0}, {"update_period": 0}, {"fine_scale": 0.0}, {"coarse_margin": -0.1}]
)
def test_impossible_knobs_are_refused(knobs):
    with pytest.raises(ConfigError, match="must"):
        build("hpl", **knobs)


@pytest.mark.parametrize("base", ["proxy_anchor", "proxy_nca"])
def test_the_scale_of_both_levels_is_that_of_the_base_loss_alone(base):
    """So that what HPL adds to its base can be told."""
    own = check_knobs(base, {})["scale"]
    knobs = check_knobs("hpl", {"base": base})
    assert (knobs["fine_scale"], knobs["coarse_scale"]) == (own, own)
    assert build("hpl", base=base).scales == (own, own)
    assert check_knobs("hpl", {"base": base, "fine_scale": 5.0})["fine_scale"] == 5.0


def test_without_its_coarse_level_hpl_is_its_base_loss():
    hierarchical, alone = build("hpl", base="proxy_nca", coarse_weight=0.0), build("proxy_nca")
    features, labels = batch(alone, HIERARCHY)
    with torch.no_grad():
        alone.proxies.copy_(hierarchical.proxies)
        ours = hierarchical(hierarchical.embed(features), labels)
        assert torch.equal(ours, alone(alone.embed(features), labels))
