"""Replace a model's own files in a folder, all at once, while all other files there stay.

The new model is written beside the old one, the other files of the old folder are linked into it,
and two renames put it in place. For a folder `NAME`, `.NAME.partial` may be deleted at any time,
and `.NAME.old` never: between the renames, it may hold the only copy of what a user wrote.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from st_static.files import check_folder, check_path, disk_full, is_disk_full, short_name

IsOwn = Callable[[Path, str], bool]


def check_output_folder(
    folder: Path, record: str, kind: str, is_record: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """Check that something of a `kind`, `a model of st_static`, may be written into a folder: new,
    empty, or of that kind by its file `record`. Returns the present path of the folder to replace,
    None if there is none. A ValueError, too, for the current folder and those that hold it."""
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
    check_folder(folder.resolve().parent, f"The output {folder}")
    there = present(folder)
    if not there.is_dir() or not any(there.iterdir()):
        return None
    if not is_record(there / record):
        raise ValueError(
            f"The output folder {folder} holds something that is not {kind} (it has no {record} "
            "of st_static). Choose another folder, or empty this one."
        )
    return there


def present(folder: Path) -> Path:
    """Find a folder, even if a replacement that was killed halfway has moved it."""
    _, old = _beside(folder)
    return folder if folder.exists() or not old.exists() else old


@contextlib.contextmanager
def replacing(folder: Path, is_own: IsOwn) -> Iterator[Path]:
    """Give an empty folder for a model's files, and put it in the place of `folder`, with the old
    files of which `is_own` is false, by their path with slashes. Killed at any moment, this leaves
    the old model or the new one, and all others; a later call resumes. A link stays a link."""
    folder = folder.resolve()
    partial, old = _beside(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _recover(folder, is_own)
    _delete(partial)
    partial.mkdir()
    try:
        yield partial
        if folder.exists():
            _link_others(folder, partial, is_own)
            folder.replace(old)
        partial.replace(folder)
    except BaseException as error:
        _recover(folder, is_own)
        _delete(partial)
        if isinstance(error, Exception) and is_disk_full(error):
            raise disk_full(str(folder)) from error
        raise
    _recover(folder, is_own)


def _beside(folder: Path) -> tuple[Path, Path]:
    """Name the folder where the new model is written, and the one where the old one waits."""
    folder = folder.resolve()
    name = short_name(folder.name)
    return folder.with_name(f".{name}.partial"), folder.with_name(f".{name}.old")


def _recover(folder: Path, is_own: IsOwn) -> None:
    """Finish a replacement: restore the old folder, or link its other files and remove it."""
    partial, old = _beside(folder)
    if not old.exists():
        return
    if not folder.exists():  # killed between the two renames
        old.replace(folder)
        return
    _link_others(old, folder, is_own)  # files that were written into it in the meantime
    _delete(partial)
    old.replace(partial)
    _delete(partial)


def _delete(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _link_others(source: Path, target: Path, is_own: IsOwn) -> None:
    """Link files that are not the model's own into another folder, unless they exist there."""
    folders = [(source, target)]
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        place = target / name
        if is_own(source, name.as_posix()) or os.path.lexists(place):
            continue
        if path.is_dir() and not path.is_symlink():
            place.mkdir(parents=True)  # the parent may be a model's folder of another form
            folders.append((path, place))
            continue
        place.parent.mkdir(exist_ok=True)
        try:
            os.link(path, place, follow_symlinks=False)
        except OSError:  # the file system has no hard links
            shutil.copy2(path, place, follow_symlinks=False)
    for path, place in folders:  # last, since some may be write-protected
        shutil.copymode(path, place)
