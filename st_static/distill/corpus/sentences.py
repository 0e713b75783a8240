"""Documents to distinct sentences, in shards."""

from __future__ import annotations

import functools
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from st_static.distill.config import SentencesConfig
from st_static.distill.corpus.blocks import (
    BlockList,
    are_listed,
    block_path,
    has_part,
    list_blocks,
    shard_path,
    temporary_folder,
    write_block,
    write_part_end,
)
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.parts import Part, file_parts, in_blocks, in_shares, read_parts
from st_static.distill.corpus.repetitions import SCHEMA, write_distinct
from st_static.distill.corpus.scripts import count_words, share_of_letters
from st_static.distill.corpus.splitting import are_lower_cased, split_paragraphs
from st_static.distill.engines import Engine, map_shards
from st_static.distill.stages import Figures
from st_static.files import look_again, read_json
from st_static.languages import is_english

BLOCK_CHARACTERS = 8_000_000
_MOST_BLOCKS = 8192  # about; of more text, blocks are larger
_SPLIT_AT_ONCE = 1_000_000  # characters


def sentence_key(text: str) -> int:
    """A sentence's identity: a 64-bit hash of its lower-cased text."""
    return xxhash.xxh3_64_intdigest(text.lower().encode("utf-8", "surrogatepass"))


def split_sentences(
    documents: Iterable[str],
    languages: Sequence[str] = (),
    lower_cased: NDArray[np.bool_] | None = None,
) -> list[str]:
    """Split documents into sentences, with white space collapsed.

    A line of a document is a paragraph: no sentence goes across its end.

    Args:
        documents: The documents; half of a surrogate pair, which is no text, becomes `?`.
        languages: Tags of their languages; without any, they are English.
        lower_cased: Which of them are lower-cased, [B]; by default what `are_lower_cased` says.
    """
    documents = list(documents)
    if lower_cased is None:
        lower_cased = are_lower_cased(documents)
    paragraphs, flags = [], []
    for document, is_lower_cased in zip(documents, lower_cased.tolist(), strict=True):
        for line in _as_text(document).split("\n"):
            if paragraph := " ".join(line.replace("\x00", " ").split()):
                paragraphs.append(paragraph)
                flags.append(is_lower_cased)
    return split_paragraphs(paragraphs, languages, flags)


def _as_text(document: str) -> str:
    """The document without halves of surrogate pairs, which UTF-8 cannot spell."""
    try:
        document.encode()
    except UnicodeEncodeError:
        return document.encode("utf-8", "replace").decode()
    return document


def filter_sentences(
    sentences: list[str], config: SentencesConfig, languages: Sequence[str] = ()
) -> tuple[pa.Table, Counter[str]]:
    """Keep the sentences that look like prose.

    Args:
        sentences: The sentences, with white space collapsed.
        config: How long they may be, and how many letters they need.
        languages: Tags of their languages; without any, they are English.

    Returns:
        The kept sentences with their keys (columns `text` and `key`), and how many were read and
        dropped, by reason.
    """
    texts = pa.array(sentences, pa.string())
    words = count_words(texts, languages)
    short, long = words < config.min_words, words > config.max_words
    few_letters = ~short & ~long & (share_of_letters(texts, languages) < config.min_letters)
    kept = texts.filter(pa.array(~short & ~long & ~few_letters))
    keys = np.fromiter(map(sentence_key, kept.to_pylist()), np.uint64, len(kept))
    counts = Counter(
        read=len(texts),
        too_short=int(short.sum()),
        too_long=int(long.sum()),
        few_letters=int(few_letters.sum()),
    )
    return pa.table([kept, pa.array(keys)], schema=SCHEMA), counts


def split_block(
    documents: list[str], config: SentencesConfig, languages: Sequence[str] = ()
) -> tuple[pa.Table, Counter[str]]:
    """Split and filter one block of documents, a few at a time: that takes less memory."""
    tables, counts = [SCHEMA.empty_table()], Counter[str]()
    lower_cased, start = are_lower_cased(documents), 0
    for some in in_blocks(documents, _SPLIT_AT_ONCE):
        sentences = split_sentences(some, languages, lower_cased[start : start + len(some)])
        start += len(some)
        table, found = filter_sentences(sentences, config, languages)
        tables.append(table)
        counts.update(found)
    counts["bytes"] = sum(len(document.encode("utf-8", "replace")) for document in documents)
    return pa.concat_tables(tables).combine_chunks(), counts


