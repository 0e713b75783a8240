"""Split documents into shards of distinct sentences.

Workers cut parts of a corpus into blocks of sentences that look like prose. The keys of all blocks
are merged by ranges, and each block becomes a shard, without the sentences of earlier ones.

No folder is listed, since a network file system may not show all files that other machines wrote:
`blocks/part-PART.json` lists a part's blocks, and `blocks.json`, which stays, those of all parts.
"""

from __future__ import annotations

import functools
import json
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from st_static.distill.config import MAX_WORDS, SentencesConfig
from st_static.distill.corpus.documents import Corpus, read_files, text_bytes
from st_static.distill.corpus.shards import Task, write_missing
from st_static.distill.corpus.splitting import are_lower_cased, split_paragraphs
from st_static.distill.engines import Engine, map_shards
from st_static.distill.stages import Figures, require_disk
from st_static.files import look_again, read_arrow, read_json, write_arrow, write_json
from st_static.languages import is_english
from st_static.model.scripts import count_words, share_of_letters

SCHEMA = pa.schema([("text", pa.string()), ("key", pa.uint64())])
BLOCK_CHARACTERS = 8_000_000
KEYS_PER_RANGE = 2**24  # merging them takes about 0.7 GB of memory

_MOST_BLOCKS = 8192  # approximate; the blocks of a larger corpus are larger
_SPLIT_AT_ONCE = 1_000_000  # characters
# A part of more than this fraction of a worker's work is divided, so that no worker is idle for
# long at the end. Each share reads the whole part: smaller ones would cost more than they save.
_LARGEST_SHARE = 0.5
_COUNTS = b"counts"  # metadata of blocks and shards: sentences read, dropped and kept


# -- documents to sentences --------------------------------------------------------------


def sentence_key(text: str) -> int:
    """Identify a sentence by a 64-bit hash of its lower-cased text."""
    return xxhash.xxh3_64_intdigest(text.lower().encode("utf-8", "surrogatepass"))


def split_sentences(
    documents: Iterable[str],
    languages: Sequence[str] = (),
    lower_cased: NDArray[np.bool_] | None = None,
) -> list[str]:
    """Split documents into sentences, none across a line's end, with white space collapsed and `?`
    for lone surrogates. By default, `are_lower_cased` finds the `lower_cased` ones [B]."""
    documents = list(documents)
    if lower_cased is None:
        lower_cased = are_lower_cased(documents)
    paragraphs, flags = [], []
    for document, is_lower_cased in zip(documents, lower_cased.tolist(), strict=True):
        for line in document.encode("utf-8", "replace").decode().split("\n"):
            if paragraph := " ".join(line.replace("\x00", " ").split()):
                paragraphs.append(paragraph)
                flags.append(is_lower_cased)
    return split_paragraphs(paragraphs, languages, flags)


def filter_sentences(
    sentences: list[str], config: SentencesConfig, languages: Sequence[str] = ()
) -> tuple[pa.Table, Counter[str]]:
    """Keep the sentences that look like prose; count those read, and those dropped, by reason."""
    texts = pa.array(sentences, pa.string())
    words = count_words(texts, languages)
    short, long = words < config.min_words, words > MAX_WORDS
    has_length = ~short & ~long
    has_letters = share_of_letters(texts, languages) >= config.min_letters
    prose = texts.filter(pa.array(has_length & has_letters))
    keys = np.fromiter(map(sentence_key, prose.to_pylist()), np.uint64, len(prose))
    counts = Counter(
        read=len(texts),
        too_short=int(short.sum()),
        too_long=int(long.sum()),
        few_letters=int((has_length & ~has_letters).sum()),
    )
    return pa.table([prose, pa.array(keys)], schema=SCHEMA), counts


