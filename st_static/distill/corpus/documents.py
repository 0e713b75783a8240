"""Read the documents of a corpus: from local files, installed packages or a Hub dataset."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from glob import glob
from importlib import metadata
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import xxhash

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.docstrings import read_docstrings, source_files
from st_static.distill.engines import Engine
from st_static.hub import downloading, offline, require_dataset
from st_static.texts.text_files import TextReader, input_format_of, opened, split_name

logger = logging.getLogger(__name__)

_FORMATS = (".txt", ".jsonl", ".parquet")
_COLUMN = "text"  # of a dataset, .jsonl or .parquet
_COMPRESSION = 5  # typical ratio for text
_LITTLE_TEXT = 10**9  # bytes


class Corpus:
    """A corpus, to be read any number of times; its files that are not UTF-8 are `undecodable`."""

    def __init__(self, config: CorpusConfig) -> None:
        if not (config.patterns or config.docstrings or config.dataset):
            raise ValueError(
                "The recipe names no text: give corpus.files, corpus.docstrings or corpus.dataset, "
                "or take a recipe that has text, such as quickstart."
            )
        self.config = config
        self.files = find_files(config.patterns)
        if config.docstrings and not self.files:
            source_files(config.docstrings)  # are the packages there?
        self.undecodable: set[str] = set()

    def identity(self, engine: Engine) -> dict[str, Any]:
        """Identify the documents: by contents of files, versions of packages, or revisions."""
        config = self.config
        # The column was an option: with it, stages that are complete stay so.
        common = {"text_column": _COLUMN, "max_documents": config.max_documents}
        if self.files:
            # Starting processes takes as long as reading little text.
            run = engine.map if self.text_bytes() > _LITTLE_TEXT else map
            hashes = dict(run(content_hash, self.files))
            files = [[format_of(file), hashes[file]] for file in self.files]
            return {"files": files, **common}
        if config.docstrings:
            versions = {name: _version(name) for name in config.docstrings}
            return {"docstrings": versions, **common}
        dataset = [config.dataset, config.dataset_config, config.revision]
        return {"dataset": dataset, **common}

    def text_bytes(self) -> int:
        """Estimate the bytes of text in the files; 0 for docstrings and datasets."""
        return sum(map(text_bytes, self.files))

    def require_text(self) -> None:
        """Check that the files hold text, by reading up to the first one."""
        texts = read_files(self.files, lambda file: None)
        if self.files and not any(map(str.strip, texts)):
            patterns = ", ".join(self.config.patterns)
            raise ValueError(f"corpus.files: there is no text in {patterns}. Check the path.")

    @property
    def is_dataset(self) -> bool:
        """Tell whether the text comes from a dataset of the Hub."""
        return not self.files and not self.config.docstrings

    @functools.cached_property
    def dataset_copy(self) -> Path | None:
        """The dataset's copy in the cache, if that is used; a ValueError if the Hub lacks it."""
        name, revision = str(self.config.dataset), self.config.revision
        return require_dataset(name, revision, "give local text as corpus.files")

    @property
    def is_divisible(self) -> bool:
        """True if each worker can read a part: whole files."""
        return bool(self.files) and self.config.max_documents is None

    def add_undecodable(self, file: str) -> None:
        """Warn once of a file that is not UTF-8."""
        if file not in self.undecodable:
            logger.warning("%s is not UTF-8: undecodable bytes are replaced", file)
            self.undecodable.add(file)

    def __iter__(self) -> Iterator[str]:
        """Read all documents in a fixed order, or log that `corpus.max_documents` ended them."""
        config = self.config
        if self.files:
            documents = read_files(self.files, self.add_undecodable)
        elif config.docstrings:
            documents = read_docstrings(config.docstrings)
        else:
            readers = [self._read_configuration(name) for name in config.dataset_configs]
            in_turn = chain.from_iterable(zip_longest(*readers))
            documents = (document for document in in_turn if document is not None)
        most = config.max_documents
        yield from islice(documents, most)
        if most is not None and next(documents, None) is not None:
            logger.info("corpus.max_documents: stopped after %s, of more", f"{most:,} documents")

    def _read_configuration(self, name: str | None) -> Iterator[str]:
        """Read the texts of one configuration of the dataset."""
        config = self.config
        source = str(config.dataset), name, config.revision
        for row in stream_dataset(*source, self.dataset_copy):
            text = row.get(_COLUMN)
            if isinstance(text, str):
                yield text
            elif text is not None or _COLUMN not in row:
                kind = type(text).__name__
                content = f"its columns are {list(row)}" if text is None else f"it holds {kind}"
                raise ValueError(
                    f"Expected text in the column {_COLUMN!r} of {config.dataset}, but {content}. "
                    "Write the column that holds the text to a file, for corpus.files."
                )


