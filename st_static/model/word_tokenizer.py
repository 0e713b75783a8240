"""Build the tokenizer of given words in any spelling: those of a file of text vectors.

The words decide on the changes to a text. It is lower-cased if at most 1 % of them have a capital;
I then becomes ı if they are in Turkish or Azeri (see `normalization_of`). Accents are stripped if
no word has one; otherwise text and words are converted to the canonical form of most words, NFC or
NFD. Curly apostrophes become straight ones if words have only these. The text is split at white
space; then, from left to right, into:

1. the longest given word that has characters other than letters, marks and digits, such as `don't`,
   `well-known`, `u.s.`, `'s` or `...`; not in the middle of a run of letters and digits;
2. if `n't` is a given word, the run of letters before an `n't` that ends one: `ca` of `can't`;
3. a run of letters, marks and digits;
4. any other single character.

Each part is a given word, or `[UNK]`. The words of the first kind are in the pre-tokenizer's
pattern, those of all kinds in the model; none are added tokens, which are slow.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from st_static.model.tokenizer import (
    MAX_WORD_CHARACTERS,
    SPECIAL_TOKENS,
    UNKNOWN_TOKEN,
    Normalization,
)
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged

_RUN = r"[\p{L}\p{M}\p{N}]"
_NOT_INSIDE_A_RUN = rf"(?!(?<={_RUN}){_RUN})"
_NEGATION = "n't"
_APOSTROPHE, _CURLY_APOSTROPHE = "'", "\N{RIGHT SINGLE QUOTATION MARK}"
# Marks of text vectors that are not words, such as <unk>: their capitals do not count.
_MARK = re.compile(r"<.*>|\[.*\]|UNK|PAD|BOS|EOS")
# Files of lower-cased text may have a few capitals left; in others, far more words have one.
_SHARE_OF_CAPITALS = 0.01
Form = Literal["NFC", "NFD"]
_FORMS: dict[Form, normalizers.Normalizer] = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD()}


class KnownWords:
    """Finds given distinct words in texts, even if capitalised at the beginning of a sentence.

    Its tokenizer's tokens are `[PAD]`, `[UNK]`, the words, and the spellings. For `dotless_i` see
    `normalization_of`.

    Example:
        >>> known = KnownWords(["dog", "don't", "."])
        >>> known(["Don't wake the dog."]).values.tolist()
        [1, 0, 2]
    """

    def __init__(self, words: Sequence[str], dotless_i: bool | None = None) -> None:
        self.form = canonical_form(words)
        # Words that were in another form, and those that equal an earlier one in this form.
        self.brought, self.alike = [], []
        places: dict[str, int] = {}  # by word in that form
        for place, word in enumerate(words):
            spelled = word
            if self.form and not unicodedata.is_normalized(self.form, word):
                spelled = _FORMS[self.form].normalize_str(word)
                self.brought += [word] if spelled != word else []
            if places.setdefault(spelled, place) != place:
                self.alike.append(word)
        distinct, first = list(places), list(places.values())
        self.normalization = normalization_of(distinct, dotless_i)
        spellings = capitalised_spellings(distinct, dotless_i)
        self.spellings = list(spellings)
        self.tokenizer = build_word_tokenizer([*distinct, *spellings], dotless_i)
        # The index of each token's word among the given ones, without the first two tokens.
        self.places = np.array([*first, *(first[i] for i in spellings.values())], np.int32)
        self._words = [words[place] for place in first]
        self._encode = FastTokenizer(self.tokenizer)

    def __call__(self, texts: Sequence[str]) -> Ragged:
        """Find the words of each text, by their indices among the given ones, [B rows]."""
        ids = self._encode(texts)
        known = ids.filter(ids.values >= len(SPECIAL_TOKENS))
        return Ragged(self.places[known.values - len(SPECIAL_TOKENS)], known.offsets)

    def never_found(self) -> list[str]:
        """Find the words that are split even if they are a whole text.

        These are words with a space or a character that the normaliser removes or changes, and
        words of several Chinese characters, which are split.
        """
        ids = self._encode(self._words)
        starts, is_one = ids.offsets[:-1], ids.lengths == 1
        expected = np.arange(len(self._words)) + len(SPECIAL_TOKENS)
        is_one[is_one] = ids.values[starts[is_one]] == expected[is_one]
        return [self._words[i] for i in np.flatnonzero(~is_one)]


def build_word_tokenizer(words: Sequence[str], dotless_i: bool | None = None) -> Tokenizer:
    """Build the tokenizer of given words, as this module describes; ids: `[PAD]`, `[UNK]`, words.

    The words are distinct, in their `canonical_form`, and none is a special token.

    Example:
        >>> tokenizer = build_word_tokenizer(["ca", "n't", "the", "u.s.", "well-known"])
        >>> tokenizer.encode("Can't the well-known, U.S.").tokens
        ['ca', "n't", 'the', 'well-known', '[UNK]', 'u.s.']
    """
    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    steps = [normalization_of(words, dotless_i).normalizer_of_words()]
    characters = set().union(*words)
    if _APOSTROPHE in characters and _CURLY_APOSTROPHE not in characters:
        steps.insert(0, normalizers.Replace(_CURLY_APOSTROPHE, _APOSTROPHE))
    if form := canonical_form(words):
        # Last, since a lower-cased letter and its marks may compose into one character.
        steps.append(_FORMS[form])
    tokenizer.normalizer = normalizers.Sequence(steps) if len(steps) > 1 else steps[0]
    # A pattern of the parts of a text without white space.
    joined = sorted(filter(_is_joined, words))
    parts = [rf"{_alternatives(joined)}{_NOT_INSIDE_A_RUN}"] if joined else []
    if _NEGATION in joined:
        parts.append(rf"{_RUN}+?(?={_NEGATION}(?!{_RUN}))")
    pattern = Regex("|".join([*parts, f"{_RUN}+", r"\S"]))
    split = pre_tokenizers.Split(pattern, "removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    return tokenizer


def canonical_form(words: Sequence[str]) -> Form | None:
    """Find the canonical form of most words, among those that differ in the two forms.

    None if accents are stripped, so that it does not matter.

    Example:
        >>> canonical_form(["cafe\u0301", "dog"]), canonical_form(["café"]), canonical_form(["a"])
        ('NFD', 'NFC', None)
    """
    if normalization_of(words).strip_accents:
        return None
    is_in = unicodedata.is_normalized
    more_composed = sum(is_in("NFC", word) - is_in("NFD", word) for word in words)
    return "NFD" if more_composed < 0 else "NFC"


def normalization_of(words: Sequence[str], dotless_i: bool | None = None) -> Normalization:
    """Choose the normalisation of texts so that all but a few words can still be found.

    In languages such as Turkish, the small letters of I and İ are ı and i. `dotless_i` tells
    whether the words are in such a language; None to decide by whether more than a few words have
    ı. Texts are not lower-cased like this if no word has ı, or if the words were not: other
    languages' rules turn İ into i with a combining dot.

    Example:
        >>> normalization_of(["dog", "café"])
        Normalization(nfkc=False, lowercase=True, strip_accents=False, dotless_i=False)
        >>> normalization_of(["istanbul", "ışık"]).dotless_i
        True
    """
    few = _SHARE_OF_CAPITALS * len(words)
    with_dotless_i = sum("ı" in word for word in words)
    has_accent = any(
        unicodedata.category(character) == "Mn" or not unicodedata.is_normalized("NFD", character)
        for character in set().union(*words)
    )
    return Normalization(
        nfkc=False,
        lowercase=len(capitalised(words)) <= few,
        strip_accents=not has_accent,
        dotless_i=dotless_i is not False
        and with_dotless_i > (0 if dotless_i else few)
        and sum("i\N{COMBINING DOT ABOVE}" in word for word in words) <= few,
    )


def capitalised(words: Sequence[str]) -> list[str]:
    """Find the words with a capital, but not marks such as `<UNK>`."""
    return [word for word in words if word != word.lower() and not _MARK.fullmatch(word)]


def capitalised_spellings(words: Sequence[str], dotless_i: bool | None = None) -> dict[str, int]:
    """Capitalise lower-case words, if capitals count and the words lack these spellings.

    So a word is found at the beginning of a sentence, but not as `THE`. Each spelling has the index
    of its word.

    Example:
        >>> capitalised_spellings(["the", "US", "us", "Us", "n't", "o'clock"])
        {'The': 0, "N't": 4, "O'clock": 5}
    """
    normalization = normalization_of(words, dotless_i)
    if normalization.lowercase:
        return {}
    known, dotless, spellings = set(words), normalization.dotless_i, {}
    for place, word in enumerate(words):
        spelling = ("İ" if dotless and word[:1] == "i" else word[:1].upper()) + word[1:]
        plain = spelling.replace("İ", "i").replace("I", "ı") if dotless else spelling
        if spelling not in known and plain.lower() == word and " " not in spelling:
            spellings[spelling] = place
    return spellings


def _is_joined(word: str) -> bool:
    """Tell whether a word is found only if it is in the pattern."""
    if word.isalnum() or not 1 < len(word) <= MAX_WORD_CHARACTERS:
        return False
    is_run = all(c.isalnum() or unicodedata.category(c).startswith("M") for c in word)
    return not is_run and len(word.split()) == 1


def _alternatives(words: Sequence[str], shared: int = 0) -> str:
    """Make a pattern of sorted words, longest first, as a trie, so that a look-up is fast."""
    parts = []
    for first, group in itertools.groupby(words, key=lambda word: word[shared : shared + 1]):
        same = list(group)
        if len(same) == 1:
            parts.append(re.escape(same[0][shared:]))
        else:
            parts.append(re.escape(first) + _alternatives(same, shared + 1))
    if parts[0] == "":  # a word ends here
        parts = [*parts[1:], ""]
    return f"(?:{'|'.join(parts)})"
