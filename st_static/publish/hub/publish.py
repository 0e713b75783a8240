"""Publishing a model's folder on the Hugging Face Hub."""

from __future__ import annotations

import logging
import string
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import OfflineModeIsEnabled
from numpy.typing import NDArray

from st_static.arguments import check_type
from st_static.files import temporary_folder
from st_static.hub_access import check_repo_id, whole_path
from st_static.model.model_folder import ModelFile, ModelFolder
from st_static.publish.checks.folder import check_folder
from st_static.publish.hub.fresh_load import check_equal, load_fresh, sample_texts
from st_static.publish.hub.repository import MAIN, Repository, Upload, UploadError
from st_static.publish.hub.retry import HUB_ERRORS, is_refusal, reason_of, retried

logger = logging.getLogger(__name__)

_LOGIN = (
    "Log in with `hf auth login`, or set HF_TOKEN, with a token that may write "
    "(https://huggingface.co/settings/tokens)."
)


@dataclass(frozen=True)
class Published:
    """What was published, or would have been.

    Attributes:
        repo_id: ORG/NAME.
        files: The model's files.
        url: Address of the repository, or of the pull request; None after a dry run.
        commit: The commit that holds the files; None after a dry run.
        is_new: Whether that commit was made now; it is not if the repository held the same files.
        tag: The tag that holds them, too, if one was asked for.
    """

    repo_id: str
    files: list[ModelFile]
    url: str | None = None
    commit: str | None = None
    is_new: bool = False
    tag: str | None = None


def publish(
    folder: str | Path,
    repo_id: str,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    allow_remote_code: bool = False,
    token: str | None = None,
) -> Published:
    """Upload a model in one commit, and check that others can load it.

    The folder is checked first. Afterwards exactly the new commit is downloaded, and its files are
    compared with the folder's; a new process loads them with sentence-transformers alone, and its
    vectors are compared with the folder's, too.

    Args:
        folder: The model, with its card.
        repo_id: ORG/NAME; created if it is not there.
        private: Whether a repository that is created is private.
        revision: Branch to upload to; created if it is not there. By default main.
        create_pr: Whether to open a pull request instead.
        tag: Tag for the commit, set when everything else has succeeded.
        dry_run: Whether to stop before the first request to the Hub.
        allow_remote_code: Whether the model may bring modules of its own. They are run here.
        token: The Hub's token; by default HF_TOKEN, or the one that was logged in with.

    Raises:
        ValueError: The folder is not fit, the request cannot be, or the published model has other
            content, does not load or gives other vectors.
        OSError: The Hub cannot be reached, or does not take the model.
        TypeError: An argument is of the wrong kind.
    """
    model = ModelFolder.local(folder)
    check_request(repo_id, revision, create_pr, tag)
    files = check_folder(model, allow_remote_code, repo_id)
    token = None if dry_run else find_token(token)
    local = _Vectors.of_folder(model, allow_remote_code)
    if dry_run:
        return Published(repo_id, files)
    with explained(repo_id):
        repository = Repository(HfApi(token=token), repo_id)
        upload = _upload(repository, model.path, files, private, revision, create_pr, tag)
    logger.info("Downloading %s at %s, and comparing it", repo_id, upload.commit[:12])
    try:
        with temporary_folder() as cache:
            with explained(repo_id):
                repository.check_served(model.path, files, upload.commit, cache)
            local.compare(repo_id, upload.commit, token, cache)
    except ValueError as error:
        raise ValueError(
            f"{error} The files were uploaded, but do not rely on them. Publish again to check "
            "them once more; if that does not help, look at what else is in the repository."
        ) from error
    if tag:
        with explained(repo_id):
            repository.tag(tag, upload.commit)
    return Published(repo_id, files, upload.url, upload.commit, upload.is_new, tag)


