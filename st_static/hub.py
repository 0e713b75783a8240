"""Ask the Hugging Face Hub for models and datasets, and explain its errors.

Libraries retry for long if it does not answer: one request with a time limit goes first. If that
fails, a cached copy is used, and the libraries are told not to ask.
"""

from __future__ import annotations

import difflib
import functools
import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from st_static.arguments import check_model_name
from st_static.our_recipes import known_recipes

if TYPE_CHECKING:
    import httpx2

RepoType = Literal["model", "dataset"]

logger = logging.getLogger(__name__)

_LIMIT = 10.0
"""Seconds that the Hub has for its answer, including the look-up of its name."""
_REMEMBERED = 60.0
"""Seconds for which an answer of the Hub, or its absence, is remembered."""
NO_HOME = "This user has no home directory, where downloads are kept: set HOME to a folder."
_PACKAGED = Path(__file__).with_name("models")
DEFAULT_MODEL = "st-static/english-384"
"""The model in this package that commands take if none is named."""
_answers: dict[tuple[object, ...], tuple[float, str | None]] = {}
_SPELT_LIKE_AN_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_REMEDY = (
    "Check the connection and HF_ENDPOINT, or {download} where there is a connection, copy the "
    "cache and set HF_HUB_OFFLINE=1"
)


class HubUnavailableError(ValueError):
    """The Hub cannot be asked, because of `cause`, and the cache does not have what is wanted."""

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
    """Check that a model is available, without loading it; what looks like a path is one. Returns
    the copy in this package or in the cache that is used instead of asking the Hub, if there is
    one. Errors are a ValueError, with what to do `otherwise`, or a HubUnavailableError if the cache
    does not have it either."""
    if Path(name).exists():
        check_model_name(name)
        tell_hidden(name)
        return None
    if in_package := packaged(name, revision):
        return in_package
    if looks_like_path(name):
        raise ValueError(_no_folder(name))
    if name.startswith("st-static/"):
        ours = ", ".join(sorted(f"st-static/{folder.name}" for folder in _PACKAGED.glob("*")))
        otherwise = f"name a model in the package: {ours}"
    return _require("model", name, revision, otherwise, token=token, cache_folder=cache_folder)


def packaged(name: str | Path, revision: str | None = None) -> Path | None:
    """Find the folder of a model in this package by its id, such as st-static/english-384; None for
    other names, for a folder of the user, which goes first, and for a revision on the Hub."""
    return _in_package(name) if revision is None and not Path(name).exists() else None


def tell_hidden(folder: str | Path) -> None:
    """Say that a folder of the user hides the model of that name in this package, if there is one;
    a ValueError if the folder is empty."""
    if _in_package(folder) is None:
        return
    if not any(Path(folder).iterdir()):
        raise ValueError(
            f"The folder {folder} here is empty, and hides the model of that name in the package "
            "st_static. Remove the folder."
        )
    _warn_hidden(folder)


@functools.cache
def _warn_hidden(folder: str | Path) -> None:
    message = "Using the folder %s here, not the model of that name in the package st_static."
    logger.warning(message, folder)


def _in_package(name: str | Path) -> Path | None:
    owner, _, short = Path(name).as_posix().partition("/")
    names = _PACKAGED.glob("*") if owner == "st-static" else ()
    return next((folder for folder in names if folder.name == short), None)


def require_dataset(
    name: str, revision: str | None = None, otherwise: str = "use local files instead"
) -> Path | None:
    """Check that a dataset is available, as a model; its cached copy is for use in `offline()`."""
    return None if Path(name).exists() else _require("dataset", name, revision, otherwise)


def require_hub(repo_id: str) -> None:
    """Check that the Hub answers, whatever it says about a repository."""
    from huggingface_hub import is_offline_mode

    reason: str | None = "HF_HUB_OFFLINE is set"
    if not is_offline_mode():
        try:
            reason = _ask("model", repo_id, None, None)
        except ValueError:  # an answer, such as that the repository does not exist yet
            reason = None
    if reason:
        raise HubUnavailableError(reason, "Check the connection, HF_ENDPOINT and HF_HUB_OFFLINE")


