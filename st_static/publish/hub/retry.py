"""Asking the Hub again when it is out of order for a moment."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TypeVar

import httpx2
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# As huggingface_hub does where it retries by itself: preupload, and the content of large files.
_WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)
# What the client raises: it reads some answers before it looks at their status, and a server
# before the Hub that is out of order answers with HTML.
HUB_ERRORS = (httpx2.HTTPError, json.JSONDecodeError)
_PASSING = {408, 429, 500, 502, 503, 504}
CONFLICT = 412
"""Somebody else has committed meanwhile."""


def retried(call: Callable[[], Result], conflicts: bool = False) -> Result:
    """Call, and call again after an error that may pass.

    Such are a connection that breaks, the statuses 408, 429 and 5xx, and an answer that is not
    the Hub's; `Retry-After` says how long to wait, else waiting grows from one second to eight.

    Args:
        call: What to do; it must be harmless when it was done before and only the answer got
            lost.
        conflicts: Whether to call again, too, when somebody else has committed meanwhile.

    Raises:
        HUB_ERRORS: The error does not pass, or comes a sixth time.
    """
    for wait in _WAITS:
        try:
            return call()
        except HUB_ERRORS as error:
            if not _may_pass(error, conflicts):
                raise
            seconds = _asked_to_wait(error)
            seconds = wait if seconds is None else seconds
            logger.warning("%s. Trying again in %g s.", reason_of(error), seconds)
            time.sleep(seconds)
    return call()


def reason_of(error: BaseException) -> str:
    """What went wrong, in a line: status and the Hub's own words, without the address.

    The address of a large file's upload is signed, and nobody else's business.
    """
    if isinstance(error, HfHubHTTPError):
        said = error.server_message or error.response.reason_phrase
        reason = f"The Hub answers {error.response.status_code}: {said}"
    elif isinstance(error, json.JSONDecodeError):
        reason = "What answers is not the Hub, or it is out of order"
    else:
        reason = f"{type(error).__name__}: {error}"
    return " ".join(reason.split()).rstrip(".")


def is_refusal(error: BaseException) -> bool:
    """Whether the Hub does not let this token do what was asked."""
    return isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403)


def _may_pass(error: Exception, conflicts: bool) -> bool:
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return status in _PASSING or (conflicts and status == CONFLICT)
    broken = (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError)
    return isinstance(error, (*broken, json.JSONDecodeError))


def _asked_to_wait(error: Exception) -> float | None:
    """The seconds that the Hub asks to wait, if it does."""
    if not isinstance(error, HfHubHTTPError):
        return None
    limit = parse_ratelimit_headers(error.response.headers)
    if limit is not None and limit.remaining == 0 and error.response.status_code == 429:
        return float(limit.reset_in_seconds)
    after = error.response.headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else None
