"""A corpus in parts, which workers cut into blocks of documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.text_files import read_files, text_bytes

# A part that is more than this of a worker's work is shared, so that no worker is idle for long at
# the end. Each share reads all of the part: smaller ones would cost more than they spare.
_LARGEST = 0.5


class Part(Protocol):
    """Some neighbouring documents of a corpus.

    Attributes:
        number: Its place in the corpus.
        share: Which of the workers on this part this is for.
        n_blocks: How many blocks it has; known when `blocks` has ended.
        undecodable: Paths of its files that are not UTF-8; known then, too.
    """

    number: int
    share: int
    n_blocks: int
    undecodable: set[str]

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """This share's blocks, with their places in the part."""


@dataclass
class ReadPart:
    """A block of documents that is read already: a part by itself."""

    number: int
    documents: list[str]
    undecodable: set[str]
    share: int = 0
    n_blocks: int = 1

    def __str__(self) -> str:
        return f"block {self.number} of the corpus"

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """As `Part.blocks`."""
        yield 0, self.documents


@dataclass
class FilePart:
    """Neighbouring files, for a worker that reads all of them and cuts its share of the blocks.

    Where a block ends depends on neither the shares nor their number.

    Args:
        number: Its place in the corpus.
        files: The files.
        column: Column or key that holds the text, in .jsonl or .parquet.
        n_characters: About how many characters a block has.
        n_bytes: About how much text the files hold.
        share: Which share this is.
        n_shares: How many workers read this part; each takes every `n_shares`-th block.
    """

    number: int
    files: list[Path]
    column: str
    n_characters: int
    n_bytes: int
    share: int = 0
    n_shares: int = 1
    n_blocks: int = 0
    undecodable: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        last = f" to {self.files[-1]}" if len(self.files) > 1 else ""
        return f"{self.files[0]}{last} (share {self.share + 1} of {self.n_shares})"

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """As `Part.blocks`.

        Raises:
            ValueError: A file is damaged, or has no such column.
        """
        documents = read_files(self.files, self.column, self.undecodable.add)
        self.n_blocks = 0
        for number, block in enumerate(in_blocks(documents, self.n_characters)):
            if number % self.n_shares == self.share:
                yield number, block
            self.n_blocks += 1


def in_blocks(documents: Iterable[str], n_characters: int) -> Iterator[list[str]]:
    """Group documents into blocks of about `n_characters`."""
    block: list[str] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document)
        if size >= n_characters:
            yield block
            block, size = [], 0
    if block:
        yield block


def read_parts(documents: Iterable[str], n_characters: int) -> Iterator[ReadPart]:
    """Read documents here, and give them block by block.

    Args:
        documents: A corpus, or any documents.
        n_characters: About how many characters a block has.
    """
    for number, block in enumerate(in_blocks(documents, n_characters)):
        undecodable = documents.undecodable if isinstance(documents, Corpus) else ()
        yield ReadPart(number, block, set(undecodable))


def file_parts(corpus: Corpus, n_characters: int) -> list[FilePart]:
    """A corpus of files in parts that workers read: large files alone, small ones together.

    Args:
        corpus: The corpus, which `is_divisible`.
        n_characters: About how many characters a block has.
    """
    column = corpus.config.text_column
    return [
        FilePart(number, files, column, n_characters, sum(map(text_bytes, files)))
        for number, files in enumerate(_runs(corpus.files, n_characters))
    ]


def _runs(files: Sequence[Path], n_bytes: int) -> Iterator[list[Path]]:
    """Runs of files with about `n_bytes` of text at most; a larger file is one alone."""
    run: list[Path] = []
    size = 0
    for file in files:
        more = text_bytes(file)
        if run and size + more > n_bytes:
            yield run
            run, size = [], 0
        run.append(file)
        size += more
    if run:
        yield run


def in_shares(parts: Sequence[FilePart], n_workers: int) -> list[FilePart]:
    """Divide large parts among workers; the largest shares come first.

    Args:
        parts: The parts to read.
        n_workers: How many read at the same time.
    """
    largest = _LARGEST * sum(part.n_bytes for part in parts) / n_workers
    shares = []
    for part in parts:
        n_blocks = math.ceil(part.n_bytes / part.n_characters)
        wanted = math.ceil(part.n_bytes / largest) if largest else 1
        n_shares = max(1, min(wanted, n_blocks, n_workers))
        shares += [replace(part, share=i, n_shares=n_shares) for i in range(n_shares)]
    return sorted(shares, key=lambda part: -part.n_bytes / part.n_shares)
