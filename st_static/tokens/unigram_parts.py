"""Token ids of the chunks that `UnigramCuts` makes, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.tokens.boundaries import Part, flat
from st_static.tokens.ragged import Ragged, interleave, offsets_of
from st_static.tokens.unigram_cuts import UnigramCuts, unigram_cuts
from st_static.tokens.unigram_viterbi import UnigramViterbi

# The library is as fast with fewer chunks, and its model with longer ones: steps of the search are
# as many as the longest has characters, however few are so long.
_FEWEST = 64
_LONGEST = 40
_INSIDE = ord("1")


def unigram_parts(tokenizer: Tokenizer, description: Part) -> UnigramParts | None:
    """What encodes parts of words for a tokenizer, None if its texts are not cut inside of words.

    Args:
        tokenizer: The tokenizer.
        description: The parsed content of its tokenizer.json.
    """
    cuts = unigram_cuts(tokenizer, description)
    return None if cuts is None else UnigramParts(tokenizer, description, cuts)


class UnigramParts:
    """Encodes chunks for one tokenizer.

    Args:
        tokenizer: The tokenizer.
        description: The parsed content of its tokenizer.json.
        cuts: What cuts its texts.

    Attributes:
        cuts: The same.
    """

    def __init__(self, tokenizer: Tokenizer, description: Part, cuts: UnigramCuts) -> None:
        model = description["model"]
        self._model, self._normalizer, self.cuts = tokenizer.model, tokenizer.normalizer, cuts
        self._viterbi = UnigramViterbi(model["vocab"], model["unk_id"])
        *others, metaspace = flat(description["pre_tokenizer"], "pretokenizers")
        self._mark = np.uint32(ord(metaspace["replacement"]))
        self._marks_words = bool(others) and metaspace.get("prepend_scheme") == "always"

    def encode(self, chunks: list[str], encode_words: Callable[[list[str]], Ragged]) -> Ragged:
        """The ids of chunks [n], those inside of words after "1", others after "0".

        Args:
            chunks: The chunks, of texts without added tokens.
            encode_words: The tokenizer itself, for chunks that are not inside.
        """
        points = "".join(chunks).encode("utf-32-le")
        characters = np.frombuffer(points, np.uint32)
        lengths = np.fromiter(map(len, chunks), np.int64, len(chunks))
        inside = characters[offsets_of(lengths)[:-1]] == _INSIDE
        left, ids = self._search(characters, lengths, inside)
        if not left.any():
            return ids
        words = [chunks[i][1:] for i in np.flatnonzero(left & ~inside)]
        parts = [chunks[i][1:] for i in np.flatnonzero(left & inside)]
        others = interleave(inside[left], [encode_words(words), self._encode_inside(parts)])
        return interleave(left, [ids, others])

    def _search(
        self,
        characters: NDArray[np.uint32],
        lengths: NDArray[np.int64],
        inside: NDArray[np.bool_],
    ) -> tuple[NDArray[np.bool_], Ragged]:
        """Which chunks [n] are left to the library, and the ids of the others, [others rows]."""
        firsts = offsets_of(lengths)[:-1]
        points, is_word = self.cuts.normalised(characters)
        points[firsts] = self._mark
        is_word[firsts] = False
        odd = (points == 0) | (is_word & (np.repeat(lengths, lengths) > 2))
        left = np.logical_or.reduceat(odd, firsts) | (lengths > _LONGEST)
        if not self._marks_words:
            left |= ~inside
        if len(lengths) - np.count_nonzero(left) < _FEWEST:
            left[:] = True
        kept = np.repeat(~left, lengths)
        kept[firsts[inside]] = False
        ids, unsure = self._viterbi.encode(points[kept], (lengths - inside)[~left])
        left[np.flatnonzero(~left)[unsure]] = True
        return left, ids.take(np.flatnonzero(~unsure)) if unsure.any() else ids

    def _encode_inside(self, parts: list[str]) -> Ragged:
        """The ids of parts [n] that begin inside of a word, and do not go beyond it."""
        text = " ".join(parts)
        if self._normalizer is not None:
            text = self._normalizer.normalize_str(text)
        words = text.split(" ") if parts else []
        rows = [[token.id for token in self._model.tokenize(word)] for word in words]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return Ragged(np.fromiter(chain.from_iterable(rows), np.int32), offsets_of(lengths))
