"""Learn a vocabulary of pieces: a Unigram model of a sample of the corpus."""

from __future__ import annotations

import functools
import json
import logging
import math
import operator
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus.shards import Shard, Shards
from st_static.distill.corpus.vocabulary import leave_vocabulary, most_frequent
from st_static.distill.corpus.word_counts import COUNTS_SCHEMA, counted_words
from st_static.distill.engines import map_shards
from st_static.distill.stages import Figures, digest, duration
from st_static.files import read_arrow
from st_static.model.scripts import UNSPACED_CHARACTERS
from st_static.model.tokenizer import (
    SPECIAL_TOKENS,
    WORD_BEGIN,
    Normalization,
    build_piece_tokenizer,
    is_punctuation,
    split_before_pieces,
)
from st_static.tokens.fast_tokenizer import FastTokenizer

logger = logging.getLogger(__name__)

# Size of the sample, for each piece: more text hardly changes the pieces, but the trainer's time is
# proportional to it.
_CHARACTERS_PER_PIECE = 100
_FEWEST_CHARACTERS = 1_000_000
_LONGEST_PIECE = 16
# Pieces end where a Japanese word usually does, and never join a number to the counted thing.
_BORDERS = [Regex(r"(?<=\p{Hiragana})(?=[^\p{Hiragana}\p{M}])"), Regex(r"\p{Nd}+")]
# Letters of scripts with spaces between words: ▁ tells words that begin with them from the rest.
_LETTER = rf"[^\P{{L}}{UNSPACED_CHARACTERS}]"
_SPACED = f"^{WORD_BEGIN}{_LETTER}"
# Not a whole clause that begins with a word, as `AIが進化する`.
_SPACED_WORD = f"{_SPACED}[^{UNSPACED_CHARACTERS}]*$"


def learn_pieces(
    folder: Path, shards: Shards, config: VocabularyConfig, normalization: Normalization
) -> dict[str, float]:
    """Learn pieces and frequent words of a corpus, with the logarithms of their probabilities."""
    n_characters = max(_FEWEST_CHARACTERS, _CHARACTERS_PER_PIECE * config.size)
    sample, share = sample_texts(shards, n_characters)
    sample_size = f"{len(sample):,} sentences"
    logger.info("vocabulary: learning pieces from %s, which may take minutes", sample_size)
    start, texts = time.perf_counter(), sample.to_pylist()
    pieces = train_pieces(texts, config.size, normalization)
    seconds = duration(time.perf_counter() - start)
    logger.info("vocabulary: %s pieces learnt in %s", f"{len(pieces):,}", seconds)
    ids_of = FastTokenizer(build_piece_tokenizer(list(pieces.items()), normalization))
    words = frequent_words(folder, shards, config, normalization)
    return add_words(pieces, words, len(ids_of(texts).values) / share)


def write_piece_vocabulary(
    folder: Path,
    shards: Shards,
    teacher: Tokenizer,
    pieces: Mapping[str, float],
    *,
    config: VocabularyConfig,
    normalization: Normalization,
) -> Figures:
    """Run the stage: keep the pieces that the corpus uses; make the student's tokenizer of them."""
    tokenizer = build_piece_tokenizer(list(pieces.items()), normalization)
    counts = count_pieces(folder, shards, tokenizer)[len(SPECIAL_TOKENS) :]
    words = choose_used(pieces, counts, config)
    scored = [(piece, pieces[piece]) for piece in words["text"].to_pylist()]
    student = build_piece_tokenizer(scored, normalization)
    return {"learnt_pieces": len(pieces), **leave_vocabulary(folder, words, student, teacher)}


def sample_texts(shards: Shards, n_characters: int) -> tuple[pa.ChunkedArray, float]:
    """Draw the sentences with the smallest keys, up to `n_characters`; also return their share."""
    total = sum(shards.map(_count_characters, "characters"))
    # Keys are hashes, so the sampled sentences are about as long as the others.
    n_sentences = 1.1 * min(1.0, n_characters / max(total, 1)) * shards.n_sentences + 100
    while True:
        _, numbers = shards.smallest(math.ceil(n_sentences), np.positive, "sample")
        texts = shards.read(numbers, "sample")["text"]
        ends = np.cumsum(pc.utf8_length(texts).to_numpy())
        n = int(np.searchsorted(ends, n_characters, side="right"))
        if n < len(texts) or len(texts) == shards.n_sentences:
            return texts[:n], float(ends[n - 1] / total) if n else 0.0
        n_sentences *= 2


def _count_characters(shard: Shard) -> int:
    return pc.sum(pc.utf8_length(shard.read()["text"])).as_py() or 0


