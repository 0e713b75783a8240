"""Make a vocabulary from word counts: the V most frequent words, and the student's tokenizer."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.word_counts import COUNTS_SCHEMA, ROWS_AT_A_TIME, counted_words
from st_static.distill.engines import map_shards
from st_static.distill.stages import TEACHER_TOKENIZER_FILE, WORDS_FILE, Figures
from st_static.files import read_arrow, write_arrow
from st_static.model.modules import TOKENIZER_FILE
from st_static.model.tokenizer import (
    CONTINUATION,
    ENGLISH,
    MAX_WORD_CHARACTERS,
    WORD_BEGIN,
    Normalization,
    build_tokenizer,
    is_punctuation,
    split_words,
)
from st_static.tokens.fast_tokenizer import FastTokenizer

# Words that are kept beyond V until the table is cut. Arrow fills a column's last 64 bytes in a
# file with what follows in memory: always the next words, so equal vocabularies give equal bytes.
_SPARE = 64


def write_vocabulary(
    folder: Path,
    shards: Shards,
    teacher: Tokenizer,
    pieces: Iterable[str],
    *,
    config: VocabularyConfig,
    normalization: Normalization = ENGLISH,
) -> Figures:
    """Run the stage: count words, choose the vocabulary, and make the student's tokenizer."""
    with counted_words(shards, folder, normalization) as counts:
        n_words, frequent, characters = 0, COUNTS_SCHEMA.empty_table(), set[str]()
        summarise = functools.partial(_summarise, config=config)
        for n, top, seen in map_shards(summarise, counts, shards.engine, "frequent words"):
            n_words += n
            frequent = most_frequent([frequent, top], config.size + _SPARE)
            characters.update(seen)
        words = choose_words(frequent, config, n_words)

        def used_by(tokenizer: Tokenizer) -> set[int]:
            spell = functools.partial(_spell_file, tokenizer=tokenizer)
            return set[int]().union(*map_shards(spell, counts, shards.engine, "used pieces"))

        vocabulary = words["text"].to_pylist()
        chosen = choose_pieces(
            vocabulary,
            pieces,
            _in_order(characters),
            used_by,
            config=config,
            normalization=normalization,
        )
        tokenizer = build_tokenizer(vocabulary, chosen, normalization)
        return {"distinct_words": n_words, **leave_vocabulary(folder, words, tokenizer, teacher)}


def _summarise(file: Path, config: VocabularyConfig) -> tuple[int, pa.Table, list[str]]:
    """Count a file's words; find the V most frequent and a few more, and `single_characters`."""
    counts = read_arrow(file)
    characters = single_characters(counts["text"].to_pylist())
    return len(counts), _eligible(counts, config, config.size + _SPARE), characters


def _spell_file(counts: Path, tokenizer: Tokenizer) -> set[int]:
    return tokens_of(tokenizer, read_arrow(counts)["text"])


def most_frequent(counts: Iterable[pa.Table], size: int) -> pa.Table:
    """Choose at most `size` words, the most frequent first, ties in alphabetical order."""
    order = [("count", "descending"), ("text", "ascending")]
    return pa.concat_tables(counts).sort_by(order)[:size]


def _eligible(counts: pa.Table, config: VocabularyConfig, size: int) -> pa.Table:
    """Choose the most frequent words of enough occurrences that the student can have."""
    counts = counts.filter(counts["count"].to_numpy() >= config.min_count)
    fits = [
        len(word) <= MAX_WORD_CHARACTERS and not is_punctuation(word)
        for word in counts["text"].to_pylist()
    ]
    return most_frequent([counts.filter(pa.array(fits, pa.bool_()))], size)


def choose_words(
    counts: pa.Table, config: VocabularyConfig, n_words: int | None = None
) -> pa.Table:
    """Keep the V `most_frequent` words of at least `min_count` occurrences, without those of
    punctuation only, whose rows are zero, and those too long for the tokenizer."""
    words = _eligible(counts, config, config.size)
    if len(words) < config.size:
        lower = f"Set vocabulary.size to at most {len(words)}, lower" if len(words) else "Lower"
        raise ValueError(
            f"vocabulary.size is {config.size}, but the corpus offers only {len(words)} words that "
            f"occur at least {config.min_count} times, of {n_words or len(counts)}. {lower} "
            "vocabulary.min_count, or give more text; what is already computed stays."
        )
    return words


