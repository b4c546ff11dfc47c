"""A small labelled batch on which every method can be tried."""

from typing import Any

import torch
from torch import Tensor

from hsearch.hierarchy import Hierarchy
from hsearch.methods import Method, Setting, load_method

DIM = 12
# Sizes 2, 5 and 11 differ from each other and from every other length here, so that a tensor's
# first dimension tells which level it belongs to.
PATHS = [(0, 0), (0, 0), (0, 1), (0, 1), (0, 1), (1, 2), (1, 2), (1, 3), (1, 3), (1, 4), (1, 4)]
HIERARCHY = Hierarchy.from_names(
    [(f"top-{a}", f"middle-{b}", f"class-{c}") for c, (a, b) in enumerate(PATHS)]
)


# Published sizes that a toy does not need and that would cost a minute of tests.
SMALL: dict[str, dict[str, Any]] = {"hier": {"num_lcas": 40}}


def build(name: str, hierarchy: Hierarchy = HIERARCHY, seed: int = 0, **knobs: object) -> Any:
    setting = Setting(hierarchy, (DIM,), DIM, torch.Generator().manual_seed(seed))
    return load_method(name)(setting, **{**SMALL.get(name, {}), **knobs})


def labels_of(hierarchy: Hierarchy, classes: Tensor, views: int = 1) -> Tensor:
    return torch.tensor(hierarchy.paths)[classes].repeat(views, 1)


def batch(
    method: Method, hierarchy: Hierarchy = HIERARCHY, per_class: int = 3, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Free features and labels: `per_class` images of every class, in each of the views."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.arange(hierarchy.num_classes).repeat_interleave(per_class)
    rows = len(classes) * method.views
    features = torch.randn(rows, DIM, generator=generator)
    return features, labels_of(hierarchy, classes, method.views)


def fit(method: Method, features: Tensor, labels: Tensor, steps: int = 50) -> Tensor:
    """Optimises free features and the method together; returns the final features."""
    free = features.clone().requires_grad_()
    optimizer = torch.optim.Adam([free, *method.parameters()], lr=0.1)
    for iteration in range(1, steps + 1):
        optimizer.zero_grad()
        method(method.embed(free), labels).backward()
        optimizer.step()
        for parameter in method.step(iteration):
            optimizer.state.pop(parameter, None)
    return free.detach()