@dataclass(frozen=True)
class _Vectors:
    """What a folder gives for some texts, with sentence-transformers alone."""

    texts: list[str]
    vectors: NDArray[np.floating]
    allow_remote_code: bool

    @classmethod
    def of_folder(cls, folder: ModelFolder, allow_remote_code: bool) -> _Vectors:
        """Encode texts with the model in a folder."""
        texts = sample_texts(folder)
        logger.info("Loading %s with sentence-transformers alone", folder.path)
        vectors = load_fresh(whole_path(folder.path), texts, trust_remote_code=allow_remote_code)
        return cls(texts, vectors, allow_remote_code)

    def compare(self, repo_id: str, commit: str, token: str | None, cache: Path) -> None:
        """Check that a commit on the Hub, which is in the cache, gives the same.

        Raises:
            ValueError: It does not load, or gives other vectors.
        """
        remote_code = self.allow_remote_code
        published = load_fresh(repo_id, self.texts, commit, token, remote_code, cache)
        check_equal(self.vectors, published, repo_id)


def _upload(
    repository: Repository,
    folder: Path,
    files: list[ModelFile],
    private: bool,
    revision: str | None,
    create_pr: bool,
    tag: str | None,
) -> Upload:
    """Make the repository hold the folder's files; for the arguments see `publish`."""
    author = retried(repository.api.whoami)["name"]
    repository.create(private)
    if tag:
        _check_tag(repository, tag, folder, files)
    logger.info("Uploading %d files to %s", len(files), repository.repo_id)
    message = f"Upload {folder.resolve().name}"
    if create_pr:
        return repository.propose(folder, files, message, author)
    return repository.commit(folder, files, message, revision or MAIN)


def check_request(
    repo_id: str, revision: str | None = None, create_pr: bool = False, tag: str | None = None
) -> None:
    """Check what can be checked without the Hub; for the arguments see `publish`.

    Raises:
        ValueError: It is not the name of a repository, or the arguments exclude each other.
    """
    check_type(repo_id, str, "the repository as ORG/NAME")
    for value, name in ((revision, "a branch"), (tag, "a tag")):
        if value is not None:
            check_type(value, str, f"{name} as a str")
    check_repo_id(repo_id)
    if create_pr and (tag or revision not in (None, MAIN)):
        raise ValueError(
            "A pull request is made to main, and has no tag. Leave out --revision and --tag, and "
            "tag the commit when it has been merged."
        )


def find_token(token: str | None = None) -> str:
    """The token, which must be one that can be sent.

    Raises:
        ValueError: There is none, or it cannot be one; does not repeat it.
    """
    if token is not None and not isinstance(token, str):  # whose value is not for messages
        raise TypeError(f"Expected the token as a str, but its type is {type(token).__name__}.")
    token = token or get_token()
    if not token:
        raise ValueError(f"Publishing needs a token of the Hugging Face Hub. {_LOGIN}")
    # Libraries below repeat a header that cannot be sent in their messages.
    if set(token) - set(string.ascii_letters + string.digits + string.punctuation):
        raise ValueError(
            f"The token holds characters that no token has: white space, or letters beyond a-z. "
            f"{_LOGIN}"
        )
    return token


def _check_tag(repository: Repository, tag: str, folder: Path, files: list[ModelFile]) -> None:
    """Check, before anything is uploaded, that a tag is free or at the same files."""
    commit = retried(repository.tags).get(tag)
    if commit and retried(lambda: repository.changes(folder, files, commit)):
        raise ValueError(
            f"The tag {tag} of {repository.repo_id} is there, at other files. Choose another, or "
            "delete it on the Hub. Nothing was uploaded."
        )


@contextmanager
def explained(repo_id: str) -> Iterator[None]:
    """Turn errors of the client into ones that say what to do."""
    try:
        yield
    except OfflineModeIsEnabled as error:
        raise ValueError("HF_HUB_OFFLINE is set. Unset it to publish.") from error
    except HUB_ERRORS as error:
        reason = reason_of(error)
        if is_refusal(error):
            raise ValueError(f"The token may not write to {repo_id}. {reason}. {_LOGIN}") from error
        raise UploadError(
            f"Publishing {repo_id} failed. {reason}. Publish again: what has arrived is not sent "
            "again, and a commit holds all files or is not made."
        ) from error
