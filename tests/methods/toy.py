"""A small labelled batch on which every method can be tried."""

import copy
from typing import Any

import torch
from torch import Tensor

from hsearch.hierarchy import Hierarchy
from hsearch.methods import Method, Setting, available_methods, load_method

RETRIEVAL, MULTILABEL = (
    [name for name in available_methods() if load_method(name).task == task]
    for task in ("retrieval", "multilabel")
)

DIM = 12
# Sizes 2, 5 and 11 differ from each other and from every other length here, so that a tensor's
# first dimension tells which level it belongs to.
PATHS = [(0, 0), (0, 0), (0, 1), (0, 1), (0, 1), (1, 2), (1, 2), (1, 3), (1, 3), (1, 4), (1, 4)]
HIERARCHY = Hierarchy.from_names(
    [(f"top-{a}", f"middle-{b}", f"class-{c}") for c, (a, b) in enumerate(PATHS)]
)
SHAPES = {"vector": (DIM,), "pooled": (DIM,), "map": (16, 3, 4)}
MAP_DIM = 24  # of embeddings over maps, which any number of heads up to 8 must be able to share

# Published sizes that a toy does not need and that would cost a minute of tests.
SMALL: dict[str, dict[str, Any]] = {"hier": {"num_lcas": 40}}


def build(name: str, hierarchy: Hierarchy = HIERARCHY, seed: int = 0, **knobs: object) -> Any:
    """The method; classes are the labels of one for `multilabel`."""
    kind = load_method(name)
    if kind.task == "multilabel":
        hierarchy = Hierarchy.from_names([(label,) for label in hierarchy.names[-1]])
    dim = MAP_DIM if kind.features == "map" else DIM
    generator = torch.Generator().manual_seed(seed)
    setting = Setting(hierarchy, SHAPES[kind.features], dim, generator)
    return kind(setting, **{**SMALL.get(name, {}), **knobs})


def labels_of(hierarchy: Hierarchy, classes: Tensor, views: int = 1) -> Tensor:
    return torch.tensor(hierarchy.paths)[classes].repeat(views, 1)


def multi_hot(hierarchy: Hierarchy, classes: Tensor, views: int = 1, seed: int = 0) -> Tensor:
    """Labels of images that have their class, and some others by chance."""
    size = (len(classes), hierarchy.num_classes)
    others = torch.rand(size, generator=torch.Generator().manual_seed(seed)) < 0.15
    return others.long().scatter_(1, classes[:, None], 1).repeat(views, 1)


def free_features(method: Method, rows: int, seed: int = 0) -> Tensor:
    shape = (rows, *SHAPES[method.features])
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def batch(
    method: Method, hierarchy: Hierarchy = HIERARCHY, per_class: int = 3, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Free features and labels: `per_class` images of every class, in each of the views."""
    classes = torch.arange(hierarchy.num_classes).repeat_interleave(per_class)
    labels = multi_hot if method.task == "multilabel" else labels_of
    features = free_features(method, len(classes) * method.views, seed)
    return features, labels(hierarchy, classes, method.views)


def fit(
    method: Method, features: Tensor, labels: Tensor, steps: int = 50, lr: float = 0.1
) -> Tensor:
    """Optimises free features and the method together; returns the final features."""
    free = features.clone().requires_grad_()
    optimizer = torch.optim.Adam([free, *method.parameters()], lr=lr)
    for iteration in range(1, steps + 1):
        optimizer.zero_grad()
        method(method.embed(free), labels).backward()
        optimizer.step()
        for parameter in method.step(iteration):
            optimizer.state.pop(parameter, None)
    return free.detach()


def loss_of(method: Method, features: Tensor, labels: Tensor) -> Tensor:
    """The loss from a copy, so that a method's own random draws start alike every time."""
    loss: Tensor = copy.deepcopy(method)(method.embed(features), labels)
    return loss


def check_survival(method: Method, labels: Tensor) -> None:
    """Loss and gradients of free features with these labels are finite numbers."""
    features = free_features(method, len(labels), seed=4).requires_grad_()
    loss = method(method.embed(features), labels)
    loss.backward()
    method.step(1)
    gradients = [p.grad for p in [features, *method.parameters()] if p.grad is not None]
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
