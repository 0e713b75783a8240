"""Token ids of Unigram tokenizers: each distinct part of a word is split into pieces once.

Texts are cut where that is exact (`unigram_cuts`), each distinct part is split by the search of
`unigram_viterbi`, and its ids are copied to every place where it stands.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.texts import arrow
from st_static.tokens.boundaries import Part, flat
from st_static.tokens.panics import encode_batch
from st_static.tokens.ragged import Ragged, concatenate, interleave, offsets_of, ragged_of
from st_static.tokens.unigram_cuts import UnigramCuts
from st_static.tokens.unigram_viterbi import UnigramViterbi

# With fewer parts the library is as fast, and with longer ones its model is: the search takes a
# step for each character of the longest part.
_FEWEST = 64
_LONGEST = 40
# To cut fewer bytes takes longer than the tokenizer itself.
_FEW_BYTES = 4_000


class UnigramTokenizer:
    """Encodes texts as one tokenizer does; it may be used by several threads at a time."""

    def __init__(self, tokenizer: Tokenizer, description: Part, cuts: UnigramCuts) -> None:
        model = description["model"]
        self._tokenizer, self._cuts = tokenizer, cuts
        self.splits_punctuation = cuts.splits_punctuation
        self._added = [token["content"] for token in description["added_tokens"]]
        self._viterbi = UnigramViterbi(model["vocab"], model["unk_id"])
        *others, metaspace = flat(description["pre_tokenizer"], "pretokenizers")
        self._mark = np.uint32(ord(metaspace["replacement"]))
        self._marks_words = bool(others) and metaspace.get("prepend_scheme") == "always"

    def encode(self, texts: pa.Array) -> Ragged:
        """The ids of texts [B], of few or many bytes, [B rows]."""
        texts = texts.cast(pa.large_string())
        if texts.nbytes > self._cuts.longest or texts.nbytes < _FEW_BYTES:
            return encode_batch(self._tokenizer, texts.to_pylist())
        has_added = arrow.contain_any(texts, self._added)
        if not has_added.any():
            return self._encode_cut(texts)
        without = self._encode_cut(texts.filter(arrow.of_mask(~has_added)))
        whole = texts.filter(arrow.of_mask(has_added)).to_pylist()
        return interleave(has_added, [without, encode_batch(self._tokenizer, whole)])

    def _encode_cut(self, texts: pa.Array) -> Ragged:
        """The ids of texts without added tokens."""
        parts, inside, offsets = self._cuts.cut(texts)
        words = parts.filter(arrow.of_mask(~inside)).dictionary_encode()
        insides = parts.filter(arrow.of_mask(inside)).dictionary_encode()
        n_words = len(words.dictionary)
        which = np.empty(len(parts), np.int64)
        which[~inside] = arrow.numbers(words.indices)
        which[inside] = arrow.numbers(insides.indices) + np.int64(n_words)
        distinct = pa.concat_arrays([words.dictionary, insides.dictionary])
        ids = self._encode_parts(distinct, np.arange(len(distinct)) >= n_words).take(which)
        return Ragged(ids.values, ids.offsets[offsets])

    def _encode_parts(self, parts: pa.Array, inside: NDArray[np.bool_]) -> Ragged:
        """The ids of distinct parts [P], which begin words or are inside of them."""
        left, ids = self._search(parts, inside)
        if not left.any():
            return ids
        words = parts.filter(arrow.of_mask(left & ~inside)).to_pylist()
        insides = parts.filter(arrow.of_mask(left & inside)).to_pylist()
        groups = [encode_batch(self._tokenizer, words), self._encode_inside(insides)]
        return interleave(left, [ids, concatenate(groups)])

    def _search(
        self, parts: pa.Array, inside: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], Ragged]:
        """The parts [P] that are left to the library, and the ids of the others, [others rows]."""
        offsets, data = arrow.bytes_of_strings(parts)
        lengths = np.diff(offsets_of(arrow.begin_characters(data))[offsets])
        points, is_word = self._cuts.normalised(arrow.code_points(data))
        odd = (points == 0) | (is_word & (np.repeat(lengths, lengths) > 1))
        left = np.logical_or.reduceat(odd, offsets_of(lengths)[:-1]) | (lengths >= _LONGEST)
        if not self._marks_words:
            left |= ~inside
        if len(left) - np.count_nonzero(left) < _FEWEST:
            left[:] = True
        kept = np.flatnonzero(~left)
        points, lengths, marked = points[np.repeat(~left, lengths)], lengths[kept], ~inside[kept]
        points = np.insert(points, offsets_of(lengths)[:-1][marked], self._mark)
        ids, unsure = self._viterbi.encode(points, lengths + marked)
        left[kept[unsure]] = True
        return left, ids.take(np.flatnonzero(~unsure)) if unsure.any() else ids

    def _encode_inside(self, parts: list[str]) -> Ragged:
        """The ids of parts [n] that begin inside of a word, and do not go beyond it."""
        text = " ".join(parts)
        if self._tokenizer.normalizer is not None:
            text = self._tokenizer.normalizer.normalize_str(text)
        words = text.split(" ") if parts else []
        model = self._tokenizer.model
        return ragged_of([[token.id for token in model.tokenize(word)] for word in words])