def train_pieces(texts: Iterable[str], size: int, normalization: Normalization) -> dict[str, float]:
    """Learn at most `size` pieces of texts, with the logarithms of their probabilities."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalization.normalizer_of_pieces()
    # After ▁ is set, as in encoding: a piece gets none for standing at such a border.
    borders = [pre_tokenizers.Split(border, "isolated") for border in _BORDERS]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split_before_pieces(), *borders])
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        unk_token=SPECIAL_TOKENS[1],
        max_piece_length=_LONGEST_PIECE,
        show_progress=sys.stderr.isatty(),  # in a log, its bars would be empty lines
    )
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except Exception as error:  # the trainer raises no subclass
        raise ValueError(
            f"No {size} pieces can be learnt from the corpus ({error}). Raise vocabulary.size "
            "above the number of different characters."
        ) from error
    learnt = json.loads(tokenizer.to_str())["model"]["vocab"]
    pieces = {piece: score for piece, score in learnt if piece not in SPECIAL_TOKENS}
    # The trainer gives characters that it has not learnt scores in steps of 0.0001 from the lowest
    # on, in random order. Put them in alphabetical order.
    low = min(pieces.values())
    steps = {piece: (pieces[piece] - low) * 10_000 for piece in pieces if len(piece) == 1}
    unlearnt = sorted(piece for piece, step in steps.items() if abs(step - round(step)) < 1e-4)
    scores = sorted(pieces[piece] for piece in unlearnt)
    return merge_spellings((pieces | dict(zip(unlearnt, scores, strict=True))).items())


def frequent_words(
    folder: Path, shards: Shards, config: VocabularyConfig, normalization: Normalization
) -> dict[str, int]:
    """Count words of spaced scripts, marked by `▁`: the trainer looks for strings that words
    share, and misses words that are part of no other."""
    words = COUNTS_SCHEMA.empty_table()
    with counted_words(shards, folder, normalization, _LETTER) as counts:
        find = functools.partial(_frequent_words, config=config)
        for part in map_shards(find, counts, shards.engine, "frequent words"):
            words = most_frequent([words, part], config.size)
    return dict(zip(words["text"].to_pylist(), words["count"].to_pylist(), strict=True))


def _frequent_words(file: Path, config: VocabularyConfig) -> pa.Table:
    counts = read_arrow(file)
    counts = counts.filter(counts["count"].to_numpy() >= config.min_count)
    marked = [WORD_BEGIN + word for word in counts["text"].to_pylist()]
    counts = counts.set_column(0, "text", pa.array(marked, pa.string()))
    spaced = pc.match_substring_regex(counts["text"], _SPACED_WORD)
    return most_frequent([counts.filter(spaced)], config.size)


def add_words(
    pieces: Mapping[str, float], words: Mapping[str, int], n_tokens: float
) -> dict[str, float]:
    """Add counted words, as logarithms of their shares in `n_tokens` tokens, to learnt pieces."""
    scores = {word: math.log(count / n_tokens) for word, count in words.items()}
    return {**scores, **pieces}


def merge_spellings(pieces: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Keep `▁` only in words of spaced scripts; drop punctuation, whose rows would be zero."""
    merged: dict[str, float] = {}
    texts, scores = zip(*pieces, strict=True)
    keeps_mark = pc.match_substring_regex(pa.array(texts), _SPACED).to_pylist()
    for text, score, marked in zip(texts, scores, keeps_mark, strict=True):
        text = text if marked else text.removeprefix(WORD_BEGIN)
        if text and not is_punctuation(text):
            # Probabilities of two spellings of one piece add up.
            merged[text] = float(np.logaddexp(merged.get(text, -math.inf), score))
    return merged


def count_pieces(folder: Path, shards: Shards, tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Count the occurrences of each token in the corpus, [V]."""
    # With the digest in its name, since workers cache tokenizers by file name.
    file = folder / f"learnt-{digest(tokenizer.to_str())}.json"
    tokenizer.save(str(file))
    count = functools.partial(_count_shard, tokenizer=file)
    total = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    n_sentences = operator.itemgetter(1)
    for counts, _ in map_shards(
        count, shards.files, shards.engine, "piece counts", sentences=n_sentences
    ):
        total += counts
    file.unlink()
    return total


def _count_shard(shard: Path, tokenizer: Path) -> tuple[NDArray[np.int64], int]:
    """Count the occurrences of each token in a shard, and its sentences."""
    ids_of, texts = _load(tokenizer), read_arrow(shard)["text"].combine_chunks()
    counts = np.bincount(ids_of(texts).values, minlength=ids_of.tokenizer.get_vocab_size())
    return counts, len(texts)


@functools.lru_cache(maxsize=1)
def _load(tokenizer: Path) -> FastTokenizer:
    return FastTokenizer(Tokenizer.from_file(str(tokenizer)))


def choose_used(
    learnt: Mapping[str, float], counts: NDArray[np.int64], config: VocabularyConfig
) -> pa.Table:
    """Keep all characters, and the V most frequent of the pieces that occur often enough."""
    table = pa.table({"text": pa.array(learnt, pa.string()), "count": pa.array(counts)})
    table = most_frequent([table], len(table))
    frequent = table["count"].to_numpy() >= config.min_count
    single = pc.less_equal(pc.utf8_length(table["text"]), 1).to_numpy()
    keep = single | (frequent & (np.cumsum(frequent) <= config.size))
    used = table.filter(pa.array(keep))
    if not len(used):
        raise ValueError("The corpus offers no pieces of letters. Check corpus.* and sentences.*.")
    return used
