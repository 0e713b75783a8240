"""Files that appear whole or not at all: Arrow for text columns, safetensors for arrays, JSON."""

from __future__ import annotations

import errno
import glob
import io
import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors.numpy import load_file, save_file

if TYPE_CHECKING:
    import pyarrow as pa

Arrays = dict[str, NDArray[Any]]

# The end of an `own_path` holds host, process and thread.
_WRITER = re.compile(r"\.(\w*)-(\d+)-\d+\.tmp", re.ASCII)
_LONGEST = 128  # bytes of a name to which `atomic` and others add
# The beginning of a `temporary_folder`'s name holds host and process.
_OWNER = re.compile(r"st_static-(\w*)-(\d+)-", re.ASCII)
LOCK_FILE = ".st_static.lock"
"""Held by a process that writes several files of a folder."""
PATIENCE = 60.0
"""Seconds to wait for a lock that others hold for as long as it takes to rename some files."""
_DAY = 86_400  # seconds; a file that nobody has written to for a day is a leftover


def atomic(path: Path) -> AbstractContextManager[Path]:
    """Give a temporary path; rename it to `path` when the block succeeds. Errors name the file."""
    remove_leftovers(path)
    return _renamed(path)


@contextmanager
def _renamed(path: Path) -> Iterator[Path]:
    """`atomic` without removing leftovers, for the many files of the stages."""
    temporary = own_path(path)
    try:
        with naming(path, temporary):
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            if temporary.stat().st_mode != mode:  # safetensors lets the owner alone read its files
                temporary.chmod(mode)
            temporary.replace(path)
    finally:
        with suppress(OSError):  # it has the same cause as the error that is raised
            temporary.unlink(missing_ok=True)


def own_path(path: Path) -> Path:
    """Name a temporary file or folder beside a path, for this process and thread alone."""
    writer = f"{_host()}-{os.getpid()}-{threading.get_ident()}"
    return path.with_name(f".{fitting_name(path.name)}.{writer}.tmp")


@contextmanager
def naming(path: Path, temporary: Path) -> Iterator[None]:
    """Name `path` in errors about what is written for it, first, into `temporary`."""
    try:
        yield
    except Exception as error:
        if is_disk_full(error):
            raise disk_full(str(path)) from error
        if not isinstance(error, OSError) or temporary.name not in f"{error} {error.filename}":
            raise
        reason = os.strerror(error.errno) if error.errno else "it cannot be opened"
        raise _os_error(
            f"{path} cannot be written ({reason}): choose another place.", error.errno
        ) from error


def output_file(path: Path) -> AbstractContextManager[Path]:
    """Write a file that a user names as `atomic` does, and make the folders on its way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return atomic(path)


def fitting_name(name: str) -> str:
    """Return a file's name, or a hash of a long one, so that affixes still fit into 255 bytes."""
    import hashlib  # of a library that takes 3 MB of memory

    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONGEST else hashlib.sha256(encoded).hexdigest()[:32]


def check_writable(folder: Path, wanted: str) -> None:
    """Check that files can be written into a folder, `wanted` in errors, which may not exist."""
    check_path(folder, wanted)
    target = folder.resolve()
    holder = next(path for path in (target, *target.parents) if path.exists())
    if not (holder.is_dir() and os.access(holder, os.W_OK | os.X_OK)):
        kind = "write-protected" if holder.is_dir() else "a file"
        raise ValueError(f"{wanted} cannot be written: {holder} is {kind}. Choose another place.")


def check_path(path: Path, wanted: str) -> None:
    """Check that a path leads to the same place now and once its missing folders are made."""
    before = [Path(*path.parts[:i]) for i, part in enumerate(path.parts) if part == ".."]
    # A path through a missing folder leads nowhere now, and to existing files once it is made.
    if missing := [folder for folder in before if not os.path.lexists(folder)]:
        raise ValueError(
            f"{wanted} cannot be written: there is no folder {missing[0]}, from which `..` leads "
            "back. Leave both out of the path."
        )
    try:
        path.stat()
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            message = f"{wanted} cannot be written ({error.strerror}): choose another place."
            raise ValueError(message) from error


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left at an `own_path`; other machines' only after a day."""
    name = fitting_name(path.name)
    for left in path.parent.glob(f".{glob.escape(name)}.*-*.tmp"):
        writer = _WRITER.fullmatch(left.name.removeprefix(f".{name}"))
        with suppress(OSError):  # its process has just renamed it, or another user owns it
            if writer and _is_left(left, writer[1], int(writer[2])):
                if left.is_dir():
                    remove_folder(left)
                else:
                    left.unlink()


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, also in folders that are write-protected."""
    for inner, _, _ in os.walk(folder):
        os.chmod(inner, 0o700)
    shutil.rmtree(folder)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give an empty temporary folder; remove it after, and before those of killed processes."""
    import tempfile  # slow to import, and encoding does not need it

    for folder in Path(tempfile.gettempdir()).glob("st_static-*"):
        owner = _OWNER.match(folder.name)
        with suppress(OSError):
            if owner and _is_left(folder, owner[1], int(owner[2])):
                shutil.rmtree(folder)
    with tempfile.TemporaryDirectory(prefix=f"st_static-{_host()}-{os.getpid()}-") as name:
        yield Path(name)


