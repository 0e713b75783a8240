"""Read the documents in a folder as passages."""

from __future__ import annotations

import logging
import os
import stat
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from st_static.texts import arrow
from st_static.texts.passages import READERS, passages

logger = logging.getLogger(__name__)

# A long book has a few MB. Larger files are data, such as logs, where each row is a text.
_MOST_BYTES = 10_000_000

_Skipped = defaultdict[str, list[str]]  # files and folders, by why they are skipped


def read_folder(folder: str | Path) -> pa.Table:
    """Read the documents in a folder, and cut them into passages.

    Documents are all files that end with .txt, .md, .rst or .html, in UTF-8, in the folder and the
    folders in it; hidden ones are left out. A heading begins a passage, and paragraphs are joined
    up to 1,200 bytes, about 200 words. Each passage begins with the headings above it.

    What cannot be read, such as binary files, files of more than 10 MB, and links that lead out of
    the folder, is skipped; a warning is logged for each of these kinds.

    Args:
        folder: The folder.

    Returns:
        The P passages in the order of files: `text`; `file`, the path from the folder; and `line`,
        where in the file the passage begins, from 1.

    Raises:
        ValueError: There is no such folder, or no document with text in it.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as notes:
        ...     _ = Path(notes, "food.md").write_text("# Food\\n## Bread\\nBake it for an hour.")
        ...     read_folder(notes).to_pylist()
        [{'text': 'Food > Bread\\n\\nBake it for an hour.', 'file': 'food.md', 'line': 2}]
    """
    if not os.path.isdir(folder):
        raise ValueError(f"Expected a folder of documents, but there is none at {folder}.")
    root = os.path.realpath(folder)
    skipped = _Skipped(list)
    rows: list[tuple[str, str, int]] = []
    for name, path in _documents(root, skipped):
        suffix = os.path.splitext(name)[1].lower()
        try:
            read = passages(_read(path), suffix)
            rows += [(text, _printable(name), line) for line, text in read]
        except _UnfitError as reason:
            skipped[str(reason)].append(name)
        except OSError:
            skipped["files that cannot be read"].append(name)
    for kind, names in skipped.items():
        first = _printable(names[0])
        logger.warning("Skipped %s: %s, such as %s.", kind, f"{len(names):,}", first)
    if not rows:
        suffixes = ", ".join(READERS)
        raise ValueError(
            f"There is no document to read in {folder}: expected text in UTF-8 in files that end "
            f"with one of {suffixes}."
        )
    texts, files, lines = zip(*rows, strict=True)
    columns = {"text": arrow.strings(texts), "file": arrow.strings(files)}
    return pa.table({**columns, "line": pa.array(np.array(lines, np.int64))})


class _UnfitError(Exception):
    """A file is no document; the message names the kind of such files."""


def _documents(root: str, skipped: _Skipped) -> list[tuple[str, str]]:
    """List documents by their paths from a folder, in order, each with the path to read."""

    def unreadable(error: OSError) -> None:
        skipped["folders that cannot be read"].append(os.path.relpath(error.filename, root))

    documents: dict[str, str] = {}  # where each is -> its path from the folder
    for folder, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        entries = [(name, False) for name in folders]
        entries += [(name, True) for name in sorted(names) if _is_document(name)]
        for name, is_file in entries:
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, root)
            target = os.path.realpath(path) if os.path.islink(path) else path
            if not os.path.join(target, "").startswith(os.path.join(root, "")):
                skipped["links out of the folder"].append(shown)
            elif is_file and (target == path or target not in documents):  # once, by its own name
                documents[target] = shown
    return sorted((name, path) for path, name in documents.items())


def _is_document(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in READERS


def _printable(name: str) -> str:
    """Spell a path alike on all systems; it may have bytes that are no UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace").replace(os.sep, "/")


def _read(path: str) -> str:
    """Read a document, with line feeds as ends of lines."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # a pipe would wait for its writer
        raise _UnfitError("pipes and devices")
    if status.st_size > _MOST_BYTES:
        raise _UnfitError(f"files of more than {_MOST_BYTES // 10**6} MB")
    content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"  # as in binary files
    if "\0" in text:
        raise _UnfitError("files that are not text in UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
