"""Every error that hsearch raises on purpose.

HsearchError
├── ConfigError      a setting, knob, recipe, search space or argument that cannot be used
├── DatasetError     images, labels or a store that cannot be used
├── DivergedError    a training whose loss ran away
└── ClusterError     workers that could not be started or were lost

A message is one sentence or two: the rule, what was given, what to do. The command line prints it
without a traceback and exits with `exit_code`.
"""

import difflib
from collections.abc import Iterable


class HsearchError(Exception):
    """Base of all errors that a user can act on."""

    exit_code = 1


class ConfigError(HsearchError, ValueError):
    """A setting that cannot be used as given."""

    exit_code = 2


class DatasetError(HsearchError):
    """Images, labels or a store that cannot be used as given."""

    exit_code = 2


class DivergedError(HsearchError):
    """A training whose loss ran away: no number, or beyond all bounds."""


class ClusterError(HsearchError):
    """Worker processes that could not be started or were lost."""


def did_you_mean(given: str, valid: Iterable[str]) -> str:
    """Returns the tail of a message about an unknown name: the nearest valid one, then all."""
    names = sorted(valid)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(given.casefold(), folded, n=1, cutoff=0.65)
    hint = f" Did you mean '{folded[near[0]]}'?" if near else ""
    return f"valid names: {', '.join(names) or '(none)'}.{hint}"
