"""Sentence shards, as the first stage leaves them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from st_static import files as files_module
from st_static.distill.corpus.sentences import SCHEMA, sentence_key
from st_static.files import write_arrow
from st_static.model.tokenizer import build_tokenizer, split_words


def write_shards(folder: Path, shards: Sequence[Sequence[str]]) -> list[Path]:
    """Write a file of each shard's sentences."""
    files = [folder / f"sentences-{number:05d}.arrow" for number in range(len(shards))]
    for file, texts in zip(files, shards, strict=True):
        keys = pa.array(map(sentence_key, texts), pa.uint64())
        write_arrow(file, pa.table([pa.array(texts, pa.string()), keys], schema=SCHEMA))
    return files


def reference_counts(texts: Iterable[str]) -> Counter[str]:
    """Words by the tokenizer's normaliser and pre-tokenizer, one text at a time."""
    tokenizer = build_tokenizer([])
    return Counter(word for text in texts for word in split_words(tokenizer, text))


class Stopped(BaseException):
    """As if the process had been killed."""


@contextmanager
def stop_after(patch: pytest.MonkeyPatch, n_files: int | None) -> Iterator[list[str]]:
    """Stop when so many files are written; give the names of those that are."""
    renamed, written = files_module._renamed, []

    @contextmanager
    def counting(path: Path) -> Iterator[Path]:
        with renamed(path) as temporary:
            yield temporary
        written.append(path.name)
        if len(written) == n_files:
            raise Stopped

    with patch.context() as context:
        context.setattr(files_module, "_renamed", counting)
        yield written
