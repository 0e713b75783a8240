"""The student's tokenizer: greedy longest match over words, pieces and single characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

PADDING_TOKEN = "[PAD]"
UNKNOWN_TOKEN = "[UNK]"
CONTINUATION = "##"
SPECIAL_TOKENS = (PADDING_TOKEN, UNKNOWN_TOKEN)
# Longer words are [UNK].
MAX_WORD_CHARACTERS = 100
ASCII_PUNCTUATION = frozenset(r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""")


def is_punctuation(word: str) -> bool:
    """Tell whether a word consists of punctuation only.

    Punctuation is what BERT's pre-tokenizer splits off: the ASCII punctuation and symbols, and
    Unicode categories P*.

    Example:
        >>> is_punctuation("..."), is_punctuation("c"), is_punctuation("£5")
        (True, False, False)
    """
    return all(c in ASCII_PUNCTUATION or unicodedata.category(c).startswith("P") for c in word)


def build_tokenizer(words: Iterable[str], pieces: Iterable[str] = ()) -> Tokenizer:
    """Build the English tokenizer of a static model.

    A vocabulary word is one look-up; an unknown word falls back to its longest known prefix and
    `##` pieces (greedy longest match, WordPiece). Nothing goes into `added_tokens`: special
    tokens are never matched in text, and many added tokens would make the tokenizer slow.

    Args:
        words: Lower-cased words, the most frequent first. Word i gets id 2 + i.
        pieces: Word beginnings and `##` continuations for words outside the vocabulary.
            Repetitions, of words too, are dropped.

    Returns:
        A tokenizer with ids in this order: `[PAD]`, `[UNK]`, words, pieces.

    Example:
        >>> tokenizer = build_tokenizer(["static", "word"], ["s", "##s"])
        >>> tokenizer.encode("Static words!").tokens
        ['static', 'word', '##s', '[UNK]']
    """
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *words, *pieces])
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        WordPiece(
            vocabulary,
            unk_token=UNKNOWN_TOKEN,
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=MAX_WORD_CHARACTERS,
        )
    )
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder(prefix=CONTINUATION)
    return tokenizer


def split_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """Normalise a text and split it into words, by the tokenizer's own first two steps.

    Example:
        >>> split_words(build_tokenizer([]), "Café-au-lait!")
        ['cafe', '-', 'au', '-', 'lait', '!']
    """
    normalised = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised)]


def split_all_words(texts: pa.Array) -> pa.ListArray:
    """`split_words` for many texts [B]: Arrow splits those of printable ASCII, most of English.

    Example:
        >>> split_all_words(pa.array(["Don't!", "Café"])).to_pylist()
        [['don', "'", 't', '!'], ['cafe']]
    """
    plain = pc.match_substring_regex(texts, "^ *[!-~][ -~]*$").to_numpy(zero_copy_only=False)
    split = split_plain_words(texts.filter(pa.array(plain)))
    tokenizer = build_tokenizer([])
    others = [split_words(tokenizer, text) for text in texts.filter(pa.array(~plain)).to_pylist()]
    lists = pa.concat_arrays([split, pa.array(others, pa.list_(pa.string()))])
    places = np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)])
    return lists.take(pa.array(np.argsort(places)))


def split_plain_words(texts: pa.Array, lowercase: bool = True) -> pa.ListArray:
    """BERT's normaliser and pre-tokenizer for texts [B] of printable ASCII and spaces.

    Args:
        texts: Texts with at least one character that is no space.
        lowercase: Whether the normaliser lower-cases.
    """
    texts = pc.ascii_lower(texts) if lowercase else texts
    isolated = pc.replace_substring_regex(texts, r"([!-/:-@\[-`{-~])", r" \1 ")
    return pc.ascii_split_whitespace(pc.ascii_trim_whitespace(isolated))
