"""What a Hub keeps: repositories with commits, branches, tags and pull requests, in memory."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LARGE_FILE = 10_000_000
"""Larger files go through LFS, as do binary ones."""


class RefusedError(Exception):
    """A request that the Hub refuses: status, the error code that clients look at, a message."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Blob:
    """A file's content, and whether it is kept in LFS."""

    content: bytes
    is_lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        """The id in git: of the content, or of the pointer to it."""
        pointer = (
            "version https://git-lfs.github.com/spec/v1\n"
            f"oid sha256:{self.sha256}\nsize {len(self.content)}\n"
        )
        data = pointer.encode() if self.is_lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.oid

    def describe(self, path: str) -> dict[str, Any]:
        """An entry of a tree."""
        entry = {"type": "file", "oid": self.oid, "size": len(self.content), "path": path}
        if self.is_lfs:
            lfs = {"oid": self.sha256, "size": len(self.content), "pointerSize": 134}
            return {**entry, "lfs": lfs}
        return entry


@dataclass(frozen=True)
class Commit:
    """All files as of a commit, and what it says."""

    oid: str
    parent: str | None
    files: dict[str, Blob]
    title: str


def goes_to_lfs(path: str, size: int, sample: bytes) -> bool:
    """Whether the Hub wants a file in LFS."""
    return size > LARGE_FILE or path.endswith((".safetensors", ".png")) or b"\0" in sample


@dataclass
class Repository:
    """A model's repository."""

    name: str
    private: bool
    heads: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    pulls: dict[str, str] = field(default_factory=dict)
    authors: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        attributes = Blob(b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n", False)
        self.heads["main"] = self._store(None, {".gitattributes": attributes}, "initial commit")

    def _store(self, parent: str | None, files: dict[str, Blob], title: str) -> str:
        described = [blob.describe(path) for path, blob in sorted(files.items())]
        text = json.dumps([self.name, parent, len(self.commits), title, described])
        oid = hashlib.sha1(text.encode()).hexdigest()
        self.commits[oid] = Commit(oid, parent, files, title)
        return oid

    def fill(self, files: Mapping[str, bytes]) -> None:
        """Put files on the main branch without going through uploads."""
        blobs = {path: Blob(content, is_lfs=False) for path, content in files.items()}
        self.heads["main"] = self._store(self.heads["main"], blobs, "files")

    def find(self, revision: str) -> Commit:
        """The commit of a branch, tag, pull request or commit id."""
        for refs in (self.heads, self.tags, self.pulls):
            if revision in refs:
                return self.commits[refs[revision]]
        if revision in self.commits:
            return self.commits[revision]
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def file(self, revision: str, path: str) -> Blob:
        """A file of a revision."""
        files = self.find(revision).files
        if path not in files:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        return files[path]

    def history(self, revision: str) -> list[Commit]:
        """The commits of a revision, the newest first."""
        commits = [self.find(revision)]
        while commits[-1].parent:
            commits.append(self.commits[commits[-1].parent])
        return commits

    def keep(self, sha256: str, content: bytes) -> None:
        """Take the content of a large file."""
        if hashlib.sha256(content).hexdigest() != sha256:
            raise RefusedError(400, "The content is not what its sha256 says")
        self.objects[sha256] = content

    def commit(
        self, revision: str, lines: list[dict[str, Any]], author: str, create_pr: bool
    ) -> tuple[Commit, str | None]:
        """Apply a commit whole, or refuse it; gives the commit and the pull request's number."""
        if revision not in self.heads:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        header = lines[0]["value"]
        parent = self.heads[revision]
        if header.get("parentCommit", parent) != parent and not create_pr:
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        files = dict(self.commits[parent].files)
        for line in lines[1:]:
            self._apply(line["key"], line["value"], files)
        oid = self._store(parent, files, header["summary"])
        if not create_pr:
            self.heads[revision] = oid
            return self.commits[oid], None
        number = str(len(self.pulls) + 1)
        self.pulls[f"refs/pr/{number}"] = oid
        self.authors[number] = author
        return self.commits[oid], number

    def _apply(self, key: str, value: dict[str, Any], files: dict[str, Blob]) -> None:
        path = value["path"]
        if key == "file":
            content = base64.b64decode(value["content"], validate=True)
            if goes_to_lfs(path, len(content), content[:512]):
                raise RefusedError(400, f"{path} must go through LFS")
            files[path] = Blob(content, False)
        elif key == "lfsFile":
            if value["oid"] not in self.objects:
                raise RefusedError(400, f"{path}: there is no content {value['oid']}")
            if len(self.objects[value["oid"]]) != value["size"]:
                raise RefusedError(400, f"{path}: the size is wrong")
            files[path] = Blob(self.objects[value["oid"]], True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise RefusedError(404, "A file with this name doesn't exist", "EntryNotFound")
        else:
            raise RefusedError(400, f"Unknown operation {key}")

    def tree(self, revision: str, recursive: bool, folder: str = "") -> list[dict[str, Any]]:
        """The entries of a revision, or of a folder in it, folders included."""
        files = self.find(revision).files
        parents = {path.rpartition("/")[0] for path in files if "/" in path}
        folders = sorted(
            {
                "/".join(steps)
                for path in parents
                for steps in itertools.accumulate(([s] for s in path.split("/")), list.__add__)
            }
        )
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in folders]
        entries += [blob.describe(path) for path, blob in sorted(files.items())]
        inside = f"{folder}/" if folder else ""
        found = [entry for entry in entries if entry["path"].startswith(inside)]
        if not found:
            raise RefusedError(404, f"There is no folder {folder}", "EntryNotFound")
        depth = inside.count("/")
        return [entry for entry in found if recursive or entry["path"].count("/") == depth]
