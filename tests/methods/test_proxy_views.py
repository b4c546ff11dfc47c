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


def test_points_of_the_ball_are_below_the_ancestor_of_themselves_and_their_neighbour():
    near_first, near_second, root, unused = [0.5, 0.2], [-0.5, 0.2], [0.0, 0.3], [0.0, -0.9]
    ancestors = torch.tensor([unused, near_first, near_second, root])
    leaves = torch.tensor([[0.6, 0.3], [0.6, 0.1], [-0.6, 0.3], [-0.6, 0.1]])
    view = ball_tree(leaves, ancestors, 1.0)
    assert torch.equal(view.points, torch.cat([leaves, ancestors[1:]]))
    assert view.classes.tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert view.parents.tolist() == [4, 4, 5, 5, 6, 6, -1]


def test_hier_draws_a_tree_with_one_root_by_its_own_rule():
    method = build("hier")
    view = method.proxy_view()
    assert view.classes[: HIERARCHY.num_classes].tolist() == list(range(HIERARCHY.num_classes))
    assert (view.parents == -1).sum() == 1
    lcas = method.embed(method.lcas)
    distances = poincare_distances(view.points, lcas, method.curvature)
    between = poincare_distances(view.points, view.points, method.curvature)
    for leaf in range(HIERARCHY.num_classes):
        others = [i for i in range(HIERARCHY.num_classes) if i != leaf]
        mate = min(others, key=lambda i: between[leaf, i])
        chosen = min(range(len(lcas)), key=lambda a: max(distances[leaf, a], distances[mate, a]))
        assert torch.equal(view.points[view.parents[leaf]], lcas[chosen])


def test_hier_without_proxies_draws_all_its_lcas():
    view = build("hier", metric="supcon").proxy_view()
    assert len(view.points) == 40
    assert (view.classes == -1).all()
