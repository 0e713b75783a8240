"""Build the student's tokenizer: of words, by greedy longest match, or of the likeliest pieces."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from st_static.tokens.boundaries import DOT_ABOVE_I

PADDING_TOKEN = "[PAD]"
UNKNOWN_TOKEN = "[UNK]"
CONTINUATION = "##"
WORD_BEGIN = "▁"
SPECIAL_TOKENS = (PADDING_TOKEN, UNKNOWN_TOKEN)
# Scores of pieces are multiples of 1 / 4096.
_SCORE_STEPS = 4096
# Longer words are [UNK].
MAX_WORD_CHARACTERS = 100
ASCII_PUNCTUATION = frozenset(r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""")


class Normalization(NamedTuple):
    """The changes to a text before it is split."""

    nfkc: bool = True  # forms of a character that differ in width or composition become one
    lowercase: bool = True
    strip_accents: bool = False  # combining marks go: é becomes e, and が becomes か
    dotless_i: bool = False  # the small letters of I and İ are ı and i, as in Turkish

    def normalizer_of_words(self) -> normalizers.Normalizer:
        """Make the normaliser before BERT's pre-tokenizer."""
        # None means as for lower-casing, and is the spelling of BERT's own files.
        strip = None if self.strip_accents == self.lowercase else self.strip_accents
        bert = normalizers.BertNormalizer(lowercase=self.lowercase, strip_accents=strip)
        steps = [*self._composing_steps(), bert]
        return normalizers.Sequence(steps) if len(steps) > 1 else bert

    def normalizer_of_pieces(self) -> normalizers.Normalizer:
        """Make the normaliser of a Unigram model."""
        # As in BERT's models, it removes invisible characters, such as soft hyphens.
        clean = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False
        )
        steps: list[normalizers.Normalizer] = [clean, *self._composing_steps()]
        if self.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
        return normalizers.Sequence([*steps, *[normalizers.Lowercase()] * self.lowercase])

    def _composing_steps(self) -> list[normalizers.Normalizer]:
        """Make the steps before accents and capitals; the dot of İ is not an accent."""
        steps: list[normalizers.Normalizer] = [normalizers.NFKC()] * self.nfkc
        if self.dotless_i and self.lowercase:
            steps += [
                *[normalizers.NFC()] * (not self.nfkc),
                normalizers.Replace("İ", "i"),
                normalizers.Replace("I", "ı"),
                normalizers.Replace(Regex(DOT_ABOVE_I), ""),
            ]
        return steps

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Normalization:
        """Read it from a tokenizer of `build_tokenizer` or `build_piece_tokenizer`.

        Example:
            >>> Normalization.of(build_tokenizer([])) == ENGLISH
            True
        """
        normalizer = json.loads(tokenizer.to_str())["normalizer"]
        steps = {step["type"]: step for step in normalizer.get("normalizers", [normalizer])}
        nfkc, dotless_i = "NFKC" in steps, "Replace" in steps
        if has_pieces(tokenizer):
            return cls(nfkc, "Lowercase" in steps, "StripAccents" in steps, dotless_i)
        bert = steps["BertNormalizer"]
        lowercase, strip = bert["lowercase"], bert["strip_accents"]
        return cls(nfkc, lowercase, lowercase if strip is None else strip, dotless_i)


# As in BERT's English models.
ENGLISH = Normalization(nfkc=False, lowercase=True, strip_accents=True)


def is_punctuation(word: str) -> bool:
    """Tell whether a word consists of what BERT's pre-tokenizer splits off as punctuation.

    That is the ASCII punctuation and symbols, and Unicode categories P*.

    Example:
        >>> is_punctuation("..."), is_punctuation("c"), is_punctuation("£5")
        (True, False, False)
    """
    return all(c in ASCII_PUNCTUATION or unicodedata.category(c).startswith("P") for c in word)


