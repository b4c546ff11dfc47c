"""Words that several rooms say alike."""


def plural(count: int, noun: str) -> str:
    """Returns `1 trial` or `3 trials`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
