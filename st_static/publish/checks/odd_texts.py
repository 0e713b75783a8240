"""Texts as they come, and worse: a tokenizer that is published must take all of them."""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import Tokenizer

from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.panics import TellingPanics

_ODD_TEXTS = [
    *("", " ", "\n", "\t \r\n", "\x00", "\x07", "\x85", "\xa0", "\u200b", "\u2028", "\ufeff"),
    *(
        "\ufffd",
        "\ue000",
        "\U000e0001",
        "\U0010ffff",
        "e\u0301",
        "か\u3099",
        "a\u0323\u0302",
        "\u0301",
    ),
    *("😀", "👩‍👩‍👧", "🇯🇵", "İstanbul", "Straße", "ﬁne ﷺ ½ Ⅷ", "ǅ Σ ς", "A\u00adB"),
    *(
        "東京タワーへ行く。",
        "한국어 문장",
        "العربية",
        "हिन्दी में",
        "עברית",
        "ภาษาไทย",
        "Привет, мир!",
    ),
    *("[PAD] [UNK] [CLS] [SEP] [MASK]", "<s> </s> <unk> <pad>", "##s ▁a Ġb", "don't can't I'm"),
    *("https://example.com/a?b=c&d=e#f", "someone@example.com", "3.5% of $1,234.56", "C++ a_b a-b"),
    *("a b c d e f g h", "word " * 2_000, " " * 2_000, "\n" * 500, "." * 500, "?!" * 200),
    *("x" * 40, "x" * 40 + "y", "a" * 2_000, "ab" * 500, "a " * 500, "aA1-" * 100, "1" * 500),
    *("é" * 500, "\u0301" * 200, "東" * 1_000, "😀" * 200, "\u200d" * 100, "\x00" * 100),
]


def check_odd_texts(tokenizer: Tokenizer) -> Iterator[str]:
    """The first text that a tokenizer breaks down on, or that has other tokens in FastEncoder."""
    encode = FastTokenizer(tokenizer)
    for text in _ODD_TEXTS:
        shown = repr(text[:40]) + ("…" if len(text) > 40 else "")
        try:
            with TellingPanics(tokenizer):
                expected = tokenizer.encode(text, add_special_tokens=False).ids
            found = encode([text]).values.tolist()
        except Exception as error:  # what tokenizers raises
            yield f"tokenizer.json: on the text {shown}: {error}"
            return
        else:
            if found != expected:
                yield f"tokenizer.json: {shown} has other tokens in FastEncoder. Report it."
                return
