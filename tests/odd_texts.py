"""Texts as they come, and worse: for clients that must split them as Python does."""

import random
from collections.abc import Sequence

# Put into sentences: emoji, scripts, widths, marks, invisible characters, long words.
_INSERTED = [
    *(
        *("😀", "👩‍👩‍👧", "🇯🇵", "🥺", "東京", "한국어", "العربية", "हिन्दी", "עברית", "ก็"),
        *("が", "ｶﾞ", "ﾊﾟ", "か\u3099"),
    ),
    *(
        *("é", "e\u0301", "ñ", "ß", "İ", "\u0131", "ǅ", "ﬁ", "Å", "ﷺ", "½", "²", "Ⅷ", "①"),
        *("λόγος", "Σ"),
    ),
    *("\u0000", "\u0007", "\u0085", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u2028", "\u3000"),
    *("\ufeff", "\ufffd", "\ue000", "\U000e0001", "\t", "\n", "\r\n", "  "),
    *("\u2019", "“", "”", "…", "—", "·", "،", "؟", "।", "【", "」", "。", "、", "\uff01"),
    *"$+<=>^`|~¢£€©",
    *("[PAD]", "[UNK]", "##s", "x" * 101, "ab" * 60, "\U0001d5d4"),
]
# Of Unicode without surrogates, up to the rare ideographs.
_RANGES = [(0x20, 0x3000), (0x3000, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000)]


def odd_texts(sentences: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Sentences, changed at random; the same ones for the same seed."""
    generator = random.Random(seed)
    return [_changed(generator.choice(sentences), generator) for _ in range(count)]


def _changed(text: str, generator: random.Random) -> str:
    for _ in range(generator.randint(0, 4)):
        place = generator.randrange(len(text) + 1)
        before, after = text[:place], text[place:]
        text = generator.choice(
            [
                before + generator.choice(_INSERTED) + after,
                before + " " + generator.choice(_INSERTED) + after,
                before + chr(generator.randrange(*generator.choice(_RANGES))) + after,
                after + before,
                text.upper(),
                text.title(),
                text.swapcase(),
            ]
        )
    return text
