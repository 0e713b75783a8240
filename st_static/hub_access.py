"""Whether the Hugging Face Hub gives a model or dataset: asked once, before work starts.

Libraries that load from the Hub ask for each file, and again and again where no answer comes. So
it is asked here first: one request, with a limit for all of it. Where it fails, a copy in the
cache serves, and the libraries are told not to ask.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from st_static.arguments import check_model_name
from st_static.hub_request import RepoType, ask, reason_of

logger = logging.getLogger(__name__)

_SPELT_LIKE_AN_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


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
        ValueError: There is no such folder, it is a file, or the Hub does not give the model.
        HubUnavailableError: The Hub cannot be asked, and the cache does not have it.
    """
    if Path(name).exists():
        check_model_name(name)
        return None
    if looks_like_path(name):
        raise ValueError(_no_folder(name))
    return _require("model", name, revision, token, cache_folder, otherwise)


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
            reason = ask("model", repo_id, None, None)
        except ValueError:  # such as that there is none yet
            reason = None
    if reason:
        raise HubUnavailableError(reason, "Check the connection, HF_ENDPOINT and HF_HUB_OFFLINE")


@contextmanager
def downloading(kind: RepoType, name: str, revision: str | None = None) -> Iterator[None]:
    """Tell in a sentence of a download inside the block that fails, whichever library does it.

    Libraries pass on the errors of their HTTP client, which are no OSError.

    Args:
        kind: What is downloaded.
        name: Its id on the Hub, or a folder, of which nothing is.
        revision: Branch, tag or commit on the Hub.

    Raises:
        ValueError: The Hub answers that it does not give it.
        HubUnavailableError: The connection broke, or the Hub is out of order.
    """
    try:
        yield
    except Exception as error:
        cause = _client_error(error)
        if cause is None:
            raise
        reason = reason_of(cause, kind, name, revision)
        what = f"{reason}, and the {kind} {name!r} was not downloaded"
        raise HubUnavailableError(what, "Try again: files that have arrived are kept") from None


def _client_error(error: BaseException) -> Exception | None:
    """The HTTP client's error that an error is or comes from, if there is one."""
    import httpx2
    from huggingface_hub.errors import LocalEntryNotFoundError

    if isinstance(error, httpx2.HTTPError):
        return error
    came_from = error.__cause__ or error.__context__
    found = _client_error(came_from) if came_from else None
    # Clients look for files that need not be there: not every answer of the Hub is the reason.
    is_reason = isinstance(found, httpx2.TransportError) or isinstance(
        error, LocalEntryNotFoundError
    )
    return found if is_reason else None


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
    reason = "HF_HUB_OFFLINE is set" if is_offline else ask(kind, name, revision, token)
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
