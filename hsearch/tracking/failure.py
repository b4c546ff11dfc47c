"""What can go wrong between the tracker and MLflow, in words for a user."""

import re
from collections.abc import Iterator

from hsearch.tracking.address import without_credentials

LENGTH = 200

_HTTP_STATUS = re.compile(r"error code (\d{3})")


def reason_of(error: BaseException) -> str:
    """Returns why a call of MLflow failed: half a sentence, without credentials."""
    from requests import ConnectionError as Unreachable
    from requests import Timeout

    causes = list(_chain(error))
    if any(isinstance(cause, Timeout | TimeoutError) for cause in causes):
        return "the server does not answer in time"
    if any(isinstance(cause, Unreachable) for cause in causes):
        return "the server cannot be reached"
    status = _HTTP_STATUS.search(str(error))
    if status and status[1] in ("401", "403"):
        return (
            f"the server refuses access ({status[1]}); check the address, and the user, password "
            "or token in the environment (MLFLOW_TRACKING_USERNAME, ..._PASSWORD, ..._TOKEN)"
        )
    lines = without_credentials(str(error)).strip().splitlines()
    first = lines[0] if lines else ""
    if " " not in first:  # no sentence, such as the key of a KeyError
        first = f"{type(error).__name__} {first}"
    return first[:LENGTH].rstrip(". ")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
