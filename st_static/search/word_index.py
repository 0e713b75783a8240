"""Score texts with BM25, by the words that they share with a query."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.model.scripts import UNSPACED_CHARACTER
from st_static.texts import arrow
from st_static.threads import forks_wait
from st_static.tokens.ragged import offsets_of

# The parameters of BM25 (Robertson and Zaragoza, 2009) that bm25s takes by default: how soon
# further occurrences of a word stop counting, and how much a text's length counts.
_K1 = 1.5
_B = 0.75
_MANY = 1_000  # words from which it is faster to look up all at a time, also in large indexes
# What shows nothing: the property Default_Ignorable_Code_Point, which Arrow does not know.
_INVISIBLE = (
    r"[\x{AD}\x{34F}\x{61C}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{200B}-\x{200F}"
    r"\x{202A}-\x{202E}\x{2060}-\x{206F}\x{3164}\x{FE00}-\x{FE0F}\x{FEFF}\x{FFA0}\x{FFF0}-\x{FFF8}"
    r"\x{1BCA0}-\x{1BCA3}\x{1D173}-\x{1D17A}\x{E0000}-\x{E0FFF}]+"
)
# Case folding beyond lower case, for decomposed text: all characters that need it, and the dot of
# İ, which does not show on i.
_FOLDED = {c: c.casefold() for c in ["ß", "ς", "\u0345", *map(chr, range(0x1C80, 0x1C89))]}
_FOLDED["i\u0307"] = "i"
# What stands between words; marks without a letter or digit before them belong to it.
_NO_WORD = r"(?:^|[^\pL\pM\pN])[^\pL\pN]*"
# Lower-cases the letters of ASCII, and makes a space of all that is neither letter nor digit.
_ASCII = bytes(
    byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else ord(" ")
    for byte in range(256)
)

Stemmer = Literal["english"]
"""A stemmer of Snowball's, by name."""
SplitTexts = tuple[pa.DictionaryArray, NDArray[np.int32]]
"""The words of some texts, one after the other, and how many each has, [B]."""


def split_texts(texts: pa.LargeStringArray) -> SplitTexts:
    """Split texts [B] into words: runs of letters and digits, folded as `_folded` does. In scripts
    without spaces, such as Han, all pairs of neighbouring characters are words, as in other search
    engines."""
    others = pc.invert(pc.string_is_ascii(texts))
    if pc.any(others).as_py():  # regular expressions take ten times as long
        spaced = pc.replace_substring_regex(_folded(texts.filter(others)), _NO_WORD, " ")
        texts = pc.replace_with_mask(texts, others, _pairs_spaced(spaced))
    offsets, data = arrow.bytes_of_strings(texts)
    data = np.frombuffer(data.tobytes().translate(_ASCII), np.uint8)
    spaced = pc.ascii_trim_whitespace(arrow.strings_of_bytes(offsets, data))
    lists = pc.ascii_split_whitespace(spaced)
    counts = np.diff(arrow.numbers(lists.offsets)).astype(np.int32)
    empty = arrow.scalar("")
    counts[arrow.mask(pc.equal(spaced, empty))] = 0  # which are split into one empty word
    words = lists.flatten()
    return words.filter(pc.not_equal(words, empty)).dictionary_encode(), counts


def words_of_each(texts: Sequence[str], stemmer: Stemmer | None = None) -> list[list[str]]:
    """List the words of each text [B], as `split_texts` splits and folds them, or their stems."""
    words, counts = split_texts(arrow.strings(texts))
    following = iter(stems_of(words.dictionary, stemmer).take(words.indices).to_pylist())
    return [list(itertools.islice(following, n)) for n in counts.tolist()]


def stemmer_for(languages: Sequence[str]) -> Stemmer | None:
    """Choose the stemmer for a model's languages: that of English for English alone, else none."""
    return "english" if list(languages) == ["en"] else None


