"""How batches are drawn, as a spec."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from hsearch.spec_base import Count, Spec


class BatchSpec(Spec):
    """How batches are drawn.

    The sampler's own epoch has as many batches as the images fill, unless said otherwise. A class
    with fewer images than `per_class` gives some of them again, unless said otherwise.

    Attributes:
        size: Images of one optimiser step over all ranks.
        sampler: `m_per_class` (m images of each of size / m classes), `m_per_class_once` (the
            same, but no image comes twice in the sampler's epoch and leftovers are dropped),
            `unique_class` (the images of a class are drawn with replacement), `class_balanced`
            (every image of a uniformly drawn class), `hierarchical` (m images of each class, half
            of them in one coarsest class and half in another; its epoch has all pairs),
            `hierarchical_groups` (an anchor, then an image for each number of levels shared with
            it), `hard` (a random class and those nearest to it in the hierarchy, m images each)
            or `shuffle` (all images once in random order; leftovers are dropped).
        per_class: The m of these.
        batches_per_pair: Of coarsest classes, in an epoch of `hierarchical`.
        views: Augmented copies of each of these images; null for as many as the method asks for.
    """

    later: ClassVar[tuple[str, ...]] = ("views",)

    size: Count = 32
    sampler: Literal[
        "m_per_class",
        "m_per_class_once",
        "unique_class",
        "class_balanced",
        "hierarchical",
        "hierarchical_groups",
        "hard",
        "shuffle",
    ] = "m_per_class"
    per_class: Count = 4
    batches_per_pair: Count = 5
    views: Count | None = None

    @property
    def multiple_of(self) -> int:
        """The images that the sampler draws together, of which a batch has a whole number."""
        if self.sampler in ("class_balanced", "hierarchical_groups", "shuffle"):
            return 1
        return self.per_class * (2 if self.sampler == "hierarchical" else 1)

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.size % self.multiple_of:
            twice = "twice " if self.sampler == "hierarchical" else ""
            raise ValueError(
                f"`batch.size` must be a multiple of {twice}`batch.per_class`, but got {self.size} "
                f"and {self.per_class}"
            )
        return self