def teacher_pieces(teacher: Tokenizer, normalization: Normalization = ENGLISH) -> dict[str, int]:
    """Map the teacher's tokens, spelled as the student would, to their smallest ids; leave out
    special tokens, punctuation, and what the student would split."""
    description = json.loads(teacher.to_str())
    kind = description["model"]["type"]
    byte_level = kind == "BPE" and '"ByteLevel"' in teacher.to_str()
    special = {token["id"] for token in description["added_tokens"]}
    student = build_tokenizer([], normalization=normalization)
    decoder = ByteLevel()
    pieces: dict[str, int] = {}
    for token, index in sorted(teacher.get_vocab().items(), key=lambda item: item[1]):
        if index in special:
            continue
        if kind == "WordPiece":
            prefix = description["model"]["continuing_subword_prefix"]
            begins, text = not token.startswith(prefix), token.removeprefix(prefix)
        else:
            text = decoder.decode([token]) if byte_level else token.replace(WORD_BEGIN, " ")
            begins, text = text.startswith(" "), text.strip(" ")
        words = split_words(student, text)
        if len(words) == 1 and not is_punctuation(words[0]):
            pieces.setdefault(words[0] if begins else CONTINUATION + words[0], index)
    return pieces


def single_characters(words: Iterable[str]) -> list[str]:
    """List every character of words, without which a word would become [UNK]: `c`, then `##c`."""
    first, inner = set[str](), set[str]()
    for word in words:
        first.add(word[0])
        inner.update(word[1:])
    beginnings = {c for c in first | inner if not is_punctuation(c)}
    return _in_order(beginnings | {CONTINUATION + c for c in inner & beginnings})


def _in_order(characters: set[str]) -> list[str]:
    return sorted(characters, key=lambda c: (c.startswith(CONTINUATION), c))


def choose_pieces(
    words: Sequence[str],
    pieces: Iterable[str],
    characters: Sequence[str],
    used_by: Callable[[Tokenizer], set[int]],
    *,
    config: VocabularyConfig,
    normalization: Normalization = ENGLISH,
) -> list[str]:
    """Choose the teacher's pieces, then the characters, that spell words outside the vocabulary;
    characters spell each piece that is left out, so no word that all can spell becomes [UNK].
    `used_by` finds the tokens that a tokenizer spells the corpus's words with."""
    pieces = list(pieces)
    if config.pieces == "all":
        return [*pieces, *characters]
    characters = list(dict.fromkeys([*characters, *(c for p in pieces for c in _spell_out(p))]))
    if config.pieces == "none":
        return characters
    tokenizer = build_tokenizer(words, [*pieces, *characters], normalization)
    used = used_by(tokenizer)
    return [*(p for p in pieces if tokenizer.token_to_id(p) in used), *characters]


def _spell_out(piece: str) -> list[str]:
    """Spell a piece by single characters: `##ed` as `##e` and `##d`, `un` as `u` and `##n`."""
    text = piece.removeprefix(CONTINUATION)
    spelled = [CONTINUATION + character for character in text]
    return spelled if piece.startswith(CONTINUATION) else [text[0], *spelled[1:]]


def tokens_of(tokenizer: Tokenizer, words: pa.ChunkedArray) -> set[int]:
    """Find the ids with which a tokenizer spells words."""
    ids_of, used = FastTokenizer(tokenizer), set[int]()
    for start in range(0, len(words), ROWS_AT_A_TIME):
        part = words.slice(start, ROWS_AT_A_TIME).combine_chunks()
        used.update(np.unique(ids_of(part).values).tolist())
    return used


def leave_vocabulary(
    folder: Path, words: pa.Table, student: Tokenizer, teacher: Tokenizer
) -> Figures:
    """Write the vocabulary, and the tokenizers of student and teacher; count words and tokens."""
    write_arrow(folder / WORDS_FILE, words)
    student.save(str(folder / TOKENIZER_FILE))
    teacher.save(str(folder / TEACHER_TOKENIZER_FILE))
    smallest = words["count"][-1].as_py()
    n_tokens = student.get_vocab_size()
    return {"words": len(words), "smallest_count": smallest, "tokens": n_tokens}