@contextmanager
def locked_by(file: Path, written: str, patience: float) -> Iterator[None]:
    """Hold a lock until the block ends, by a file that ends with it; that of a killed process holds
    nobody up. A ValueError if another process holds the lock for longer than `patience`, in
    seconds, as it is writing what `written` names, or if the disk has no locks."""
    from filelock import FileLock, Timeout  # not for those who only read

    try:
        lock = FileLock(file).acquire(timeout=patience)
    except Timeout as error:
        raise ValueError(
            f"Another process is writing {written}. Wait until it ends, or choose another place."
        ) from error
    except OSError as error:
        raise ValueError(
            f"{written} cannot be locked ({error.strerror or error}): choose another place."
        ) from error
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                file.unlink()


def _is_left(temporary: Path, host: str, process: int) -> bool:
    """Tell whether a temporary file or folder is no longer written to."""
    is_gone = False
    if host == _host() and os.name != "nt":  # on Windows, asking a process ends it
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):
            is_gone = True
        except PermissionError:  # another user's
            pass
    return is_gone or time.time() - temporary.stat().st_mtime > _DAY


def _host() -> str:
    """Return the name of this machine, spelled for file names."""
    return re.sub(r"\W", "_", socket.gethostname(), flags=re.ASCII)


def disk_full(name: str) -> OSError:
    """Make the error that there is no space left for a file."""
    message = f"No space left on the disk of {name}: make room, or write to another disk."
    return _os_error(message, errno.ENOSPC)


def _os_error(message: str, number: int | None) -> OSError:
    error = OSError(message)  # with its number as an argument, it would be shown in front
    error.errno = number
    return error


def is_disk_full(error: Exception) -> bool:
    """Tell whether an error says that the disk or the quota is full."""
    names = ("ENOSPC", "EFBIG", "EDQUOT")  # Windows has not all
    numbers = [getattr(errno, name) for name in names if hasattr(errno, name)]
    # shutil and safetensors raise their own errors, with the system's words.
    words = any(os.strerror(number) in str(error) for number in numbers)
    return words or getattr(error, "errno", None) in numbers


def look_again(folder: Path) -> None:
    """Open a folder so that files of other machines become visible: until then, a network
    file system may remember that they were missing (nfs(5), directory entry caching)."""
    os.scandir(folder).close()


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically; its objects may be msgspec's."""

    def as_object(part: Any) -> Any:
        """Not of a set, whose order would differ between two files."""
        if isinstance(part, msgspec.Struct):
            return msgspec.to_builtins(part)
        raise TypeError(f"{type(part).__name__} is not of JSON: {part!r}")

    text = json.dumps(value, indent=2, ensure_ascii=False, default=as_object)
    with _renamed(path) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text("utf-8"))


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write an Arrow IPC file atomically."""
    import pyarrow as pa  # not for those who read JSON

    with (
        _renamed(path) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)


def read_arrow(path: Path) -> pa.Table:
    """Map an Arrow IPC file into memory."""
    import pyarrow as pa  # not for those who read JSON

    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def write_arrays(path: Path, arrays: Arrays, metadata: dict[str, str] | None = None) -> None:
    """Write arrays as safetensors, atomically."""
    stored = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with _renamed(path) as temporary:
        save_file(stored, str(temporary), metadata)


def write_npy(path: Path, array: NDArray[Any]) -> None:
    """Write an array of [rows, D] as .npy, atomically; `np.save` does not say why it fails."""
    rows, dimension = array.shape
    with _renamed(path) as temporary, temporary.open("wb") as file:
        file.write(npy_header(rows, dimension, array.dtype))
        file.write(np.ascontiguousarray(array).data)


def npy_header(rows: int, dimension: int, dtype: DTypeLike) -> bytes:
    """Make the header of a .npy file of [rows, D]; its length does not depend on the rows."""
    header, kind = io.BytesIO(), np.lib.format.dtype_to_descr(np.dtype(dtype))
    values = {"descr": kind, "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(header, values)
    return header.getvalue()


def hash_files(files: Sequence[Path]) -> str:
    """Hash the contents of files: the first 40 digits of SHA-256."""
    import hashlib  # as above

    hasher = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: hasher)
    return hasher.hexdigest()[:40]


def read_arrays(path: Path) -> Arrays:
    """Read arrays from safetensors."""
    return dict(load_file(str(path)))
