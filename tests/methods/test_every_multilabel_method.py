"""The contract of methods for several labels per image, beside test_every_method.py."""

import copy

import pytest
import torch

from hsearch.evaluation.multilabel import multilabel_metrics
from hsearch.hierarchy import Hierarchy
from hsearch.methods import knobs_of, load_method
from tests.methods.toy import (
    HIERARCHY,
    MULTILABEL,
    SHAPES,
    batch,
    build,
    check_survival,
    fit,
    loss_of,
    multi_hot,
)

NUM_LABELS = HIERARCHY.num_classes

pytestmark = pytest.mark.parametrize("name", MULTILABEL)


def variants(name):
    """The method without and with a contrast beside, where it can have one."""
    if "gamma" not in knobs_of(load_method(name)):
        return [build(name)]
    return [build(name, gamma=gamma) for gamma in (0.0, 0.1)]


def scores_of(method, features):
    with torch.no_grad():
        return method.scores(method.embed(features))


def test_every_image_has_a_finite_score_for_every_label(name):
    method = build(name)
    features, labels = batch(method)
    scores = scores_of(method, features)
    assert scores.shape == labels.shape
    assert scores.dtype == torch.float32
    assert scores.isfinite().all()


def test_an_image_is_embedded_and_scored_whatever_its_neighbours(name):
    method = build(name).double()
    features = batch(method)[0].double()
    alone = torch.cat([scores_of(method, features[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(scores_of(method, features)[:5], alone, rtol=1e-9, atol=1e-12)


def test_invariant_to_the_order_of_labels(name):
    method = build(name).double()
    features, labels = batch(method)
    features = features.double()
    order = torch.randperm(NUM_LABELS, generator=torch.Generator().manual_seed(2))
    other = copy.deepcopy(method)
    state = method.state_dict()
    own = {k: v for k, v in state.items() if v.shape[:1] == (NUM_LABELS,) and k != "_extra_state"}
    assert own
    other.load_state_dict(state | {key: value[order] for key, value in own.items()})
    torch.testing.assert_close(
        scores_of(method, features)[:, order], scores_of(other, features), rtol=1e-9, atol=1e-12
    )
    torch.testing.assert_close(
        loss_of(method, features, labels),
        loss_of(other, features, labels[:, order]),
        rtol=1e-9,
        atol=1e-12,
    )


def test_fifty_steps_raise_map_and_prefer_the_right_labels(name):
    for method in variants(name):
        features, labels = batch(method)
        before = multilabel_metrics(scores_of(method, features), labels)["map"]
        fitted = fit(method, features, labels, lr=0.01)
        assert multilabel_metrics(scores_of(method, fitted), labels)["map"] > before + 0.3
        shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))]
        assert loss_of(method, fitted, labels) < loss_of(method, fitted, shuffled)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float32])
def test_multi_hot_labels_may_be_of_any_dtype(name, dtype):
    for method in variants(name):
        features, labels = batch(method)
        assert loss_of(method, features, labels.to(dtype)) == loss_of(method, features, labels)


ONE_LABEL = torch.eye(NUM_LABELS, dtype=torch.long)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(ONE_LABEL, id="no label twice"),
        pytest.param(ONE_LABEL[[4] * 8], id="the same label everywhere"),
        pytest.param(ONE_LABEL[[3]], id="a single image"),
        pytest.param(0 * ONE_LABEL[[3]], id="a single image without labels"),
        pytest.param(ONE_LABEL * (torch.arange(NUM_LABELS) > 4), id="images without labels"),
        pytest.param(0 * ONE_LABEL, id="a batch without labels"),
        pytest.param(0 * ONE_LABEL + 1, id="all labels everywhere"),
    ],
)
def test_survives_odd_batches(name, labels):
    for method in variants(name):
        check_survival(method, labels.repeat(method.views, 1))


@pytest.mark.parametrize("count", [1, 2])
def test_survives_few_labels(name, count):
    hierarchy = Hierarchy.from_names([(f"label-{i}",) for i in range(count)])
    method = build(name, hierarchy)
    check_survival(method, multi_hot(hierarchy, torch.arange(6) % count, method.views))


def test_where_it_looks_sums_to_one_over_the_places_of_a_head(name):
    method = build(name)
    features = batch(method)[0][:4]
    weights = method.attention(features)
    if weights is None:
        assert method.features != "map"
        return
    assert weights.shape[:2] == (4, NUM_LABELS)
    assert weights.shape[3:] == SHAPES["map"][1:]
    assert not weights.requires_grad
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=(-2, -1)), torch.ones(weights.shape[:3]))


def test_label_vectors_are_one_per_label_and_change_nothing(name):
    method = build(name)
    vectors = method.label_vectors()
    assert vectors.ndim == 2
    assert len(vectors) == NUM_LABELS
    assert not vectors.requires_grad
