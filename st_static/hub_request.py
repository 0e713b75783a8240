"""One request to the Hugging Face Hub, with a limit for all of it, and what its failure means."""

from __future__ import annotations

import json
import threading
import time
from typing import Literal

RepoType = Literal["model", "dataset"]

_LIMIT = 10.0
"""Seconds that the Hub has for its answer, looking up its name included."""
# What the Hub gives, and that it cannot be reached, is remembered for so many seconds.
_REMEMBERED = 60.0
_answers: dict[tuple[object, ...], tuple[float, str | None]] = {}


def ask(kind: RepoType, name: str, revision: str | None, token: str | bool | None) -> str | None:
    """Ask the Hub, unless it has just answered; None if it gives the repository, else why not.

    Raises:
        ValueError: The Hub answers that it does not give it.
    """
    from huggingface_hub import constants, get_token

    endpoint = constants.ENDPOINT
    question = (endpoint, kind, name, revision, hash((token, get_token())))
    for key in ((endpoint,), question):
        when, reason = _answers.get(key, (-_REMEMBERED, None))
        if time.monotonic() - when < _REMEMBERED:
            return reason
    error = _error_of_request(kind, name, revision, token)
    if error is None:
        _answers[question] = time.monotonic(), None
        return None
    reason = reason_of(error, kind, name, revision)
    _answers[endpoint,] = time.monotonic(), reason
    return reason


def reason_of(error: Exception, kind: RepoType, name: str, revision: str | None) -> str:
    """Why the Hub does not give a repository, from what was raised when it was asked.

    Raises:
        ValueError: The Hub answers that it does not give it.
    """
    from huggingface_hub import constants

    refusal = _refusal(error, kind, name, revision, constants.ENDPOINT)
    if refusal:
        raise ValueError(refusal) from None  # whose traceback is long
    return f"The Hugging Face Hub at {constants.ENDPOINT} {_symptom(error)}"


def _error_of_request(
    kind: RepoType, name: str, revision: str | None, token: str | bool | None
) -> Exception | None:
    """What one request raises; a thread waits for it, since no timeout covers all of a request."""
    from huggingface_hub import HfApi

    errors: list[Exception | None] = []

    def request() -> None:
        """Ask, and leave what was raised, or None, in `errors`."""
        try:
            HfApi(token=token).repo_info(name, revision=revision, repo_type=kind, timeout=_LIMIT)
            errors.append(None)
        except Exception as error:  # told to the caller
            errors.append(error)

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(_LIMIT)
    return errors[0] if errors else TimeoutError()


def _refusal(
    error: Exception, kind: RepoType, name: str, revision: str | None, endpoint: str
) -> str | None:
    """What to say of an answer that the Hub gives for good; None of an error that may pass."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where = f"{name!r} is not a folder here, and the Hub at {endpoint}"
    if isinstance(error, GatedRepoError):
        return f"The {kind} {name!r} is gated: ask for access on the Hub, then run `hf auth login`."
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"{where} has no {kind} of that name, or it is private. Check the name; for a private "
            "one, run `hf auth login`."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"The {kind} {name!r} has no revision {revision!r} on the Hub at {endpoint}."
    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
        return (
            f"{where} does not give it to you ({error.response.status_code}): the token is not "
            "valid for it. Run `hf auth login`, or set HF_TOKEN."
        )
    return None


def _symptom(error: Exception) -> str:
    """What an error says of a Hub that cannot be asked, in a few words."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        response = error.response
        return f"answers {response.status_code} {response.reason_phrase}".rstrip()
    if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
        return f"does not answer within {_LIMIT:g} s"
    if isinstance(error, (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)):
        return f"breaks off the connection ({' '.join(str(error).split()) or type(error).__name__})"
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL, OSError)):
        return f"cannot be reached ({' '.join(str(error).split()) or type(error).__name__})"
    if isinstance(error, (json.JSONDecodeError, KeyError, TypeError)):  # a page of something else
        return "gives an answer that is not the Hub's"
    raise error
