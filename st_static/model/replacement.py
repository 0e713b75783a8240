"""Replace a model's own files in a folder, all at once, and keep all other files.

Each process writes the new model into a folder of its own beside the old one. Under a lock, the
other files of the old folder are linked into it, and two renames put it in place: of several
processes, the last one wins. For a folder `NAME`, `.NAME.*.tmp` and `.NAME.lock` may be deleted
once their processes have ended, and `.NAME.old` never: between the renames, it may hold the only
copy of what a user wrote.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from st_static.files import (
    PATIENCE,
    check_path,
    check_writable,
    fitting_name,
    locked_by,
    naming,
    own_path,
    remove_folder,
    remove_leftovers,
)

Folder = TypeVar("Folder", bound=str | Path)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

IsOwn = Callable[[Path, str], bool]

_LOOKS = 100  # some file systems number a folder anew each time, as if it had been replaced


def steady(
    look: Callable[Concatenate[Folder, Arguments], Result],
) -> Callable[Concatenate[Folder, Arguments], Result]:
    """Make a function read a folder again if the folder was replaced in the meantime."""

    @functools.wraps(look)
    def look_again(folder: Folder, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for _ in range(_LOOKS):
            before = _state(folder)
            try:
                result = look(folder, *args, **kwargs)
            except (OSError, ValueError):
                if _state(folder) == before:
                    raise
                continue
            if _state(folder) == before:
                return result
        return look(folder, *args, **kwargs)

    return look_again


def _state(folder: str | Path) -> tuple[Path, int, int, int] | None:
    """Identify the folder that is now at a path; None if there is none."""
    try:
        current = present(Path(folder))
        status = current.stat()
    except (OSError, RuntimeError):  # RuntimeError: links that lead in a circle
        return None
    return current, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def held(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes from replacing a folder until the block ends; errors of `locked_by`."""
    folder = folder.resolve()
    file = folder.with_name(f".{fitting_name(folder.name)}.lock")
    return locked_by(file, str(folder), PATIENCE)


@steady
def check_output_folder(
    folder: Path, record: str, kind: str, is_record: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """Check that output of a `kind`, such as `a model of st_static`, may be written into a folder:
    new, empty, or of that kind by its file `record`. Returns the present path of the folder to
    replace, None if there is none. A ValueError also for the working directory and its parents."""
    check_path(folder, f"The output {folder}")
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise ValueError(
            f"The output {folder} is the folder that you are in, or holds it, and would be "
            "replaced. Choose another."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {folder} is a file. Choose a folder.")
    if folder.is_dir() and os.path.ismount(folder):
        raise ValueError(
            f"The output {folder} is a mount point, which cannot be replaced. Choose a folder "
            f"inside it, such as {folder / 'model'}."
        )
    check_writable(folder.resolve().parent, f"The output {folder}")
    current = present(folder)
    if not current.is_dir() or not any(current.iterdir()):
        return None
    if not is_record(current / record):
        raise ValueError(
            f"The output folder {folder} holds something that is not {kind} (it has no {record} "
            "of st_static). Choose another folder, or empty this one."
        )
    return current


def present(folder: Path) -> Path:
    """Find a folder, even if a replacement that was killed halfway has moved it."""
    old = _old(folder)
    return folder if folder.exists() or not old.exists() else old


@contextlib.contextmanager
def replacing(folder: Path, is_own: IsOwn) -> Iterator[Path]:
    """Give an empty folder for a model's files, and put it in the place of `folder`, with the old
    files for which `is_own` is false, given their path with slashes. Killed at any moment, this
    leaves the old or the new model, and all other files; a later call resumes. A link stays one."""
    folder = folder.resolve()
    old = _old(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder, old):
        remove_leftovers(path)
    partial = own_path(folder)
    try:
        with naming(folder, partial):
            partial.mkdir()
            yield partial
            _open_to_others(partial)
            with held(folder):
                try:
                    _recover(folder, is_own)
                    if folder.exists():
                        _link_others(folder, partial, is_own)
                        folder.replace(old)
                    partial.replace(folder)
                finally:
                    _recover(folder, is_own)
    finally:
        if partial.exists():
            remove_folder(partial)


def _open_to_others(folder: Path) -> None:
    """Give all files the modes that the umask gave the folder: those that safetensors wrote, or
    that were copied, may be readable by their owner alone."""
    shared = stat.S_IMODE(folder.stat().st_mode) & 0o777
    for path in folder.rglob("*"):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            wanted = mode & ~0o777 | (shared if path.is_dir() else shared & 0o666)
            if mode != wanted:
                path.chmod(wanted)


def _old(folder: Path) -> Path:
    """Name the folder where the old model waits between the two renames."""
    folder = folder.resolve()
    return folder.with_name(f".{fitting_name(folder.name)}.old")


def _recover(folder: Path, is_own: IsOwn) -> None:
    """Finish a replacement: restore the old folder, or link its other files and remove it."""
    old = _old(folder)
    if not old.exists():
        return
    current, other = folder, old
    if not any(is_own(folder, path.relative_to(folder).as_posix()) for path in folder.rglob("*")):
        # Between the two renames: no new model is there, though others may have made its folder.
        current, other = old, folder
    if other.exists():
        _link_others(other, current, is_own)  # files that were written into it in the meantime
        doomed = own_path(old)
        other.replace(doomed)
        remove_folder(doomed)
    if current == old:
        old.replace(folder)


def _link_others(source: Path, target: Path, is_own: IsOwn) -> None:
    """Link files that are not the model's own into another folder, unless they exist there."""
    folders = [(source, target)]
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        link = target / name
        if is_own(source, name.as_posix()) or os.path.lexists(link):
            continue
        if path.is_dir() and not path.is_symlink():
            link.mkdir(parents=True)  # the parent may be a model's folder of another form
            folders.append((path, link))
            continue
        link.parent.mkdir(exist_ok=True)
        try:
            os.link(path, link, follow_symlinks=False)
        except OSError:  # the file system has no hard links
            shutil.copy2(path, link, follow_symlinks=False)
    for path, link in folders:  # last, since some may be write-protected
        shutil.copymode(path, link)