def stems_of(words: pa.LargeStringArray, stemmer: Stemmer | None) -> pa.LargeStringArray:
    """Reduce folded words [W] to their stems, if there is a stemmer; words with digits stay, as
    codes have no inflected forms."""
    if stemmer is None:
        return words
    from Stemmer import Stemmer as Snowball

    # Made anew, as threads must not share one; it takes a microsecond. No word comes twice.
    whole = words.to_pylist()
    pairs = zip(whole, Snowball(stemmer, 0).stemWords(whole), strict=True)
    return arrow.strings([stem if word.isalpha() else word for word, stem in pairs])


def _folded(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Fold forms of a character, such as cases and widths, and drop invisible characters.

    Two texts [B] become equal if Unicode's NFKC_Casefold makes them equal, and İ is i. Zero-width
    spaces are dropped, too: models' tokenizers do so, and in scripts without spaces, where they may
    stand between words, the same words are then found whether a writer put them or not.
    """
    texts = pc.replace_substring_regex(texts, _INVISIBLE, "")
    lower = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKD"))
    if pc.any(pc.match_substring_regex(lower, "|".join(_FOLDED))).as_py():
        for character, folded in _FOLDED.items():
            lower = pc.replace_substring(lower, character, folded)
    return pc.utf8_normalize(lower, form="NFC")


def _pairs_spaced(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Put spaces between the words of texts [B]: in scripts without spaces, pairs of characters,
    and the last character of a run, so that a single one is a word."""
    has_unspaced = pc.match_substring_regex(texts, UNSPACED_CHARACTER)
    if not pc.any(has_unspaced).as_py():
        return texts
    unspaced = texts.filter(has_unspaced)
    # Each run after a line break, which becomes a space later; then runs alone, less their firsts.
    marked = pc.replace_substring_regex(unspaced, rf"((?:{UNSPACED_CHARACTER})+)", " \n\\1 ")
    runs = pc.replace_substring_regex(marked, r"( |^)[^ \n][^ ]*", " ")
    tails = pc.replace_substring_regex(runs, rf"\n{UNSPACED_CHARACTER}", " ")
    halves = [
        pc.replace_substring_regex(half, rf"({UNSPACED_CHARACTER}{UNSPACED_CHARACTER})", r"\1 ")
        for half in (marked, tails)
    ]
    joined = pc.binary_join_element_wise(*halves, arrow.scalar(" "))
    return pc.replace_with_mask(texts, has_unspaced, joined)


class QueryWords(NamedTuple):
    """The words of a query that texts have, in the query's order."""

    texts: dict[str, slice]  # where the index has each word's texts
    times: list[int]  # how often the query has it
    complete: float  # the score of a text of average length with all the query's words


@dataclass(frozen=True)
class WordIndex:
    """The weights of N texts' words in BM25, by word."""

    words: pa.LargeStringArray  # in the order of their code points, [W]
    starts: NDArray[np.int64]  # where each word's texts begin, [W + 1]
    texts: NDArray[np.int32]  # the texts of each word, in ascending order, [P]
    weights: NDArray[np.float32]  # what the word adds to the text's score, [P]
    n_texts: int
    stemmer: Stemmer | None = None  # then the words are stems

    @classmethod
    def of(cls, split: Sequence[SplitTexts], stemmer: Stemmer | None = None) -> WordIndex:
        """Index the words of texts, given in parts, or their stems."""
        with forks_wait:  # here, as an index that is only opened does without
            from scipy.sparse import csr_array

        counts = np.concatenate([counts for _, counts in split])
        chunks = pa.chunked_array([words for words, _ in split]).unify_dictionaries().chunks
        stems = stems_of(chunks[0].dictionary, stemmer).dictionary_encode()
        words = stems.dictionary
        order = pc.sort_indices(words)
        ranks = np.empty(len(words), np.int32)  # of each word, in that order
        ranks[arrow.numbers(order)] = np.arange(len(words))
        ranks = ranks[arrow.numbers(stems.indices)]
        ids = ranks[np.concatenate([arrow.numbers(chunk.indices) for chunk in chunks])]
        times = csr_array(
            (np.ones(len(ids), np.float32), ids, offsets_of(counts)), (len(counts), len(words))
        ).tocsc()
        times.sum_duplicates()

        n_with, of_texts = np.diff(times.indptr), times.indices.astype(np.int32, copy=False)
        idf = _idf(n_with, len(counts)).astype(np.float32)
        relative = (1 - _B + _B / (counts.mean() or 1) * counts).astype(np.float32)
        weights = np.repeat(idf, n_with) * times.data
        weights /= times.data + _K1 * relative[of_texts]
        starts = times.indptr.astype(np.int64)
        ordered = words.take(order)
        return cls(ordered, starts, of_texts, weights, n_texts=len(counts), stemmer=stemmer)

    def look_up(self, query: str) -> QueryWords:
        """Find the words of a query."""
        words, _ = split_texts(arrow.strings([query]))
        times = np.bincount(arrow.numbers(words.indices), minlength=len(words.dictionary))
        # Where two words have one stem, the texts' scores are those of its occurrences, too.
        positions = self._positions_of(stems_of(words.dictionary, self.stemmer))
        is_hit = positions >= 0
        begins, ends = (self.starts[positions[is_hit] + i] for i in (0, 1))
        n_with = np.zeros(len(positions), np.int64)
        n_with[is_hit] = ends - begins
        complete = float(times @ _idf(n_with, self.n_texts)) / (1 + _K1)
        texts = map(slice, begins.tolist(), ends.tolist())
        terms = words.dictionary.filter(arrow.of_mask(is_hit)).to_pylist()
        return QueryWords(dict(zip(terms, texts, strict=True)), times[is_hit].tolist(), complete)

    def scores(self, query: str | QueryWords) -> tuple[NDArray[np.float32], float]:
        """Score all texts, [N]; texts without a word of the query have 0. Also returns the score of
        a text of average length that has each word of the query once, even words that no text has.
        """
        query_words = self.look_up(query) if isinstance(query, str) else query
        summed = np.zeros(self.n_texts, np.float32)
        for texts, n_times in zip(query_words.texts.values(), query_words.times, strict=True):
            np.add.at(summed, self.texts[texts], self.weights[texts] * np.float32(n_times))
        return summed, query_words.complete

    def matched(self, query: QueryWords, positions: NDArray[np.int64]) -> list[list[str]]:
        """List the query's words that each text [n] has."""
        matched: list[list[str]] = [[] for _ in positions]
        wanted = positions.astype(self.texts.dtype)  # of another one, numpy would copy the texts
        for word, texts in query.texts.items():
            begins, ends = (
                np.searchsorted(self.texts[texts], wanted, side) for side in ("left", "right")
            )
            for i in np.flatnonzero(begins < ends).tolist():
                matched[i].append(word)
        return matched

    def _positions_of(self, words: pa.LargeStringArray) -> NDArray[np.int64]:
        """Find the positions of words [n] in the index; -1 for words that it lacks."""
        if len(words) > _MANY:
            indices = pc.fill_null(pc.index_in(words, self.words), -1)
            return arrow.numbers(indices).astype(np.int64)
        positions = np.full(len(words), -1, np.int64)
        for i, word in enumerate(words.to_pylist()):
            position = bisect.bisect_left(range(len(self.words)), word, key=self._word)
            if position < len(self.words) and self._word(position) == word:
                positions[i] = position
        return positions

    def _word(self, position: int) -> str:
        return str(self.words[position])


def _idf(n_with: Any, n_texts: int) -> Any:
    """Compute the inverse document frequency of words, each in `n_with` of the texts."""
    return np.log1p((n_texts - n_with + 0.5) / (n_with + 0.5))
