"""Build the student's tokenizer: of words, by greedy longest match, or of the likeliest pieces."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from st_static.languages import has_dotless_i, is_english
from st_static.tokens.boundaries import DOT_ABOVE_I
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged

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
    def of_languages(cls, languages: Sequence[str]) -> Normalization:
        """Choose what text in languages, none for English, needs: only English loses its accents,
        and is not composed, as in BERT's English models."""
        english = is_english(languages)
        return cls(nfkc=not english, strip_accents=english, dotless_i=has_dotless_i(languages))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Normalization:
        """Read it from a tokenizer of `build_tokenizer` or `build_piece_tokenizer`."""
        normalizer = json.loads(tokenizer.to_str())["normalizer"]
        steps = {step["type"]: step for step in normalizer.get("normalizers", [normalizer])}
        nfkc, dotless_i = "NFKC" in steps, "Replace" in steps
        if has_pieces(tokenizer):
            return cls(nfkc, "Lowercase" in steps, "StripAccents" in steps, dotless_i)
        bert = steps["BertNormalizer"]
        lowercase, strip = bert["lowercase"], bert["strip_accents"]
        return cls(nfkc, lowercase, lowercase if strip is None else strip, dotless_i)


ENGLISH = Normalization.of_languages([])


def is_punctuation(word: str) -> bool:
    """Tell whether a word is what BERT's pre-tokenizer splits off: ASCII symbols, or in P*."""
    return all(c in ASCII_PUNCTUATION or unicodedata.category(c).startswith("P") for c in word)


def build_tokenizer(
    words: Iterable[str], pieces: Iterable[str] = (), normalization: Normalization = ENGLISH
) -> Tokenizer:
    """Build the tokenizer of a static model whose language puts spaces between words.

    Its ids are in this order: `[PAD]`, `[UNK]`, words, pieces. Words are normalised, the most
    frequent first. An unknown word falls back to its longest known prefix and `##` pieces (greedy
    longest match, WordPiece); repeated words and pieces are dropped. Nothing goes into
    `added_tokens`: special tokens are never matched in text, and many would make it slow.

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
    """Make the pre-tokenizer of a model of pieces: no piece crosses its borders."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Metaspace(WORD_BEGIN, prepend_scheme="always"),
        ]
    )


def are_continuations(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Find the tokens of a student of words that continue a word, [V]."""
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
    """Normalise a text and split it into words, by the tokenizer's own first two steps."""
    normalised = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised)]


# -- of given words in any spelling: those of a file of text vectors -----------------

_RUN = r"[\p{L}\p{M}\p{N}]"
_NOT_INSIDE_A_RUN = rf"(?!(?<={_RUN}){_RUN})"
_NEGATION = "n't"
_APOSTROPHE, _CURLY_APOSTROPHE = "'", "\N{RIGHT SINGLE QUOTATION MARK}"
# Marks of text vectors that are not words, such as <unk>: their capitals do not count.
_MARK = re.compile(r"<.*>|\[.*\]|UNK|PAD|BOS|EOS")
# Files of lower-cased text may have a few capitals left; in others, far more words have one.
_SHARE_OF_CAPITALS = 0.01
UnicodeForm = Literal["NFC", "NFD"]
_FORMS: dict[UnicodeForm, normalizers.Normalizer] = {
    "NFC": normalizers.NFC(),
    "NFD": normalizers.NFD(),
}