def sentence_shards(folder: Path) -> list[Path]:
    """The shards of a sentence folder, in order."""
    look_again(folder)
    return [shard_path(folder, number) for number in range(len(BlockList.read(folder).files))]


def disk_bytes(corpus: Corpus) -> int:
    """About how much disk `write_sentences` takes at most; 0 where that is not known.

    Blocks hold the text with its keys in order, and shards take their places one by one.
    """
    return corpus.text_bytes() * 5 // 4


def write_sentences(
    documents: Iterable[str],
    folder: Path,
    config: SentencesConfig,
    engine: Engine,
    languages: Sequence[str] = (),
) -> Figures:
    """Split, filter and deduplicate documents into shards of distinct sentences.

    What an interrupted run left is kept and not computed again.

    Args:
        documents: The corpus; workers read it themselves where it `is_divisible`. Other documents
            are read here.
        folder: Where `sentences-00000.arrow`, … go, with columns `text` and `key`.
        config: Which sentences are kept.
        engine: What runs the parts.
        languages: Tags of the corpus's languages; without any, it is English.

    Returns:
        How many sentences were read, dropped (by reason) and kept, and how many characters.

    Raises:
        ValueError: No sentence is left, or a file cannot be read.
    """
    if are_listed(folder):
        blocks = BlockList.read(folder)
    else:
        temporary_folder(folder).mkdir(exist_ok=True)
        split = functools.partial(_split_part, folder=folder, config=config, languages=languages)
        blocks = list_blocks(folder, _split_corpus(split, documents, folder, engine))
    if isinstance(documents, Corpus):
        for file in blocks.undecodable:
            documents.add_undecodable(file)
    write_distinct(folder, blocks, engine)
    # A network's file system may hold back files that a worker has just closed.
    shutil.rmtree(temporary_folder(folder), ignore_errors=True)
    return _total(folder, languages)


def _split_corpus(
    split: Callable[[Part], int], documents: Iterable[str], folder: Path, engine: Engine
) -> int:
    """Split those parts of a corpus that are not split yet; count all parts."""
    if isinstance(documents, Corpus) and documents.is_divisible:
        size = max(BLOCK_CHARACTERS, documents.text_bytes() // _MOST_BLOCKS)
        parts = file_parts(documents, size)
        missing = [part for part in parts if not has_part(folder, part)]
        shares: Sequence[Part] = in_shares(missing, engine.n_workers)
        for _ in map_shards(split, shares, engine, "sentences", len(shares), int):
            pass
        return len(parts)
    n_parts = 0

    def unread() -> Iterator[Part]:
        """The parts that are not split yet; all are read here."""
        nonlocal n_parts
        for part in read_parts(documents, BLOCK_CHARACTERS):
            n_parts += 1
            if not has_part(folder, part):
                yield part

    for _ in map_shards(split, unread(), engine, "sentences", None, int):
        pass
    return n_parts


def _split_part(part: Part, folder: Path, config: SentencesConfig, languages: Sequence[str]) -> int:
    """Write the blocks of a part that are missing; count the sentences read."""
    n_read = 0
    for number, documents in part.blocks():
        path = block_path(folder, part.number, number)
        if not path.exists():
            table, counts = split_block(documents, config, languages)
            write_block(path, table, counts)
            n_read += counts["read"]
    if part.share == 0:
        write_part_end(folder, part)
    return n_read


def _dropped(total: Counter[str]) -> str:
    """What became of the sentences, in words."""
    reasons = {
        "too_short": "of too few words",
        "too_long": "of too many words",
        "few_letters": "with too few letters",
    }
    said = [f"{total[key]:,} {text}" for key, text in reasons.items() if total[key]]
    return f"of {total['read']:,}, {', '.join(said)}" if said else "it is empty"


def _total(folder: Path, languages: Sequence[str]) -> Figures:
    total: Counter[str] = Counter()
    for path in sentence_shards(folder):
        total.update(read_json(path.with_suffix(".json")))
    if not total["kept"]:
        hints = ["Check corpus.* and sentences.*"]
        if total["too_long"]:
            hints.append("text without marks such as . and ? needs a sentence a line")
        if is_english(languages):
            hints.append("text that is not English needs --language")
        raise ValueError(
            f"The corpus has no sentence that passes the filter: {_dropped(total)}. "
            f"{'; '.join(hints)}."
        )
    return dict(total)
