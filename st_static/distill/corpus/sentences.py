"""Documents to distinct sentences, in shards."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from st_static.distill.corpus.config import SentencesConfig
from st_static.distill.corpus.scripts import count_words, share_of_letters
from st_static.distill.corpus.splitting import split_paragraphs
from st_static.distill.engines import Engine, map_shards
from st_static.distill.stages import Figures
from st_static.files import read_json, read_table, write_json, write_table
from st_static.languages import is_english

BLOCK_CHARACTERS = 8_000_000
SCHEMA = pa.schema([("text", pa.string()), ("key", pa.uint64())])


def sentence_key(text: str) -> int:
    """A sentence's identity: a 64-bit hash of its lower-cased text."""
    return xxhash.xxh3_64_intdigest(text.lower().encode("utf-8", "surrogatepass"))


def split_sentences(documents: Iterable[str], languages: Sequence[str] = ()) -> list[str]:
    """Split documents into sentences, with white space collapsed.

    A line of a document is a paragraph: no sentence goes across its end.

    Args:
        documents: The documents; half of a surrogate pair, which is no text, becomes `?`.
        languages: Tags of their languages; without any, they are English.
    """
    lines = (line for document in documents for line in _as_text(document).split("\n"))
    paragraphs = (" ".join(line.replace("\x00", " ").split()) for line in lines)
    return split_paragraphs([paragraph for paragraph in paragraphs if paragraph], languages)


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
    """Split and filter one block of documents: the work of one process."""
    table, counts = filter_sentences(split_sentences(documents, languages), config, languages)
    counts["bytes"] = sum(len(document.encode("utf-8", "replace")) for document in documents)
    return table, counts


class SeenKeys:
    """A set of 64-bit keys in sorted runs: 8 bytes per key, and a bound on how many are kept.

    Args:
        max_keys: When more keys than this are held, the oldest runs are forgotten.
    """

    def __init__(self, max_keys: int) -> None:
        self.max_keys = max_keys
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add keys [B] and tell which of them are seen for the first time, [B]."""
        new = np.zeros(len(keys), dtype=np.bool_)
        new[np.unique(keys, return_index=True)[1]] = True
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            new &= run[places] != keys
        if new.any():
            self._append(np.sort(keys[new]))
        return new

    def _append(self, run: NDArray[np.uint64]) -> None:
        # Merging runs of like size keeps their number logarithmic; a merged run stays within
        # half the bound, so that forgetting the oldest never forgets everything.
        while (
            self._runs
            and len(self._runs[-1]) <= 2 * len(run)
            and len(self._runs[-1]) + len(run) <= self.max_keys // 2
        ):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
        while len(self._runs) > 1 and sum(map(len, self._runs)) > self.max_keys:
            self._runs.pop(0)


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


def sentence_shards(folder: Path) -> list[Path]:
    """The shards of a sentence folder, in order."""
    return sorted(folder.glob("sentences-*.arrow"))


def write_sentences(
    documents: Iterable[str],
    folder: Path,
    config: SentencesConfig,
    engine: Engine,
    languages: Sequence[str] = (),
) -> Figures:
    """Split, filter and deduplicate documents into shards of distinct sentences.

    Shards that an interrupted run left are kept: their documents are skipped and their keys
    taken over.

    Args:
        documents: The corpus.
        folder: Where `sentences-00000.arrow`, … go, with columns `text` and `key`.
        config: Which sentences are kept.
        engine: What runs the parts.
        languages: Tags of the corpus's languages; without any, it is English.

    Returns:
        How many sentences were read, dropped (by reason) and kept, and how many characters.

    Raises:
        ValueError: No sentence is left.
    """
    seen = SeenKeys(config.max_remembered)
    done = [p for p in sentence_shards(folder) if p.with_suffix(".json").exists()]
    for path in done:
        seen.add(read_table(path)["key"].to_numpy())
    blocks = islice(in_blocks(documents, BLOCK_CHARACTERS), len(done), None)
    split = functools.partial(split_block, config=config, languages=languages)
    for number, (table, counts) in enumerate(
        map_shards(split, blocks, engine, "sentences"), len(done)
    ):
        new = seen.add(table["key"].to_numpy())
        table = table.filter(pa.array(new))
        counts.update(repeated=len(new) - len(table), kept=len(table))
        counts.update(characters=pc.sum(pc.utf8_length(table["text"])).as_py() or 0)
        path = folder / f"sentences-{number:05d}.arrow"
        write_table(path, table)
        write_json(path.with_suffix(".json"), counts)
    return _total(folder, languages)


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
        other = "; text that is not English needs --language" if is_english(languages) else ""
        raise ValueError(
            f"The corpus has no sentence that passes the filter: {_dropped(total)}. Check corpus.* "
            f"and sentences.*{other}."
        )
    return dict(total)
