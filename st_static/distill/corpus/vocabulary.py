"""Sentences to a vocabulary: word counts, the V most frequent words, and the student's tokenizer.

Counts are partial summaries: each is made from one shard alone, and merging them is associative
and commutative.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from st_static.distill.corpus.config import VocabularyConfig
from st_static.distill.engines import Engine, map_shards
from st_static.distill.stages import Figures, require_disk
from st_static.distill.work_directory import TEACHER_TOKENIZER_FILE, TOKENIZER_FILE, WORDS_FILE
from st_static.files import read_table, write_table
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.chunks import split_chunks
from st_static.tokens.tokenizer import (
    CONTINUATION,
    ENGLISH,
    MAX_WORD_CHARACTERS,
    Normalization,
    build_tokenizer,
    is_punctuation,
    split_all_words,
)

COUNTS_SCHEMA = pa.schema([("text", pa.string()), ("count", pa.int64())])
_CHUNKS_AT_A_TIME = 100_000


def count_words(
    texts: Sequence[str] | pa.Array, normalization: Normalization = ENGLISH
) -> pa.Table:
    """Count the words of texts, by the student tokenizer's normaliser and pre-tokenizer.

    Args:
        texts: The texts.
        normalization: What becomes of them before they are split.

    Returns:
        Columns `text` (the word) and `count`, one row per word, in the order of first occurrence.

    Example:
        >>> count_words(["To be or not to be"]).to_pydict()
        {'text': ['to', 'be', 'or', 'not'], 'count': [2, 2, 1, 1]}
    """
    return words_of_chunks(count_chunks(texts), normalization)


def count_chunks(texts: Sequence[str] | pa.Array, pattern: str | None = None) -> pa.Table:
    """Count the chunks between spaces; each distinct one is then split into words only once.

    Args:
        texts: The texts.
        pattern: A regular expression that chunks are to match somewhere; by default all count.

    Returns:
        Columns `text` (the chunk) and `count`, one row per chunk.
    """
    chunks = split_chunks(texts)
    counts = np.bincount(chunks.codes, minlength=len(chunks.distinct))
    table = pa.table([chunks.distinct.cast(pa.string()), counts], schema=COUNTS_SCHEMA)
    return table.filter(pc.match_substring_regex(table["text"], pattern)) if pattern else table


def words_of_chunks(chunks: pa.Table, normalization: Normalization) -> pa.Table:
    """Turn counts of chunks into counts of words."""
    words = split_all_words(chunks["text"].combine_chunks(), normalization)
    counts = chunks["count"].to_numpy()[pc.list_parent_indices(words).to_numpy()]
    return merge_counts([pa.table([words.flatten(), counts], schema=COUNTS_SCHEMA)])


def merge_counts(partials: Iterable[pa.Table]) -> pa.Table:
    """Add up partial counts."""
    table = pa.concat_tables([COUNTS_SCHEMA.empty_table(), *partials])
    merged = table.group_by("text", use_threads=False).aggregate([("count", "sum")])
    return pa.table([merged["text"], merged["count_sum"]], schema=COUNTS_SCHEMA)


def _merge_stream(partials: Iterable[pa.Table]) -> pa.Table:
    merged = COUNTS_SCHEMA.empty_table()
    waiting: list[pa.Table] = []
    for partial in partials:
        waiting.append(partial)
        # Merging when as much waits as is merged keeps the work linear.
        if sum(map(len, waiting)) > len(merged):
            merged, waiting = merge_counts([merged, *waiting]), []
    return merge_counts([merged, *waiting])


def _write_counts(item: tuple[Path, Path], pattern: str | None) -> None:
    shard, file = item
    write_table(file, count_chunks(read_table(shard)["text"].combine_chunks(), pattern))


def count_shards(
    shards: Sequence[Path],
    engine: Engine,
    folder: Path,
    normalization: Normalization,
    pattern: str | None = None,
) -> pa.Table:
    """Count the words of all sentence shards.

    Args:
        shards: The sentence shards.
        engine: What runs the parts.
        folder: Where `counts-00000.arrow`, … go; those that an interrupted run left are kept, and
            all are removed at the end.
        normalization: What becomes of a text before it is split.
        pattern: A regular expression; chunks between spaces that do not match it are left out.

    Returns:
        Columns `text` (the word) and `count`; the most frequent word first, equals in
        alphabetical order.
    """
    files = [folder / f"counts-{number:05d}.arrow" for number in range(len(shards))]
    missing = [item for item in zip(shards, files, strict=True) if not item[1].exists()]
    write = functools.partial(_write_counts, pattern=pattern)
    for _ in map_shards(write, missing, engine, "word counts", len(missing)):
        pass
    chunks = _merge_stream(map(read_table, files)).combine_chunks()
    starts = range(0, len(chunks), _CHUNKS_AT_A_TIME)
    parts = [chunks.slice(start, _CHUNKS_AT_A_TIME) for start in starts]
    count = functools.partial(words_of_chunks, normalization=normalization)
    words = _merge_stream(map_shards(count, parts, engine, "words", len(parts)))
    for file in files:
        file.unlink()
    return words.sort_by([("count", "descending"), ("text", "ascending")])


def choose_words(counts: pa.Table, config: VocabularyConfig) -> pa.Table:
    """Keep the V most frequent words with at least `min_count` occurrences.

    Words of punctuation only are left out, since their rows are zero, and those of more characters
    than the tokenizer looks at.

    Args:
        counts: Columns `text` and `count`, sorted by `count_shards`.
        config: Size and least count.

    Raises:
        ValueError: There are fewer than V such words.
    """
    frequent = counts.filter(counts["count"].to_numpy() >= config.min_count)
    spoken = [
        len(word) <= MAX_WORD_CHARACTERS and not is_punctuation(word)
        for word in frequent["text"].to_pylist()
    ]
    words = frequent.filter(pa.array(spoken, pa.bool_()))[: config.size]
    if not len(words):
        raise ValueError(
            f"No word of the corpus occurs at least {config.min_count} times "
            f"(vocabulary.min_count), of {len(counts)} distinct words. Give more text, or lower "
            "vocabulary.min_count."
        )
    if len(words) < config.size:
        raise ValueError(
            f"vocabulary.size is {config.size}, but the corpus offers only {len(words)} words that "
            f"occur at least {config.min_count} times (vocabulary.min_count). Set vocabulary.size "
            f"to at most {len(words)}, lower vocabulary.min_count, or give more text; what is "
            "already computed stays."
        )
    return words


def write_vocabulary(
    folder: Path,
    shards: Sequence[Path],
    teacher: Tokenizer,
    pieces: Iterable[str],
    config: VocabularyConfig,
    engine: Engine,
) -> Figures:
    """The stage: count words, choose the vocabulary, and make the student's tokenizer.

    Args:
        folder: Where the stage's files go.
        shards: The sentence shards.
        teacher: The teacher's tokenizer, which is kept beside the student's.
        pieces: The teacher's word pieces, in the student's spelling.
        config: Size, least count and kind of pieces.
        engine: What runs the parts.

    Returns:
        How many words and tokens there are.

    Raises:
        ValueError: The corpus offers too few words, or the disk is too small.
    """
    require_disk(folder, sum(shard.stat().st_size for shard in shards) // 2, "Counting words")
    counts = count_shards(shards, engine, folder, config.normalization)
    words = choose_words(counts, config)
    vocabulary = words["text"].to_pylist()
    chosen = choose_pieces(vocabulary, pieces, counts["text"], config)
    tokenizer = build_tokenizer(vocabulary, chosen, config.normalization)
    write_tokenizers(folder, words, tokenizer, teacher)
    return {
        "distinct_words": len(counts),
        "words": len(words),
        "smallest_count": words["count"][-1].as_py(),
        "tokens": tokenizer.get_vocab_size(),
    }


def write_tokenizers(folder: Path, words: pa.Table, student: Tokenizer, teacher: Tokenizer) -> None:
    """Leave a vocabulary, and the tokenizers of student and teacher, in the stage's folder."""
    write_table(folder / WORDS_FILE, words)
    student.save(str(folder / TOKENIZER_FILE))
    teacher.save(str(folder / TEACHER_TOKENIZER_FILE))


