"""Whether the Hugging Face Hub gives a model or dataset: asked once, before work starts.

Libraries that load from the Hub ask for each file, and again and again where no answer comes. So
it is asked here first: one request, with a limit for all of it. Where it fails, a copy in the
cache serves, and the libraries are told not to ask.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

logger = logging.getLogger(__name__)

RepoType = Literal["model", "dataset"]

_SPELT_LIKE_AN_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_HUB_KINDS = ("model2vec", "sentence-transformers")
_LIMIT = 10.0
"""Seconds that the Hub has for its answer, looking up its name included."""
# What the Hub gives, and that it cannot be reached, is remembered for so many seconds.
_REMEMBERED = 60.0
_answers: dict[tuple[object, ...], tuple[float, str | None]] = {}


class HubUnavailableError(ValueError):
    """The Hub cannot be asked, and the cache does not have what was looked for.

    Attributes:
        cause: What was tried.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}. {remedy}.")
        self.cause = cause


def require_model(
    name: str,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_folder: str | Path | None = None,
    otherwise: str = "name a local folder instead",
) -> Path | None:
    """Make sure that a model can be had, without loading it.

    Args:
        name: A folder, or an id on the Hub; what looks like a path is a path.
        revision: Branch, tag or commit on the Hub.
        token: The Hub's token; by default the one that was logged in with.
        cache_folder: Where downloads are kept; by default the Hub's cache.
        otherwise: What can be done without the Hub, for the message.

    Returns:
        The copy in the Hub's cache if it is to be used instead of asking the Hub; else None.

    Raises:
        ValueError: There is no such folder, or the Hub does not give the model.
        HubUnavailableError: The Hub cannot be asked, and the cache does not have it.
    """
    if Path(name).exists():
        return None
    if looks_like_path(name):
        raise ValueError(_no_folder(name))
    return _require("model", name, revision, token, cache_folder, otherwise)


def require_named(name: str) -> None:
    """Make sure that a model can be had that may have a kind before its name, as in `glove:FILE`.

    Only kinds that are read from the Hub, too, are looked at.

    Raises:
        ValueError: There is no such folder, or neither the Hub nor the cache gives the model.
    """
    kind, separator, rest = name.partition(":")
    if not separator or kind in _HUB_KINDS:
        require_model(rest or name)


def require_dataset(
    name: str, revision: str | None = None, otherwise: str = "use local files instead"
) -> Path | None:
    """Make sure that a dataset can be had, without loading it.

    Args:
        name: A folder, or an id on the Hub.
        revision: Branch, tag or commit on the Hub.
        otherwise: What can be done without the Hub, for the message.

    Returns:
        The copy in the cache of the package `datasets` if it is to be used, inside `offline()`,
        instead of asking the Hub; else None.

    Raises:
        ValueError: The Hub does not give the dataset.
        HubUnavailableError: The Hub cannot be asked, and the cache does not have it.
    """
    if Path(name).exists():
        return None
    return _require("dataset", name, revision, None, None, otherwise)


def require_hub(repo_id: str) -> None:
    """Make sure that the Hub answers, whatever it says of a repository.

    Raises:
        HubUnavailableError: It cannot be asked.
    """
    from huggingface_hub import is_offline_mode

    reason: str | None = "HF_HUB_OFFLINE is set"
    if not is_offline_mode():
        try:
            reason = _ask("model", repo_id, None, None)
        except ValueError:  # such as that there is none yet
            reason = None
    if reason:
        raise HubUnavailableError(reason, "Check the connection, HF_ENDPOINT and HF_HUB_OFFLINE")


