"""Random draws: every one follows from a root seed, its purpose and where it happens."""

import zlib

import numpy as np


def seed_for(seed: int, purpose: str, *keys: int) -> int:
    """Returns a 32-bit seed that depends on all arguments and on nothing else.

    Args:
        seed: Root seed, >= 0.
        purpose: What is drawn, such as `augmentation`.
        keys: Where, such as fold, epoch, iteration; each >= 0.
    """
    entropy = [seed, zlib.crc32(purpose.encode()), *keys]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def rng_for(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """Returns a generator seeded as `seed_for` says."""
    return np.random.default_rng(seed_for(seed, purpose, *keys))