def _require(
    kind: RepoType,
    name: str,
    revision: str | None,
    otherwise: str,
    token: str | bool | None = None,
    cache_folder: str | Path | None = None,
) -> Path | None:
    from huggingface_hub import constants, is_offline_mode
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        what = f"{name!r} is neither a folder here nor an id on the Hub, such as ORG/NAME."
        raise ValueError(what) from None
    cache = constants.HF_HUB_CACHE if kind == "model" else constants.HF_HOME
    if cache_folder is None and cache.startswith("~"):  # which could not be expanded
        raise ValueError(NO_HOME)
    is_offline = is_offline_mode()
    reason = "HF_HUB_OFFLINE is set" if is_offline else _ask(kind, name, revision, token)
    if reason is None:
        return None
    title = f"the {kind} {name!r}" + (f" at the revision {revision!r}" if revision else "")
    if kind == "dataset":
        copy, download = _cached_dataset(name, revision), "load it once"
    else:
        copy, download = _cached_model(name, revision, cache_folder), f"run `hf download {name}`"
    if copy is None:
        remedy = "Unset it" if is_offline else _REMEDY.format(download=download)
        cause = f"{reason}, and {title} is neither a folder here nor in the cache"
        raise HubUnavailableError(cause, f"{_meant(kind, name)}{remedy}, or {otherwise}")
    if not is_offline:
        instead = "Using the cached copy of %s; with HF_HUB_OFFLINE=1 the Hub is not asked."
        logger.warning(f"%s. {instead}", reason, title)
    return copy


def _ask(kind: RepoType, name: str, revision: str | None, token: str | bool | None) -> str | None:
    """Ask the Hub, unless it has just answered; None if it gives the repository, else why not."""
    from huggingface_hub import HfApi, constants, get_token

    question = (constants.ENDPOINT, kind, name, revision, hash((token, get_token())))
    for key in (question[:1], question):
        when, reason = _answers.get(key, (-_REMEMBERED, None))
        if time.monotonic() - when < _REMEMBERED:
            return reason
    errors: list[Exception | None] = []

    def request() -> None:
        try:
            HfApi(token=token).repo_info(name, revision=revision, repo_type=kind, timeout=_LIMIT)
            errors.append(None)
        except Exception as error:  # handled by the caller
            errors.append(error)

    # In a thread, since no timeout covers a whole request.
    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(_LIMIT)
    error = errors[0] if errors else TimeoutError(_LIMIT)
    reason = _reason(error, kind, name, revision) if error else None
    _answers[question[:1] if error else question] = time.monotonic(), reason
    return reason


def _cached_model(name: str, revision: str | None, cache_folder: str | Path | None) -> Path | None:
    """Find a model's snapshot in the Hub's cache."""
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
    """Find a dataset in the cache, if all copies are of that revision: the latest is used."""
    import datasets.config
    from datasets.naming import camelcase_to_snakecase

    owner, mark, short = name.rpartition("/")
    stored = owner + mark.replace("/", "___") + camelcase_to_snakecase(short)
    folder = Path(datasets.config.HF_DATASETS_CACHE) / stored
    # CONFIGURATION/VERSION/REVISION
    copies = {path.name for path in folder.glob("*/*/*") if path.is_dir()}
    return folder if copies and (revision is None or copies == {revision}) else None


@contextmanager
def offline() -> Iterator[None]:
    """Let no library of this process ask the Hub; `datasets` has no other way to use its cache."""
    import datasets.config
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


@contextmanager
def downloading(kind: RepoType, name: str, revision: str | None = None) -> Iterator[None]:
    """Turn the failure of any library's download in the block into one sentence: a ValueError if
    the Hub refuses it, else a HubUnavailableError."""
    try:
        yield
    except Exception as error:
        cause = client_error(error)
        if cause is None:
            raise
        reason = _reason(cause, kind, name, revision)
        what = f"{reason}, and the {kind} {name!r} was not downloaded"
        raise HubUnavailableError(what, "Try again: files that have arrived are kept") from None


def client_error(error: BaseException) -> Exception | None:
    """Find the HTTP client's error that an error is or comes from, if there is one."""
    import httpx2
    from huggingface_hub.errors import LocalEntryNotFoundError

    if isinstance(error, httpx2.HTTPError):
        return error
    came_from = error.__cause__ or error.__context__
    cause = client_error(came_from) if came_from else None
    # Clients look for optional files, too: not every answer of the Hub is the reason.
    is_missed = isinstance(error, LocalEntryNotFoundError)
    return cause if is_missed or isinstance(cause, httpx2.TransportError) else None


