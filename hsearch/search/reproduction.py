"""The record of a reproduction in the study's own storage."""

from hsearch.search.reproduced import ReproductionRecord


def load_reproduction(study: str, protocol: str, storage: str) -> ReproductionRecord | None:
    """Returns what is recorded of a study's reproduction, or None if there is none."""
    raise NotImplementedError