def check_repo_id(repo_id: str) -> None:
    """Check that a name is that of a repository, with the organisation or user that it belongs to.

    Raises:
        ValueError: It is not.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    expected = f"Expected the repository as ORG/NAME, but got {repo_id!r}"
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"{expected}: {error}") from None
    if "/" not in repo_id:
        raise ValueError(f"{expected}.")


def whole_path(name: str | Path) -> str:
    """A folder by its whole path; another name as it is.

    Of `models/mine`, which could be an id, sentence-transformers asks the Hub who made it, and
    waits without a limit.
    """
    return str(Path(name).absolute()) if Path(name).is_dir() else str(name)


def looks_like_path(name: str) -> bool:
    """Whether a name can only be that of a local folder, or begins with one that is here.

    Example:
        >>> [looks_like_path(name) for name in ("./model", "a/b/c", "model/", "org/model")]
        [True, True, True, False]
    """
    separators = {"/", os.sep}
    if name.startswith((".", "~")) or Path(name).is_absolute() or name[-1:] in separators:
        return True
    parts = Path(name).parts
    return len(parts) > 2 or (len(parts) == 2 and Path(parts[0]).is_dir())


def _no_folder(name: str) -> str:
    """What to say of a path that leads nowhere: the nearest folder beside it."""
    path = Path(name)
    parent = path.parent
    beside = sorted(p.name for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    if near:
        hint = f" Did you mean {parent / near[0]}?"
    elif _SPELT_LIKE_AN_ID.fullmatch(name) and parent.is_dir():
        hint = f" As there is a folder {parent} here, this is not taken for a Hub id."
    else:
        hint = ""
    return f"There is no folder {name}.{hint}"


@contextmanager
def offline() -> Iterator[None]:
    """Let no library ask the Hub inside the block, as with HF_HUB_OFFLINE=1.

    It holds for the whole process: `datasets` has no other way to load from its cache alone.
    """
    import datasets.config
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


def _require(
    kind: RepoType,
    name: str,
    revision: str | None,
    token: str | bool | None,
    cache_folder: str | Path | None,
    otherwise: str,
) -> Path | None:
    from huggingface_hub import is_offline_mode
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ValueError(
            f"{name!r} is neither a folder here nor an id on the Hub, such as ORG/NAME."
        ) from None
    title = f"the {kind} {name!r}" + (f" at the revision {revision!r}" if revision else "")
    is_offline = is_offline_mode()
    reason = "HF_HUB_OFFLINE is set" if is_offline else _ask(kind, name, revision, token)
    if reason is None:
        return None
    copy = (
        _cached_dataset(name, revision)
        if kind == "dataset"
        else _cached_model(name, revision, cache_folder)
    )
    if copy is None:
        remedy = "Unset it" if is_offline else _REMEDIES[kind].format(name=name)
        cause = f"{reason}, and {title} is neither a folder here nor in the cache"
        raise HubUnavailableError(cause, f"{remedy}, or {otherwise}")
    if not is_offline:
        logger.warning(
            "%s. Using the cached copy of %s; with HF_HUB_OFFLINE=1 the Hub is not asked.",
            *(reason, title),
        )
    return copy


_REMEDIES: dict[RepoType, str] = {
    "model": "Check the connection and HF_ENDPOINT, or run `hf download {name}` where there is a "
    "connection, copy the cache and set HF_HUB_OFFLINE=1",
    "dataset": "Check the connection and HF_ENDPOINT, or load it once where there is a connection, "
    "copy the cache and set HF_HUB_OFFLINE=1",
}


def _ask(kind: RepoType, name: str, revision: str | None, token: str | bool | None) -> str | None:
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
    refusal = _refusal(error, kind, name, revision, endpoint)
    if refusal:
        raise ValueError(refusal) from None  # whose traceback is long
    reason = f"The Hugging Face Hub at {endpoint} {_symptom(error)}"
    _answers[endpoint,] = time.monotonic(), reason
    return reason


def _error_of_request(
    kind: RepoType, name: str, revision: str | None, token: str | bool | None
) -> Exception | None:
    """What one request raises; a thread waits for it, since no timeout covers all of a request."""
    from huggingface_hub import HfApi

    errors: list[Exception | None] = []

    def request() -> None:
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
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL, OSError)):
        return f"cannot be reached ({' '.join(str(error).split()) or type(error).__name__})"
    if isinstance(error, (json.JSONDecodeError, KeyError, TypeError)):  # a page of something else
        return "gives an answer that is not the Hub's"
    raise error


def _cached_model(name: str, revision: str | None, cache_folder: str | Path | None) -> Path | None:
    """The snapshot in the Hub's cache, if it is there."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            name,
            revision=revision,
            cache_dir=cache_folder,
            allow_patterns=["config.json", "modules.json"],
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return None
    return Path(folder)


def _cached_dataset(name: str, revision: str | None) -> Path | None:
    """The folder of a dataset that was loaded before, if it is of that revision alone.

    `datasets` takes the latest copy, of whatever revision.
    """
    import datasets.config
    from datasets.naming import camelcase_to_snakecase

    owner, _, short = name.rpartition("/")
    folder = Path(datasets.config.HF_DATASETS_CACHE) / "___".join(
        [*([owner] if owner else []), camelcase_to_snakecase(short)]
    )
    # CONFIGURATION/VERSION/REVISION
    copies = {path.name for path in folder.glob("*/*/*") if path.is_dir()}
    return folder if copies and (revision is None or copies == {revision}) else None