def find_files(
    patterns: list[str], option: str = "corpus.files", formats: Sequence[str] = _FORMATS
) -> list[Path]:
    """List the files of paths, patterns and folders, sorted; hidden ones only if named."""
    compressible = " and ".join(format_ for format_ in formats if format_ != ".parquet")
    in_words = f"{' or '.join(formats)} ({compressible} also with .gz, .xz or .zst)"
    files: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            matches = [
                file
                for file in path.rglob("*")
                if file.is_file()
                and format_of(file) in formats
                and not any(part.startswith(".") for part in file.relative_to(path).parts)
            ]
            missing = f"the folder {pattern} holds no file of the format {in_words}"
        else:
            paths = [path] if path.is_file() else map(Path, glob(pattern, recursive=True))
            matches = [file for file in paths if file.is_file()]
            missing = f"no file matches {pattern!r}"
        if not matches:
            raise ValueError(
                f"{option}: {missing}. Check the path, or name files of your own with --{option}."
            )
        files.extend(matches)
    for file in files:
        if format_of(file) not in formats:
            raise ValueError(
                f"{option}: {file} is not {in_words}. Convert it, or leave it out of the pattern."
            )
    return sorted(set(files))


def format_of(file: Path) -> str:
    """Find the format in a file's name, with its dot, such as ".txt"."""
    suffix, compression = split_name(file)
    return "" if suffix == "parquet" and compression else f".{suffix}"


def text_bytes(file: Path) -> int:
    """Estimate the bytes of text in a file."""
    return file.stat().st_size * (_COMPRESSION if split_name(file)[1] else 1)


def read_files(files: Sequence[Path], undecodable: Callable[[str], None]) -> Iterator[str]:
    """Read all documents but empty ones; call `undecodable` with files that are not UTF-8."""
    for file in files:
        with opened(file) as stream:
            reader = TextReader(
                stream,
                input_format_of(file),
                _COLUMN,
                null="empty",
                name=str(file),
                undecodable=functools.partial(undecodable, str(file)),
                remedies=(
                    f"rename the one that holds the documents to {_COLUMN}",
                    "Fix it, or leave it out.",
                ),
            )
            for rows in reader:
                yield from filter(None, rows.texts.to_pylist())


def stream_dataset(
    name: str, configuration: str | None, revision: str | None, copy: Path | None
) -> Iterator[dict[str, Any]]:
    """Read the rows of a dataset's split `train`; from its `copy` in the cache, if there is one."""
    from datasets import load_dataset

    with downloading("dataset", name, revision):
        with offline() if copy else contextlib.nullcontext():
            rows = load_dataset(
                name, configuration, split="train", revision=revision, streaming=True
            )
        yield from rows


def content_hash(file: Path) -> tuple[Path, str]:
    """Hash a file's content; return it with the path, since results come in any order."""
    with file.open("rb") as stream:
        return file, str(hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest())


def _version(package: str) -> str:
    package = package.partition(".")[0]
    if package == "stdlib" or package in sys.stdlib_module_names:
        return sys.version.split()[0]
    for distribution in metadata.packages_distributions().get(package, []):
        return metadata.version(distribution)
    return "unknown"
