"""A repository on the Hub, of a model or its demo: what is in it, and changing it in one commit."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    get_session,
    hf_hub_url,
    hf_raise_for_status,
)
from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
from huggingface_hub.hf_api import ModelInfo, RepoFile, SpaceInfo
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from st_static.model.model_folder import ModelFile
from st_static.publish.checks.folder import is_written_here
from st_static.publish.hub.retry import HUB_ERRORS, is_refusal, reason_of, retried

MAIN = "main"


class UploadError(OSError):
    """The Hub did not take the model."""


@dataclass(frozen=True)
class Changes:
    """How a repository differs from a folder.

    Attributes:
        changed: Paths of files that are new or other.
        stale: Paths of files that an earlier version of the model had, and this one has not.
    """

    changed: list[str]
    stale: list[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.stale)


@dataclass(frozen=True)
class Upload:
    """A commit that holds a folder's files.

    Attributes:
        commit: Its id.
        url: Address of the repository, or of the pull request.
        is_new: Whether it was made now; it is not if the files were there already.
    """

    commit: str
    url: str
    is_new: bool


class Repository:
    """A repository of a model, or of a page: a static Space.

    Changes are asked for again after errors that pass, where huggingface_hub does not do so by
    itself.

    Args:
        api: The client, with its token.
        repo_id: ORG/NAME.
        kind: What it is a repository of.
        is_own: Whether a path in it is one that st_static writes, which it may delete.
    """

    def __init__(
        self,
        api: HfApi,
        repo_id: str,
        kind: Literal["model", "space"] = "model",
        is_own: Callable[[str], bool] = is_written_here,
    ) -> None:
        self.api = api
        self.repo_id = repo_id
        self._kind = kind
        self._is_own = is_own

    @property
    def url(self) -> str:
        """The repository's address."""
        return f"{self.api.endpoint}/{'spaces/' * (self._kind == 'space')}{self.repo_id}"

    def create(self, private: bool) -> None:
        """Create the repository where there is none.

        Raises:
            ValueError: It is to be private, and is there and public.
        """
        visibility = True if private else None  # None is what the organisation has chosen
        sdk = "static" if self._kind == "space" else None
        retried(
            lambda: self.api.create_repo(
                self.repo_id,
                private=visibility,
                repo_type=self._kind,
                exist_ok=True,
                space_sdk=sdk,
            )
        )
        if private and not retried(lambda: self._info(MAIN)).private:
            raise ValueError(
                f"{self.repo_id} is there and public, but you asked for a private repository. Make "
                "it private in its settings on the Hub, or publish without --private."
            )

    def head(self, revision: str) -> str:
        """The commit at the end of a branch or pull request."""
        sha = self._info(revision).sha
        if sha is None:
            raise UploadError(f"The Hub names no commit of {self.repo_id} at {revision}.")
        return sha

    def _info(self, revision: str) -> ModelInfo | SpaceInfo:
        if self._kind == "space":
            return self.api.space_info(self.repo_id, revision=revision)
        return self.api.model_info(self.repo_id, revision=revision)

    def files(self) -> set[str]:
        """The paths of the files on main; none where there is no repository."""
        try:
            entries = self.api.list_repo_tree(self.repo_id, recursive=True, repo_type=self._kind)
            return {entry.path for entry in entries if isinstance(entry, RepoFile)}
        except RepositoryNotFoundError:
            return set()

    def content(self, path: str) -> bytes:
        """The content of a file on main."""
        url = hf_hub_url(self.repo_id, path, repo_type=self._kind, endpoint=self.api.endpoint)
        headers = build_hf_headers(token=self.api.token)
        response = get_session().get(url, headers=headers, timeout=HF_HUB_DOWNLOAD_TIMEOUT)
        hf_raise_for_status(response)
        return response.content

    def tags(self) -> dict[str, str]:
        """The commit of each tag."""
        refs = self.api.list_repo_refs(self.repo_id, repo_type=self._kind)
        return {tag.name: tag.target_commit for tag in refs.tags}

    def tag(self, name: str, commit: str) -> None:
        """Tag a commit."""
        retried(
            lambda: self.api.create_tag(
                self.repo_id, tag=name, revision=commit, repo_type=self._kind, exist_ok=True
            )
        )

    def changes(self, folder: Path, files: Iterable[ModelFile], commit: str) -> Changes:
        """Compare a commit with a folder, by the sizes and hashes of files."""
        entries = self.api.list_repo_tree(
            self.repo_id, recursive=True, revision=commit, repo_type=self._kind
        )
        there = {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}
        here = {file.path: file for file in files}
        changed = [
            path
            for path, file in here.items()
            if path not in there or not _is_same(folder / path, file, there[path])
        ]
        stale = [path for path in there if path not in here and self._is_own(path)]
        return Changes(changed, sorted(stale))

    def commit(
        self, folder: Path, files: list[ModelFile], message: str, branch: str = MAIN
    ) -> Upload:
        """Make a branch hold the folder's files, in one commit; none if it holds them already.

        Files that st_static does not write stay as they are, `.gitattributes` for one.

        Args:
            folder: The model, or the page.
            files: Its files.
            message: The commit's title.
            branch: The branch; created at the end of main where there is none.

        Returns:
            The commit that holds the files.

        Raises:
            UploadError: A file's content did not arrive.
            HUB_ERRORS: The Hub takes no commit.
        """
        if branch != MAIN:
            retried(
                lambda: self.api.create_branch(
                    self.repo_id, branch=branch, repo_type=self._kind, exist_ok=True
                )
            )
        first = retried(lambda: self.head(branch))

        def attempt() -> str:
            """The commit that holds the files; a new one if there is none yet."""
            # From the start each time: if only the answer got lost, the commit is there already.
            parent = self.head(branch)
            changes = self.changes(folder, files, parent)
            if not changes:
                return parent
            return self._send(folder, changes, message, parent, branch)[0]

        commit = retried(attempt, conflicts=True)
        return Upload(commit, self.url, commit != first)

    def check_served(self, folder: Path, files: list[ModelFile], commit: str, cache: Path) -> None:
        """Download a commit's files, and check that their content is what was sent.

        The Hub compares hashes as content arrives, and clients only sizes as they download it.

        Args:
            folder: The model, or the page.
            files: Its files.
            commit: The commit that holds them.
            cache: Where they are downloaded to, as the Hub's cache; none of them may be there.

        Raises:
            ValueError: A file has another SHA-256 than in the folder.
            HUB_ERRORS: The Hub does not give one.
        """

        def download() -> str:
            """The folder of the commit in the cache."""
            try:
                return self.api.snapshot_download(
                    self.repo_id,
                    repo_type=self._kind,
                    revision=commit,
                    cache_dir=cache,
                    allow_patterns=[glob.escape(file.path) for file in files],
                )
            except LocalEntryNotFoundError as error:  # says nothing of what is the matter
                raise error.__cause__ or error from None

        snapshot = Path(retried(download))
        other = [
            file.path
            for file in files
            if _sha256(snapshot / file.path) != _sha256(folder / file.path)
        ]
        if other:
            raise ValueError(
                f"{self.repo_id} serves other content than was sent: {', '.join(other)}."
            )

    def propose(self, folder: Path, files: list[ModelFile], message: str, author: str) -> Upload:
        """Open a pull request that makes main hold the folder's files.

        Args:
            folder: The model, or the page.
            files: Its files.
            message: The pull request's title.
            author: Who asks; their open pull requests are looked through for the same files.

        Returns:
            The commit that holds the files: of the pull request, or of main if that holds them.

        Raises:
            UploadError: A file's content did not arrive.
            HUB_ERRORS: The Hub takes no commit.
        """
        known = {url for url, _ in retried(lambda: self._pulls(author))}

        def attempt() -> Upload:
            """The pull request that holds the files; a new one if there is none yet."""
            parent = self.head(MAIN)
            changes = self.changes(folder, files, parent)
            if not changes:
                return Upload(parent, self.url, False)
            for url, commit in self._pulls(author):
                if not self.changes(folder, files, commit):
                    return Upload(commit, url, url not in known)
            commit, pull = self._send(folder, changes, message, parent, MAIN, create_pr=True)
            return Upload(commit, pull or self.url, True)

        return retried(attempt)

    def _pulls(self, author: str) -> list[tuple[str, str]]:
        """Address and commit of an author's open pull requests."""
        pulls = self.api.get_repo_discussions(
            self.repo_id,
            author=author,
            discussion_type="pull_request",
            discussion_status="open",
            repo_type=self._kind,
        )
        return [(pull.url, self.head(pull.git_reference or MAIN)) for pull in pulls]

    def _send(
        self,
        folder: Path,
        changes: Changes,
        message: str,
        parent: str,
        revision: str,
        create_pr: bool = False,
    ) -> tuple[str, str | None]:
        """Upload what has changed, then commit it in one request; the commit and a PR's address."""
        added = [CommitOperationAdd(path, folder / path) for path in changes.changed]
        deleted = [CommitOperationDelete(path, is_folder=False) for path in changes.stale]
        try:
            self.api.preupload_lfs_files(
                self.repo_id,
                added,
                revision=revision,
                create_pr=create_pr,
                free_memory=False,
                repo_type=self._kind,
            )
        except (*HUB_ERRORS, RuntimeError) as error:
            if is_refusal(error):
                raise
            # huggingface_hub has tried several times; nothing has been committed.
            reason = reason_of(error.__cause__ or error)
            raise UploadError(
                f"The files did not reach {self.repo_id}: {reason}. Nothing was changed there; "
                "publish again later, and files that have arrived are not sent again."
            ) from error
        info = self.api.create_commit(
            self.repo_id,
            [*added, *deleted],
            commit_message=message,
            revision=revision,
            parent_commit=parent,
            create_pr=create_pr,
            repo_type=self._kind,
        )
        return info.oid, info.pr_url


def _is_same(path: Path, file: ModelFile, there: RepoFile) -> bool:
    """Whether a file's content is that on the Hub, which gives git's hash or, of LFS, sha256."""
    if file.size != there.size:
        return False
    if there.lfs is not None:
        return _sha256(path) == there.lfs.sha256
    blob = b"blob %d\0" % file.size + path.read_bytes()
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest() == there.blob_id


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