class KnownWords:
    """Finds given distinct words in texts, even if capitalised at the beginning of a sentence. Its
    tokenizer's tokens are `[PAD]`, `[UNK]`, the words, and the spellings."""

    def __init__(self, words: Sequence[str], dotless_i: bool | None = None) -> None:
        self.form = canonical_form(words)
        # Words that were in another form, and those that equal an earlier one in this form.
        self.brought, self.alike = [], []
        indices: dict[str, int] = {}  # by word in that form
        for i, word in enumerate(words):
            spelled = word
            if self.form and not unicodedata.is_normalized(self.form, word):
                spelled = _FORMS[self.form].normalize_str(word)
                self.brought += [word] if spelled != word else []
            if indices.setdefault(spelled, i) != i:
                self.alike.append(word)
        distinct, first = list(indices), list(indices.values())
        self.normalization = normalization_of(distinct, dotless_i)
        spellings = capitalised_spellings(distinct, dotless_i)
        self.spellings = list(spellings)
        self.tokenizer = build_word_tokenizer([*distinct, *spellings], dotless_i)
        # The index of each token's word among the given ones, without the first two tokens.
        self.indices = np.array([*first, *(first[i] for i in spellings.values())], np.int32)
        self._words = [words[i] for i in first]
        self._encode = FastTokenizer(self.tokenizer)

    def __call__(self, texts: Sequence[str]) -> Ragged:
        """Find the words of each text, by their indices among the given ones, [B rows]."""
        ids = self._encode(texts)
        known_ids = ids.filter(ids.values >= len(SPECIAL_TOKENS))
        return Ragged(self.indices[known_ids.values - len(SPECIAL_TOKENS)], known_ids.offsets)

    def never_found(self) -> list[str]:
        """Find the words that are split even if they are a whole text: with a space or a character
        that the normaliser removes or changes, or of several Chinese characters."""
        ids = self._encode(self._words)
        starts, is_one = ids.offsets[:-1], ids.lengths == 1
        expected = np.arange(len(self._words)) + len(SPECIAL_TOKENS)
        is_one[is_one] = ids.values[starts[is_one]] == expected[is_one]
        return [self._words[i] for i in np.flatnonzero(~is_one)]


def build_word_tokenizer(words: Sequence[str], dotless_i: bool | None = None) -> Tokenizer:
    """Build the tokenizer of given words; ids: `[PAD]`, `[UNK]`, words.

    They are distinct, in their `canonical_form`, and none is a special token. They determine the
    normalisation, see `normalization_of`. Curly apostrophes become straight if words have only
    straight ones. The text is split at white space; then, from left to right, into:

    1. the longest given word that has characters other than letters, marks and digits, such as
       `don't`, `well-known`, `u.s.`, `'s` or `...`; not in the middle of a run of letters and
       digits;
    2. if `n't` is a given word, the run of letters before an `n't` that ends one: `ca` of `can't`;
    3. a run of letters, marks and digits;
    4. any other single character.

    Each part is a given word, or `[UNK]`. The words of the first kind are in the pre-tokenizer's
    pattern, those of all kinds in the model; none are added tokens, which are slow.

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


def canonical_form(words: Sequence[str]) -> UnicodeForm | None:
    """Find the form of most words that differ in NFC and NFD; None if accents are stripped."""
    if normalization_of(words).strip_accents:
        return None
    is_in = unicodedata.is_normalized
    more_composed = sum(is_in("NFC", word) - is_in("NFD", word) for word in words)
    return "NFD" if more_composed < 0 else "NFC"


def normalization_of(words: Sequence[str], dotless_i: bool | None = None) -> Normalization:
    """Choose the normalisation of texts so that all but a few words can still be found. `dotless_i`
    tells whether the language, as Turkish, lower-cases I and İ to ı and i; None: if more than a few
    words have ı. It has no effect if no word has ı, or if words have an i with a combining dot,
    which other languages' rules make of İ."""
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
    """Map `The`, not `THE`, to the index of `the`, if capitals count and words lack it."""
    normalization = normalization_of(words, dotless_i)
    if normalization.lowercase:
        return {}
    known_words, dotless, spellings = set(words), normalization.dotless_i, {}
    for i, word in enumerate(words):
        spelling = ("İ" if dotless and word[:1] == "i" else word[:1].upper()) + word[1:]
        plain = spelling.replace("İ", "i").replace("I", "ı") if dotless else spelling
        if spelling not in known_words and plain.lower() == word and " " not in spelling:
            spellings[spelling] = i
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
