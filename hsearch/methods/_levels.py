"""The knob `levels` of losses that know one label per image: the class alone, or every level."""

from typing import Literal

from torch import Tensor

from hsearch.hierarchy import Hierarchy
from hsearch.methods._base import require

Levels = Literal["fine", "all"]


def require_levels(hierarchy: Hierarchy, method: str, levels: Levels) -> None:
    """Raises a ConfigError if all levels are asked for where there are only classes."""
    require(
        levels == "fine" or hierarchy.num_levels > 1,
        f"`levels: all` of {method} needs data with more than one level of labels, but this has "
        "only classes, so it would change nothing; leave it out.",
    )


def labels_by_level(labels: Tensor, levels: Levels) -> tuple[Tensor, ...]:
    """Returns the (B,) labels of every chosen level of (B, L) labels, coarsest first."""
    return labels[:, -1:].unbind(dim=1) if levels == "fine" else labels.unbind(dim=1)


def sizes_by_level(hierarchy: Hierarchy, levels: Levels) -> tuple[int, ...]:
    """Returns the number of labels of every chosen level, coarsest first."""
    return hierarchy.sizes[-1:] if levels == "fine" else hierarchy.sizes
