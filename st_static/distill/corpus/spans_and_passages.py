"""Draw spans and passages: a student of sentences alone follows the teacher less well on queries
and paragraphs. Hashes of sentences decide, not a seed; for passages, also the corpus's order."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from st_static.distill.config import SelectionConfig
from st_static.distill.corpus.sentences import sentence_key
from st_static.distill.corpus.shards import Shard, Shards
from st_static.languages import has_spaces
from st_static.model.scripts import count_words, has_unspaced
from st_static.model.tokenizer import has_pieces

logger = logging.getLogger(__name__)

# Fewest and most words.
SPAN_WORDS, PASSAGE_WORDS = (1, 5), (40, 220)

# Draw three times as many passages as needed: some reach the end of a shard, hold a held-out
# sentence, or are longer than the teacher reads.
_DRAWS = 3
_ODD = np.uint64(0x9E3779B97F4A7C15)


class PassagePlan(NamedTuple):
    """The runs of neighbouring sentences that count as passages."""

    words: Sequence[int]  # fewest and most, as `count_words` counts them
    held_out_from: np.uint64  # sentences with this key or a larger one are held out
    languages: Sequence[str]  # tags; without any, the corpus is English
    # Tells which passages the teacher reads to their end; picklable.
    are_read_whole: Callable[[pa.Array], NDArray[np.bool_]] | None = None


def draw_spans_and_passages(
    config: SelectionConfig,
    shards: Shards,
    *,
    selected: pa.ChunkedArray,
    tokenizer: Tokenizer,
    plan: PassagePlan,
) -> dict[str, list[str]]:
    """Draw the spans and passages of a recipe; warn if few."""
    kinds = {
        "spans": "different ones in as many sentences",
        "passages": "of {} to {} words that the teacher reads to their end".format(*PASSAGE_WORDS),
    }
    wanted = {name: round(getattr(config, name) * len(selected)) for name in kinds}
    texts: dict[str, list[str]] = {name: [] for name in kinds}
    if n := wanted["spans"]:
        texts["spans"] = draw_spans(selected.to_pylist(), n, SPAN_WORDS, tokenizer)
    if n := wanted["passages"]:
        texts["passages"] = choose(draw_passages(shards, n, plan), n)
    for name, kind in kinds.items():
        # Not for a few: they are always missing.
        if 2 * len(texts[name]) < wanted[name]:
            shortage = f"{wanted[name]:,}, but there are only {len(texts[name]):,} {kind}"
            remedy = "Give more text, or change the option."
            logger.warning("selection.%s asks for %s. %s", name, shortage, remedy)
    return texts


def draw_spans(
    texts: Sequence[str], n: int, words: Sequence[int], tokenizer: Tokenizer
) -> list[str]:
    """Draw runs of `words[0]` to `words[1]` words, one from each of n texts, all different."""
    chosen = choose(texts, n)
    pieces = has_pieces(tokenizer)
    encodings = tokenizer.encode_batch(chosen, add_special_tokens=False)
    pairs = zip(chosen, encodings, strict=True)
    spans = (_span(text, encoding, pieces, words) for text, encoding in pairs)
    return list(dict.fromkeys(filter(None, spans)))


def choose(texts: Iterable[str], n: int) -> list[str]:
    """Draw a random sample of texts, at most n, by their hashes."""
    return sorted(texts, key=_hash)[:n]


def _span(text: str, encoding: Encoding, pieces: bool, words: Sequence[int]) -> str:
    """Draw a run of words from a text; empty if it has none."""
    ids, offsets = encoding.word_ids, encoding.offsets
    # In scripts without spaces, each piece is a word.
    alone = has_unspaced(pa.array(encoding.tokens, pa.string())) & pieces
    starts = [i for i, word in enumerate(ids) if not i or alone[i] or word != ids[i - 1]]
    if not starts:
        return ""
    rng = np.random.default_rng(sentence_key(text))
    length = min(int(rng.integers(words[0], words[1], endpoint=True)), len(starts))
    first = int(rng.integers(len(starts) - length, endpoint=True))
    stops = [*starts[1:], len(offsets)]
    return text[offsets[starts[first]][0] : offsets[stops[first + length - 1] - 1][1]].strip()


def draw_passages(shards: Shards, n: int, plan: PassagePlan) -> list[str]:
    """Draw runs of neighbouring sentences: more than n if possible, for `choose` to take n."""
    if not shards.n_sentences:
        return []
    _, numbers = shards.smallest(_DRAWS * n, _rehash, "passages")
    draw = functools.partial(_passages_of_shard, plan=plan)
    return list(chain.from_iterable(shards.map(draw, "passages", np.sort(numbers))))


def _passages_of_shard(shard: Shard, plan: PassagePlan) -> list[str]:
    """Make the passages that begin with the given sentences of a shard."""
    table = shard.read()
    texts, keys = table["text"].combine_chunks(), table["key"].to_numpy()
    counts = count_words(texts, plan.languages)
    between = " " if not plan.languages or any(map(has_spaces, plan.languages)) else ""
    passages = []
    for first in shard.rows.tolist():
        run = slice(first, first + plan.words[1])
        # Sentences up to a random number of words, without one that exceeds the maximum.
        least, most = plan.words
        goal = int(np.random.default_rng(int(keys[first])).integers(least, most, endpoint=True))
        ends = np.cumsum(counts[run])
        n = int(np.searchsorted(ends, goal)) + 1
        if n > len(ends) or ends[n - 1] > most:
            n -= 1
        if n and ends[n - 1] >= least and (keys[run][:n] < plan.held_out_from).all():
            passages.append(between.join(texts[run][:n].to_pylist()))
    if plan.are_read_whole is None or not passages:
        return passages
    return list(compress(passages, plan.are_read_whole(pa.array(passages, pa.string()))))


def _hash(text: str) -> int:
    # Not the key, which decides on held-out sentences and candidates.
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed=1)


def _rehash(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash keys [S] once more, by a product with an odd number, which keeps them apart."""
    with np.errstate(over="ignore"):
        mixed: NDArray[np.uint64] = keys * _ODD
    return mixed
