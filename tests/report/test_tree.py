"""The learned hierarchy as a tree."""

import numpy as np
import pytest

from hsearch.report.tree import draw_tree, grow_tree, has_tree, siblings_alike


def test_a_tree_skips_those_with_a_single_child():
    #    9            10 (root of leaf 3 alone)
    #   8  7           |
    #  6    2          3
    # 0 1
    parents = np.array([6, 6, 7, 10, -1, -1, 8, 9, 9, -1, -1])
    tree = grow_tree(parents, np.arange(4))
    assert tree.roots == [9, 3]
    assert tree.children == {9: [6, 2], 6: [0, 1]}
    assert tree.leaves.tolist() == [0, 1, 2, 3]
    assert tree.heights == {0: 0, 1: 0, 6: 1, 2: 0, 9: 2, 3: 0}


def test_siblings_are_compared_with_all_pairs():
    alike, chance = siblings_alike(np.array([7, 7, 7, 8, 8]), np.array([0, 0, 1, 1, 1]))
    assert alike == pytest.approx(2 / 4)  # (0, 1) and (3, 4) of four pairs
    assert chance == pytest.approx(4 / 10)


@pytest.mark.parametrize("method", ["hpl", "hier"])
def test_every_training_class_stands_in_the_tree_once(looked, method):
    look = looked(method)
    assert has_tree(look)
    texts = [text.get_text() for text in draw_tree(look).axes[0].texts]
    expected = [" > ".join(look.store.label_path(int(label))) for label in look.train_classes]
    assert sorted(texts) == sorted(expected)


def test_methods_without_a_hierarchy_have_no_tree(looked):
    assert not has_tree(looked("proxy_nca"))
    assert not has_tree(looked("supcon"))