def _reason(error: Exception, kind: RepoType, name: str, revision: str | None) -> str:
    """Explain why a request failed; raise a ValueError if the Hub refused it for good."""
    from huggingface_hub import constants, errors

    hub = f"the Hub at {constants.ENDPOINT}"
    where = f"{name!r} is not a folder here, and {hub}"
    if isinstance(error, errors.GatedRepoError):
        refusal = f"The {kind} {name!r} is gated: ask for access on the Hub, then run"
    elif isinstance(error, errors.RepositoryNotFoundError):
        refusal = (
            f"{where} has no {kind} of that name, or it is private. {_meant(kind, name)}Check the "
            "name; for a private one, run"
        )
    elif isinstance(error, errors.RevisionNotFoundError):
        raise ValueError(f"The {kind} {name!r} has no revision {revision!r} on {hub}.") from None
    elif isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        refusal = (
            f"{where} does not give it to you ({error.response.status_code}): the token is not "
            "valid for it. Set HF_TOKEN, or run"
        )
    else:
        return f"The Hugging Face Hub at {constants.ENDPOINT} {symptom(error)}"
    raise ValueError(f"{refusal} `hf auth login`.") from None


def _meant(kind: RepoType, name: str) -> str:
    """Ask whether a model in this package was meant, or say how to build that of a recipe."""
    owner, _, short = name.rpartition("/")
    if kind != "model" or owner not in ("", "st-static", "st_static"):
        return ""
    ours = [folder.name for folder in _PACKAGED.glob("*")]
    if near := difflib.get_close_matches(short.lower(), ours, n=1, cutoff=0.85):
        return f"Did you mean st-static/{near[0]}? "
    return f"To build it, run `st-static build {short}`. " if short in known_recipes() else ""


def symptom(error: Exception) -> str:
    """Describe an error of the Hub in a few words; without an upload's signed, secret address."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, HfHubHTTPError):
        answer = f"answers {error.response.status_code} {error.response.reason_phrase}".rstrip()
        message = " ".join((error.server_message or "").split()).rstrip(".")
        return f"{answer}: {message}" if message else answer
    if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
        seconds = _time_limit(error)
        return f"does not answer within {seconds:g} s" if seconds else "does not answer in time"
    if isinstance(error, (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)):
        return f"breaks off the connection ({said})"
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL, OSError)):
        return f"cannot be reached ({said})"
    if isinstance(error, (json.JSONDecodeError, KeyError, TypeError)):  # not an answer of the Hub
        return "gives an answer that is not the Hub's"
    raise error


def _time_limit(error: TimeoutError | httpx2.TimeoutException) -> float | None:
    """Find the seconds that the Hub had for what timed out; None if the error does not tell."""
    if isinstance(error, TimeoutError):
        return next((limit for limit in error.args if isinstance(limit, float)), None)
    with suppress(RuntimeError):  # it belongs to no request
        limits: dict[str, float | None] = error.request.extensions.get("timeout", {})
        return limits.get(type(error).__name__.removesuffix("Timeout").lower())
    return None


def check_repo_id(repo_id: str) -> None:
    """Check that a name is that of a repository, including its organisation or user."""
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
    """Make a folder's path absolute; return another name as it is. Given `models/mine`,
    sentence-transformers asks the Hub who made it, without a time limit."""
    return str(Path(name).absolute()) if Path(name).is_dir() else str(name)


def may_be_model(name: str) -> bool:
    """Tell whether a name can be that of a model: something that exists, a path, an id, or a model
    in this package without `st-static/`."""
    spelt = _SPELT_LIKE_AN_ID.fullmatch(name) or _in_package(f"st-static/{name}")
    return bool(spelt) or Path(name).exists() or looks_like_path(name)


def looks_like_path(name: str) -> bool:
    """Tell whether a name can only be a local path, or begins with an existing folder."""
    separators = {"/", os.sep}
    if name.startswith((".", "~")) or Path(name).is_absolute() or name[-1:] in separators:
        return True
    parts = Path(name).parts
    return len(parts) > 2 or (len(parts) == 2 and Path(parts[0]).is_dir())


def _no_folder(name: str) -> str:
    """Say that a path leads nowhere, and suggest the nearest folder beside it."""
    path = Path(name)
    parent = path.parent
    folders = sorted(p.name for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []
    near = difflib.get_close_matches(path.name, folders, n=1)
    hint = f" Did you mean {parent / near[0]}?" if near else ""
    if not near and _SPELT_LIKE_AN_ID.fullmatch(name) and parent.is_dir():
        hint = f" As there is a folder {parent} here, this is not taken for a Hub id."
    return f"There is no folder {name}.{hint}"
