"""Access files on a disk or in an object store, by Arrow's file systems."""

from __future__ import annotations

import fnmatch
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

import pyarrow as pa
from pyarrow import fs

from st_static.arguments import without_secrets
from st_static.files import output_file, temporary_folder

_RETRY = "retry_limit_seconds=10"
_SEEN = "_seen_by_nodes_"
_MARKER = re.compile(rf"[^\s']*{_SEEN}\w+")
# By then the check of any run is over.
_CHECK_SECONDS = 3600
WILDCARDS = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Place:
    """A file or folder: its file system, and its path there, with slashes."""

    filesystem: fs.FileSystem
    path: str

    @classmethod
    def parse(cls, name: str) -> Place:
        """Parse a path, or an address such as `s3://bucket/folder`."""
        if "://" not in name:
            return cls(fs.LocalFileSystem(), Path(name).absolute().as_posix())
        address, mark, options = name.partition("?")
        wildcard = WILDCARDS.search(address)
        # An address with wildcards is invalid: they are cut off, and put back.
        plain = address[: wildcard.start()] if wildcard else address
        if address.startswith(("gs://", "gcs://")) and "retry_limit_seconds" not in options:
            # By default it tries for a quarter of an hour.
            mark, options = "?", f"{options}&{_RETRY}" if options else _RETRY
        try:
            filesystem, path = fs.FileSystem.from_uri(plain + mark + options)
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(
                f"{without_secrets(name)} cannot be opened ({without_secrets(str(error))}): "
                "expected a path, or an address such as s3://bucket/folder."
            ) from error
        # Arrow drops a slash at the end of an address.
        slash = "/" if wildcard and plain.endswith("/") else ""
        return cls(filesystem, path + slash + address[len(plain) :])

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine, or mounted as one."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def is_folder(self) -> bool:
        """Whether there is a folder."""
        return bool(self.info().type == fs.FileType.Directory)

    def at(self, path: str) -> Place:
        """Return another place in the same file system."""
        return Place(self.filesystem, path)

    def below(self, name: str) -> Place:
        """Return a file in this folder."""
        return self.at(f"{self.path.rstrip('/')}/{name}")

    def inside(self, path: str) -> str:
        """Return a file's path relative to this folder."""
        return path[len(self.path.rstrip("/")) + 1 :]

    def info(self) -> fs.FileInfo:
        """Get its type, size and time; the type tells whether it exists."""
        return self.filesystem.get_file_info(self.path)

    def files(self) -> list[fs.FileInfo]:
        """List all files of a folder, at any depth, by path; none if there is no folder."""
        infos = self.filesystem.get_file_info(
            fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        )
        files = [info for info in infos if info.type == fs.FileType.File]
        return sorted(files, key=lambda info: info.path)

    def read(self) -> IO[bytes]:
        """Open the file for reading in binary mode."""
        return cast("IO[bytes]", self.filesystem.open_input_file(self.path))

    @contextmanager
    def written(self) -> Iterator[IO[bytes]]:
        """Give a binary stream; the file appears when the block ends without an error."""
        if self.is_local:
            path = Path(self.path)
            with output_file(path) as temporary, temporary.open("wb") as stream:
                yield stream
            return
        with temporary_folder() as folder:
            whole = folder / "whole"
            with whole.open("wb") as stream:
                yield stream
            local = fs.LocalFileSystem()
            fs.copy_files(str(whole), self.path, local, self.filesystem)


@contextmanager
def seen_by_others(folder: Place) -> Iterator[Place]:
    """Keep a file in a folder until the block ends: machines that can read it see the folder."""
    abandoned = time.time() - _CHECK_SECONDS
    for info in folder.filesystem.get_file_info(fs.FileSelector(folder.path, allow_not_found=True)):
        if is_marker(info) and info.mtime and info.mtime.timestamp() < abandoned:
            # A killed run's. Another run may have removed it, or it may belong to another user.
            with suppress(OSError):
                folder.filesystem.delete_file(info.path)
    seen = _new_marker(folder)
    try:
        yield seen
    finally:
        folder.filesystem.delete_file(seen.path)


def check_access(seen: Place) -> None:
    """Raise a ValueError unless this machine can use the folder of `seen`, see `seen_by_others`."""
    path = PurePosixPath(seen.path)
    folder, can = seen.at(str(path.parent)), f"cannot read {path.parent}"
    try:
        with seen.read() as stream:
            is_ours = stream.read() == path.name.encode()
        if is_ours:
            can = f"cannot write into {path.parent}"
            seen.filesystem.delete_file(_new_marker(folder).path)
    except OSError as error:
        # Without the name of a marker.
        reason = os.strerror(error.errno) if error.errno else _MARKER.sub("…", str(error))
        raise ValueError(f"{can} ({reason})") from error
    if not is_ours:
        raise ValueError(f"{can} (its files have other contents here)")


def is_marker(info: fs.FileInfo) -> bool:
    """Tell whether a file is one of `seen_by_others` or `check_access`, even a partial one."""
    return bool(info.base_name.lstrip(".").startswith(_SEEN))


def _new_marker(folder: Place) -> Place:
    """Write a file that holds its own name."""
    name = f"{_SEEN}{uuid.uuid4().hex}"
    marker = folder.below(name)
    with marker.written() as stream:
        stream.write(name.encode())
    return marker


def matching(place: Place) -> tuple[Place, list[fs.FileInfo]]:
    """List a folder's files at any depth, or those that match wildcards; their folder is first."""
    if place.is_folder or not WILDCARDS.search(place.path):
        return place, place.files()
    parts = PurePosixPath(place.path).parts
    n_plain = next(n for n, part in enumerate(parts) if WILDCARDS.search(part))
    folder = place.at(str(PurePosixPath(*parts[:n_plain])))
    pattern = parts[n_plain:]
    files = ((PurePosixPath(info.path).parts[n_plain:], info) for info in folder.files())
    return folder, [info for path, info in files if _matches(path, pattern)]


def _matches(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Tell whether the parts of a path match a pattern's, where ** is any number of folders."""
    if not path or not pattern:
        return path == pattern
    if pattern[0] == "**":
        return _matches(path, pattern[1:]) or _matches(path[1:], pattern)
    return fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])