def single_characters(words: Iterable[str]) -> list[str]:
    """Every character seen, as the beginning of a word (`c`) or inside it (`##c`), sorted.

    A character that is missing from the tokenizer would send its whole word to [UNK].
    """
    first: set[str] = set()
    inner: set[str] = set()
    for word in words:
        first.add(word[0])
        inner.update(word[1:])
    beginnings = {c for c in first | inner if not is_punctuation(c)}
    return sorted(beginnings) + sorted(CONTINUATION + c for c in inner & beginnings)


def choose_pieces(
    words: Sequence[str],
    pieces: Iterable[str],
    seen: pa.ChunkedArray,
    config: VocabularyConfig,
) -> list[str]:
    """What spells the words outside the vocabulary: the teacher's pieces and single characters.

    Whatever is left out, a word that all pieces can spell never goes to [UNK]: each piece that is
    missing is spelled by its characters.

    Args:
        words: The vocabulary.
        pieces: The teacher's pieces.
        seen: All words of the corpus.
        config: Which pieces are kept: all, those that the student uses to spell a word of the
            corpus, or none. Where an unknown word becomes its prefix, single characters stand for
            what follows.

    Returns:
        Pieces, then single characters.
    """
    pieces = list(pieces)
    characters = single_characters(seen.to_pylist())
    if config.pieces == "all" and config.unknown == "pieces":
        return [*pieces, *characters]
    characters = list(dict.fromkeys([*characters, *(c for p in pieces for c in _spell_out(p))]))
    if config.unknown == "prefix":
        pieces = [piece for piece in pieces if not piece.startswith(CONTINUATION)]
    if config.pieces == "all":
        return [*pieces, *characters]
    if config.pieces == "none":
        return characters
    tokenizer = build_tokenizer(words, [*pieces, *characters], config.normalization)
    ids_of, used = ChunkTokenizer(tokenizer), set[int]()
    for start in range(0, len(seen), _CHUNKS_AT_A_TIME):
        part = seen.slice(start, _CHUNKS_AT_A_TIME).combine_chunks()
        used.update(np.unique(ids_of(part).values).tolist())
    return [*(p for p in pieces if tokenizer.token_to_id(p) in used), *characters]


def _spell_out(piece: str) -> list[str]:
    """A piece as single characters: `##ed` as `##e` and `##d`, `un` as `u` and `##n`."""
    text = piece.removeprefix(CONTINUATION)
    spelled = [CONTINUATION + character for character in text]
    return spelled if piece.startswith(CONTINUATION) else [text[0], *spelled[1:]]
