"""Change a repository on the Hub, of a model or its demo, in one commit, whatever goes wrong.

huggingface_hub compares hashes, and refuses a commit whose parent is not the end of its branch. It
does not retry if the Hub fails, or if the answer to a commit was lost: here, everything is then
looked at anew. It keeps files of an earlier version, and does not compare what it downloads.
"""

from __future__ import annotations

import filecmp
import functools
import glob
import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import httpx2
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError
from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

from st_static.cards.check_folder import is_written_here
from st_static.hub import client_error, symptom

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

MAIN = "main"
_OF_DEMO = re.compile("(js|model|vendor)/")
LOGIN = (
    "Log in with `hf auth login`, or set HF_TOKEN, with a token that may write "
    "(https://huggingface.co/settings/tokens)."
)
# Seconds between retries, as in huggingface_hub.
_WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)
# After another user's commit (409, 412), a retry builds on it.
_PASSING = {408, 409, 412, 429, 500, 502, 503, 504}


class Upload(NamedTuple):
    """A commit that holds a folder's files."""

    url: str  # of the repository, or of the pull request
    commit: str
    is_new: bool  # whether it was made now; otherwise the files were there already


class Repository:
    """A repository ORG/NAME of a model, or of a page: a static Space."""

    def __init__(
        self, repo_id: str, token: str | None, kind: Literal["model", "space"] = "model"
    ) -> None:
        self.repo_id, self.token = repo_id, token
        self._api = HfApi(token=token)
        self._where: dict[str, Any] = {"repo_id": repo_id, "repo_type": kind}
        self._kind = kind

    @property
    def url(self) -> str:
        """The repository's address."""
        return f"{self._api.endpoint}/{'spaces/' * (self._kind == 'space')}{self.repo_id}"

    def upload(
        self,
        folder: Path,
        message: str,
        *,
        private: bool = False,
        branch: str = MAIN,
        create_pr: bool = False,
        tag: str | None = None,
    ) -> Upload:
        """Upload a folder's files to a branch in one commit, unless it holds them; other files,
        such as `.gitattributes`, stay. Errors are those of `publish`; the tag is only checked."""
        api, where, repo_id = self._api, self._where, self.repo_id
        earlier: set[str] = set()  # the commits before this upload

        def attempt() -> Upload:
            """Inspect the repository, and do what is left to do."""
            # None is the organisation's default visibility.
            sdk, visibility = ("static" if self._kind == "space" else None), (private or None)
            api.create_repo(**where, private=visibility, exist_ok=True, space_sdk=sdk)
            if private and not api.repo_info(**where).private:
                raise ValueError(
                    f"{repo_id} is there and public, but you asked for a private repository. Make "
                    "it private in its settings on the Hub, or publish without --private."
                )
            if branch != MAIN:
                api.create_branch(**where, branch=branch, exist_ok=True)
            refs = api.list_repo_refs(**where, include_pull_requests=create_pr)
            changes = functools.cache(functools.partial(self._changes, folder))
            for ref in refs.tags:
                if ref.name == tag and changes(ref.target_commit):
                    raise ValueError(
                        f"The tag {tag} of {repo_id} is there, at other files. Choose another, or "
                        "delete it on the Hub. Nothing was uploaded."
                    )
            branches = {ref.name: ref.target_commit for ref in refs.branches}
            if branch not in branches:
                raise ValueError(
                    f"Expected the branch {branch} in {repo_id}, but it is not on the Hub (there "
                    f"is {', '.join(branches) or 'none'}). Create it there, and publish again."
                )
            parent = branches[branch]
            addresses = {parent: self.url}
            if create_pr:
                mine = api.get_repo_discussions(
                    **where,
                    author=api.whoami()["name"],
                    discussion_type="pull_request",
                    discussion_status="open",
                )
                urls = {pull.git_reference: pull.url for pull in mine}
                pulls = refs.pull_requests or []
                addresses |= {p.target_commit: urls[p.ref] for p in pulls if p.ref in urls}
            earlier.update(() if earlier else addresses)
            for commit, url in addresses.items():
                if not changes(commit):
                    return Upload(url, commit, commit not in earlier)
            done = api.create_commit(
                **where,
                operations=changes(parent),
                commit_message=message,
                revision=branch,
                parent_commit=parent,
                create_pr=create_pr,
            )
            return Upload(done.pr_url or self.url, done.oid, True)

        return self._with_retries(attempt)

    def _changes(
        self, folder: Path, commit: str
    ) -> list[CommitOperationAdd | CommitOperationDelete]:
        """Find the operations that turn a commit's files into the folder's."""
        answer = self._api.verify_repo_checksums(**self._where, revision=commit, local_dir=folder)
        changed = [*answer.extra_paths, *(mismatch["path"] for mismatch in answer.mismatches)]
        # Only what st_static writes goes, of any version of it.
        is_own = is_written_here if self._kind == "model" else _OF_DEMO.match
        return [
            *(CommitOperationAdd(path, folder / path) for path in changed),
            *(CommitOperationDelete(path, False) for path in filter(is_own, answer.missing_paths)),
        ]

    def check_published(self, folder: Path, files: Sequence[str], commit: str, cache: Path) -> None:
        """Download a commit's files into an empty cache, and compare them with the folder's."""
        snapshot = self._with_retries(
            self._api.snapshot_download,
            **self._where,
            revision=commit,
            cache_dir=cache,
            allow_patterns=[glob.escape(file) for file in files],
        )
        _, other, missing = filecmp.cmpfiles(folder, snapshot, files, shallow=False)
        if other or missing:
            listed = ", ".join([*other, *missing])
            raise ValueError(f"{self.repo_id} serves other content than was sent: {listed}.")

    def tag(self, name: str, commit: str) -> None:
        """Tag a commit."""
        make_tag = self._api.create_tag
        self._with_retries(make_tag, **self._where, tag=name, revision=commit, exist_ok=True)

    def is_private(self) -> bool:
        """Tell whether only its members can see it."""
        return bool(self._with_retries(self._api.repo_info, **self._where).private)

    def files(self) -> set[str]:
        """List the paths of the files on main; none if there is no repository."""

        def listed() -> set[str]:
            try:
                return set(self._api.list_repo_files(**self._where))
            except RepositoryNotFoundError:
                return set()

        return self._with_retries(listed)

    def download(self, path: str, cache: Path) -> Path:
        """Download a file of main into a cache folder."""
        load = self._api.hf_hub_download
        return Path(self._with_retries(load, **self._where, filename=path, cache_dir=cache))

    def _with_retries(self, call: Callable[..., Result], **options: Any) -> Result:
        """Call an idempotent function that asks the Hub, and again after a passing error."""
        for wait in (*_WAITS, None):
            try:
                return call(**options)
            except OfflineModeIsEnabled as error:
                raise ValueError("HF_HUB_OFFLINE is set. Unset it to publish.") from error
            except RuntimeError as error:  # for a large file, after several tries
                cause = client_error(error.__cause__) if error.__cause__ else None
                said = symptom(cause) if cause else f"did not get a file ({error})"
                raise self._failed(said) from error
            except Exception as error:
                # Some answers are parsed before their status is checked, and a broken proxy of the
                # Hub answers with HTML.
                is_page = isinstance(error, json.JSONDecodeError)
                cause = error if is_page else client_error(error)
                if cause is None:
                    raise
                if isinstance(cause, HfHubHTTPError) and cause.response.status_code in (401, 403):
                    told = f"The token may not write to {self.repo_id}. The Hub {symptom(cause)}."
                    raise ValueError(f"{told} {LOGIN}") from error
                seconds = None if wait is None else _seconds_to_wait(cause, wait)
                if seconds is None:
                    raise self._failed(symptom(cause)) from error
                logger.warning("The Hub %s. Trying again in %g s.", symptom(cause), seconds)
                time.sleep(seconds)
        raise AssertionError("the last wait is None")

    def _failed(self, symptom: str) -> OSError:
        return OSError(
            f"Publishing {self.repo_id} failed: the Hub {symptom}. Publish again: what has arrived "
            "is not sent again, and a commit holds all files or is not made."
        )


def _seconds_to_wait(error: Exception, usual: float) -> float | None:
    """Return the seconds that the Hub asks to wait, or the usual ones; None if it will not help."""
    if not isinstance(error, HfHubHTTPError):
        broken = (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError)
        return usual if isinstance(error, (*broken, json.JSONDecodeError)) else None
    if error.response.status_code not in _PASSING:
        return None
    limit = parse_ratelimit_headers(error.response.headers)
    if limit is not None and limit.remaining == 0 and error.response.status_code == 429:
        return float(limit.reset_in_seconds)
    after = error.response.headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else usual