def build_tokenizer(
    words: Iterable[str], pieces: Iterable[str] = (), normalization: Normalization = ENGLISH
) -> Tokenizer:
    """Build the tokenizer of a static model whose language puts spaces between words.

    Its ids are in this order: `[PAD]`, `[UNK]`, words, pieces. Words are normalised, the most
    frequent first. A vocabulary word is one look-up; an unknown word falls back to its longest
    known prefix and `##` pieces (greedy longest match, WordPiece): word beginnings and
    continuations, whose repetitions, including those of words, are dropped. Nothing goes into
    `added_tokens`: special tokens are never matched in text, and many added tokens would make the
    tokenizer slow.

    Example:
        >>> tokenizer = build_tokenizer(["static", "word"], ["s", "##s"])
        >>> tokenizer.encode("Static words!").tokens
        ['static', 'word', '##s', '[UNK]']
    """
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *words, *pieces])
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.WordPiece(
            vocabulary,
            unk_token=UNKNOWN_TOKEN,
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=MAX_WORD_CHARACTERS,
        )
    )
    tokenizer.normalizer = normalization.normalizer_of_words()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    return tokenizer


def build_piece_tokenizer(
    pieces: Sequence[tuple[str, float]], normalization: Normalization
) -> Tokenizer:
    """Build the tokenizer of a static model whose words are not separated by spaces.

    Its ids are in this order: `[PAD]`, `[UNK]`, pieces. A text is split at white space and around
    punctuation; each part is spelled by the pieces whose log probabilities have the largest sum
    (Unigram). Pieces are normalised, without punctuation, the most frequent first. At the beginning
    of a word of spaced scripts they begin with `▁`.

    Example:
        >>> pieces = [("今日", -1.0), ("は", -1.0), ("▁ai", -2.0), ("晴れ", -2.0)]
        >>> build_piece_tokenizer(pieces, Normalization()).encode("今日は晴れ、AI").tokens
        ['▁', '今日', 'は', '晴れ', '▁、', '▁ai']
    """
    # Their scores are not used: no text holds [PAD], and Unigram has its own score for [UNK].
    special = [(token, 0.0) for token in SPECIAL_TOKENS]
    # Sums of rounded scores are exact, so that texts can be cut without changing a token
    # (`st_static.tokens.unigram`).
    rounded = [(piece, round(score * _SCORE_STEPS) / _SCORE_STEPS) for piece, score in pieces]
    tokenizer = Tokenizer(models.Unigram([*special, *rounded], unk_id=1, byte_fallback=False))
    tokenizer.normalizer = normalization.normalizer_of_pieces()
    tokenizer.pre_tokenizer = split_before_pieces()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def split_before_pieces() -> pre_tokenizers.PreTokenizer:
    """Make the splitting before pieces are looked for: no piece crosses its borders."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Metaspace(WORD_BEGIN, prepend_scheme="always"),
        ]
    )


def are_continuations(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Find which tokens of a student of words continue a word, [V]."""
    continuations = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    tokens = tokenizer.get_vocab().items()
    continuations[[i for token, i in tokens if token.startswith(CONTINUATION)]] = True
    return continuations


def has_pieces(tokenizer: Tokenizer) -> bool:
    """Tell whether a student's tokenizer has pieces, not words."""
    return isinstance(tokenizer.model, models.Unigram)


def unknown_id(tokenizer: Tokenizer) -> int | None:
    """Find the id of a tokenizer's unknown token; None if it has none."""
    model = json.loads(tokenizer.to_str())["model"]
    if "unk_id" in model:
        return None if model["unk_id"] is None else int(model["unk_id"])
    return tokenizer.token_to_id(model["unk_token"]) if model.get("unk_token") else None


def split_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """Normalise a text and split it into words, by the tokenizer's own first two steps.

    Example:
        >>> split_words(build_tokenizer([]), "Café-au-lait!")
        ['cafe', '-', 'au', '-', 'lait', '!']
    """
    normalised = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised)]
