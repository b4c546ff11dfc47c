"""What is drawn of the methods' own hierarchies, against what the methods hold."""

import torch

from hsearch.geometry import poincare_distances
from hsearch.methods._proxies import ball_tree
from tests.methods.toy import HIERARCHY, build


def test_hpl_puts_every_proxy_below_that_of_its_cluster():
    method = build("hpl", num_coarse=6, coarse_levels=2)
    view = method.proxy_view()
    fine, middle, top = (len(level) for level in method.level_proxies())
    assert len(view.points) == fine + middle + top
    assert view.parents[:fine].tolist() == [fine + int(p) for p in method.parents[0]]
    assert view.parents[fine : fine + middle].tolist() == [
        fine + middle + int(p) for p in method.parents[1]
    ]
    assert view.parents[fine + middle :].tolist() == [-1] * top


def test_a_point_of_the_ball_is_below_the_nearest_ancestor_further_inside():
    ancestors = torch.tensor([[0.05, 0.0], [0.3, 0.0], [-0.3, 0.0], [0.0, 0.4]])
    leaves = torch.tensor([[0.8, 0.1], [0.8, -0.1], [-0.8, 0.0]])
    view = ball_tree(leaves, ancestors, 1.0)
    # The last ancestor is above no leaf, and so it is not there.
    assert torch.equal(view.points, torch.cat([leaves, ancestors[:3]]))
    assert view.classes.tolist() == [0, 1, 2, -1, -1, -1]
    assert view.parents.tolist() == [4, 4, 5, -1, 3, 3]


def test_hier_draws_a_tree_with_one_root():
    method = build("hier")
    view = method.proxy_view()
    assert view.classes[: HIERARCHY.num_classes].tolist() == list(range(HIERARCHY.num_classes))
    assert (view.parents == -1).sum() == 1
    norms = view.points.norm(dim=1)
    lcas = torch.arange(len(norms)) >= HIERARCHY.num_classes
    distances = poincare_distances(view.points, view.points, method.curvature)
    for child, parent in enumerate(view.parents.tolist()):
        if parent >= 0:
            inside = lcas & (norms < norms[child])
            assert distances[child, parent] == distances[child, inside].min()


def test_hier_without_proxies_draws_all_its_lcas():
    view = build("hier", metric="supcon").proxy_view()
    assert len(view.points) == 40
    assert (view.classes == -1).all()
