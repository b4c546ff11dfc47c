"""Random embeddings and label trees."""

import numpy as np


def random_case(seed: int, n: int = 40, num_classes: int = 6, dim: int = 5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, n)
    labels[:2] = 0
    centres = rng.normal(size=(num_classes, dim))
    return (centres[labels] + rng.normal(size=(n, dim))).astype(np.float32), labels


def random_paths(seed, labels, num_levels):
    """Paths (n, L) whose finest labels are `labels`, in a random tree."""
    rng = np.random.default_rng(seed)
    columns = [labels]
    for _ in range(num_levels - 1):
        columns.insert(
            0, rng.integers(0, max(2, columns[0].max()), columns[0].max() + 1)[columns[0]]
        )
    return np.stack(columns, axis=1)