def split_block(
    documents: list[str], config: SentencesConfig, languages: Sequence[str] = ()
) -> tuple[pa.Table, Counter[str]]:
    """Split and filter one block of documents, a few at a time to save memory."""
    tables, counts = [SCHEMA.empty_table()], Counter[str]()
    lower_cased, start = are_lower_cased(documents), 0
    for part in in_blocks(documents, _SPLIT_AT_ONCE):
        sentences = split_sentences(part, languages, lower_cased[start : start + len(part)])
        start += len(part)
        table, part_counts = filter_sentences(sentences, config, languages)
        tables.append(table)
        counts.update(part_counts)
    counts["bytes"] = sum(len(document.encode("utf-8", "replace")) for document in documents)
    return pa.concat_tables(tables).combine_chunks(), counts


# -- the stage ---------------------------------------------------------------------------


def sentence_shards(folder: Path) -> list[Path]:
    """List the shards of a sentence folder, in order."""
    look_again(folder)
    n_shards = len(read_json(folder / "blocks.json")["files"])
    return [folder / f"sentences-{number:05d}.arrow" for number in range(n_shards)]


def write_sentences(
    documents: Iterable[str],
    folder: Path,
    config: SentencesConfig,
    engine: Engine,
    languages: Sequence[str] = (),
) -> Figures:
    """Run the stage: split, filter and deduplicate documents into shards of distinct sentences;
    workers read a corpus that `is_divisible` themselves."""
    corpus = documents if isinstance(documents, Corpus) else None
    blocks, listing = folder / "blocks", folder / "blocks.json"
    if not listing.exists():
        if corpus:
            # Blocks hold the text and its keys; shards replace them one by one.
            require_disk(folder, corpus.text_bytes() * 5 // 4, "The sentences of the corpus")
        blocks.mkdir(exist_ok=True)
        split = functools.partial(_split_part, blocks=blocks, config=config, languages=languages)
        if corpus and corpus.is_divisible:
            parts = file_parts(corpus, max(BLOCK_CHARACTERS, corpus.text_bytes() // _MOST_BLOCKS))
            shares = in_shares([p for p in parts if not _is_split(blocks, p)], engine.n_workers)
            for _ in map_shards(split, shares, engine, "sentences", sentences=int):
                pass
            n_parts = len(parts)
        else:
            results = map_shards(
                split, document_parts(documents), engine, "sentences", sentences=int
            )
            n_parts = sum(1 for _ in results)
        look_again(blocks)
        ends = [read_json(_part_listing(blocks, part)) for part in range(n_parts)]
        names = [name for end in ends for name in end["files"]]
        n_keys = sum(len(read_arrow(blocks / name)) for name in names)
        undecodable = sorted({name for end in ends for name in end["undecodable"]})
        write_json(listing, {"files": names, "n_keys": n_keys, "undecodable": undecodable})
    listed = read_json(listing)
    if corpus:
        for file in listed["undecodable"]:
            corpus.add_undecodable(file)

    # Each block becomes a shard, without what earlier ones hold.
    files = [blocks / name for name in listed["files"]]
    shards = list(map(Task, enumerate(files), sentence_shards(folder)))
    if not all(shard.file.exists() for shard in shards):
        n_ranges = max(1, math.ceil(listed["n_keys"] / KEYS_PER_RANGE))
        ranges = [Task(n, blocks / f"repeated-{n:05d}.arrow") for n in range(n_ranges)]
        merge = functools.partial(_write_repeated, blocks=files, n_ranges=n_ranges)
        write_missing(merge, ranges, engine, "repetitions", sentences=int)
        write = functools.partial(_write_shard, ranges=[task.file for task in ranges])
        write_missing(write, shards, engine, "distinct sentences", sentences=int)
    # Removal may fail: a network file system may hold files that a worker has just closed.
    shutil.rmtree(blocks, ignore_errors=True)

    total: Counter[str] = Counter()
    for shard in shards:
        total.update(_counts_of(shard.file))
    if not total["kept"]:
        raise _no_sentence(total, languages)
    return dict(total)


def _no_sentence(total: Counter[str], languages: Sequence[str]) -> ValueError:
    reasons = "of too few words", "of too many words", "with too few letters"
    labels = zip(("too_short", "too_long", "few_letters"), reasons, strict=True)
    dropped = [f"{total[key]:,} {reason}" for key, reason in labels if total[key]]
    outcome = f"of {total['read']:,}, {', '.join(dropped)}" if dropped else "it is empty"
    hints = ["Check corpus.* and sentences.*"]
    if total["too_long"]:
        hints.append("text without marks such as . and ? needs one sentence per line")
    if is_english(languages):
        hints.append("text that is not English needs --language")
    return ValueError(
        f"The corpus has no sentence that passes the filter: {outcome}. {'; '.join(hints)}."
    )


# -- a corpus in parts -------------------------------------------------------------------


@dataclass
class Part:
    """Neighbouring documents of a corpus, for a worker that cuts its share of the blocks."""

    number: int
    n_characters: int  # of a block, about
    files: list[Path] = field(default_factory=list)
    n_bytes: int = 0  # of text in the files, about
    documents: list[str] = field(default_factory=list)  # instead of files
    undecodable: set[str] = field(default_factory=set)  # files read so far that are not UTF-8
    share: int = 0  # this worker takes every n-th block of the part
    n_shares: int = 1

    def __str__(self) -> str:
        if not self.files:
            return f"block {self.number} of the corpus"
        last = f" to {self.files[-1]}" if len(self.files) > 1 else ""
        return f"{self.files[0]}{last} (share {self.share + 1} of {self.n_shares})"

    def blocks(self) -> Iterator[list[str]]:
        """Read all blocks of the part, whichever share this is."""
        documents: Iterable[str] = self.documents
        if self.files:
            documents = read_files(self.files, self.undecodable.add)
        return in_blocks(documents, self.n_characters)


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


def document_parts(documents: Iterable[str]) -> Iterator[Part]:
    """Read a corpus, or any documents, in this process; each block is a part."""
    for number, block in enumerate(in_blocks(documents, BLOCK_CHARACTERS)):
        undecodable = set(documents.undecodable) if isinstance(documents, Corpus) else set()
        yield Part(number, BLOCK_CHARACTERS, documents=block, undecodable=undecodable)


def file_parts(corpus: Corpus, n_characters: int) -> list[Part]:
    """Cut a corpus of files into parts for workers: large files alone, small ones together."""
    parts: list[Part] = []
    for file in corpus.files:
        n_bytes = text_bytes(file)
        if not parts or parts[-1].n_bytes + n_bytes > n_characters:
            parts.append(Part(len(parts), n_characters))
        parts[-1].files.append(file)
        parts[-1].n_bytes += n_bytes
    return parts


def in_shares(parts: Sequence[Part], n_workers: int) -> list[Part]:
    """Divide large parts among workers; the largest shares come first."""
    largest = _LARGEST_SHARE * sum(part.n_bytes for part in parts) / n_workers
    shares = []
    for part in parts:
        n_blocks = math.ceil(part.n_bytes / part.n_characters)
        wanted = math.ceil(part.n_bytes / largest) if largest else 1
        n_shares = max(1, min(wanted, n_blocks, n_workers))
        shares += [replace(part, share=i, n_shares=n_shares) for i in range(n_shares)]
    return sorted(shares, key=lambda part: -part.n_bytes / part.n_shares)


# -- blocks and shards -------------------------------------------------------------------


def _part_listing(blocks: Path, part: int) -> Path:
    return blocks / f"part-{part:05d}.json"


def _is_split(blocks: Path, part: Part) -> bool:
    end = _part_listing(blocks, part.number)
    return end.exists() and all((blocks / name).exists() for name in read_json(end)["files"])


def _counts_of(file: Path) -> Counter[str]:
    return Counter(json.loads(read_arrow(file).schema.metadata[_COUNTS]))


def _write_counted(file: Path, table: pa.Table, counts: Counter[str]) -> None:
    write_arrow(file, table.replace_schema_metadata({_COUNTS: json.dumps(counts)}))


def _split_part(part: Part, blocks: Path, config: SentencesConfig, languages: Sequence[str]) -> int:
    """Write the missing blocks of a share, without repetitions; count the sentences read."""
    n_read, files = 0, list[Path]()
    for number, documents in enumerate(part.blocks()):
        file = blocks / f"block-{part.number:05d}-{number:05d}.arrow"
        files.append(file)
        if number % part.n_shares == part.share and not file.exists():
            table, counts = split_block(documents, config, languages)
            keys, rows = np.unique(table["key"].to_numpy(), return_index=True)
            distinct = np.sort(rows)
            counts["repeated"] = len(table) - len(distinct)
            columns = {
                "text": table["text"].take(pa.array(distinct)),
                "sorted_key": keys,
                "row": np.searchsorted(distinct, rows).astype(np.uint32),
            }
            _write_counted(file, pa.table(columns), counts)
            n_read += counts["read"]
    end = _part_listing(blocks, part.number)
    if part.share == 0 and not end.exists():  # all shares know the names, and one writes them
        names = [file.name for file in files]
        write_json(end, {"files": names, "undecodable": sorted(part.undecodable)})
    return n_read


def _write_repeated(task: Task[int], blocks: Sequence[Path], n_ranges: int) -> int:
    """Write the rows of each block that repeat a key of the range; count the range's keys."""
    # The range's first and last key, inclusive.
    first, last = (np.uint64((task.source + i) * 2**64 // n_ranges - i) for i in (0, 1))
    keys, rows = [], []
    for file in blocks:
        # Without `combine_chunks`, which copies: a range is a small part of every block.
        block = read_arrow(file)
        sorted_keys = block["sorted_key"].to_numpy()
        start = np.searchsorted(sorted_keys, first)
        end = np.searchsorted(sorted_keys, last, side="right")
        # Copies, so that the file can be unmapped.
        keys.append(sorted_keys[start:end].copy())
        rows.append(block["row"].to_numpy()[start:end].copy())
    repeated = are_repeated(np.concatenate(keys))
    ends = np.cumsum([0, *map(len, keys)])
    n_before = np.concatenate([[0], np.cumsum(repeated)])
    lists = pa.ListArray.from_arrays(
        pa.array(n_before[ends], pa.int32()), pa.array(np.concatenate(rows)[repeated])
    )
    write_arrow(task.file, pa.table({"rows": lists}))
    return len(repeated)


def are_repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Find the keys [K] that also occur at an earlier position; booleans [K]."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), np.bool_)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return repeated


def _write_shard(task: Task[tuple[int, Path]], ranges: Sequence[Path]) -> int:
    """Write a block without repetitions as a shard, and remove it; count the kept sentences."""
    number, file = task.source
    try:
        block = read_arrow(file)
    except FileNotFoundError:
        if task.file.exists():  # written by a worker that was thought to be dead
            return _counts_of(task.file)["kept"]
        raise
    rows = block["row"].to_numpy()
    keys = np.empty(len(rows), np.uint64)
    keys[rows] = block["sorted_key"].to_numpy()
    new = np.ones(len(keys), np.bool_)
    for path in ranges:
        new[read_arrow(path)["rows"][number].values.to_numpy()] = False
    table = pa.table([block["text"].filter(pa.array(new)), pa.array(keys[new])], schema=SCHEMA)
    counts = _counts_of(file)
    counts.update(repeated=len(new) - len(table), kept=len(table))
    counts.update(characters=pc.sum(pc.utf8_length(table["text"])).as_py() or 0)
    _write_counted(task.file, table, counts)
    file.unlink(missing_ok=True)
    return len(table)
