"""Models of every form that a demo page knows, with random tables, and texts to try them on."""

import random
from dataclasses import replace

import numpy as np
import real_sentences

from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.modules import Segment
from st_static.model.table import Int8Table
from st_static.model.tokenizer import (
    SPECIAL_TOKENS,
    WORD_BEGIN,
    Normalization,
    build_piece_tokenizer,
    build_tokenizer,
    build_word_tokenizer,
    split_words,
)

# Those that need no other words than these, and fit a page.
SENTENCES = [text for i, text in enumerate(real_sentences.SENTENCES) if i not in (4, 11, 16, 19)]
DIMENSION = 16
# Some characters of many kinds, which random texts are made of.
CHARACTERS = (
    "aAbcdeéEÉßẞıİiΣσςЖж中𠀀今日は晴れカガｶﾞไทย한글"
    " \t\n\u00a0\u3000'\"-_.,;:!?…、。()[]{}<>&/\\#@*+=|~^`$%"
    "0123½²٣😀👩‍👧🇯🇵ﬁⅧ™\u0301\u0327\u200b\u200d\u00ad\ufeff\u0007\u0000"
)
HTML = '<script>document.title = "run"</script><img src="x" onerror="document.title = \'run\'">'


def odd_texts():
    """About 200 texts: real sentences, random characters, and what users paste."""
    rng = random.Random(0)
    mixed = ["".join(rng.choices(CHARACTERS, k=rng.randint(1, 30))) for _ in range(170)]
    words = " ".join(SENTENCES).split()
    long = " ".join(rng.choices(words, k=10_000))
    special = ["", " ", "\n", "qqq xzxz", "...", HTML, "ΟΔΟΣ ΣΑΣ", "a" * 101, "𠀀𠀁中𠀂", long]
    return [*SENTENCES, *special, *mixed]


def words_tokenizer():
    """Of words, in lower case without accents; pieces are the letters."""
    splitter = build_tokenizer([])
    words = dict.fromkeys(w for sentence in SENTENCES for w in split_words(splitter, sentence))
    pieces = [*"abcdefghijklmn", *(f"##{letter}" for letter in "abcdefghijklmn")]
    return build_tokenizer([word for word in words if word.isalnum()], pieces)


def pieces_tokenizer():
    """Of pieces, in Japanese and English."""
    words = ["今日", "は", "晴れ", "東京", "タワー"]
    words += ["▁the", "▁quick", "▁dog", "▁dogs", "▁read", "ing"]
    letters = [*"abcdefghijklmnopqrstuvwxyz", "日", "今", "▁"]
    scores = {**dict.fromkeys(letters, -8.0), **{w: -3.0 - i / 7 for i, w in enumerate(words)}}
    return build_piece_tokenizer(list(scores.items()), Normalization())


def given_words_tokenizer():
    """Of the words of a file of text vectors."""
    words = [
        *("the", "old", "reading", "wasn't", "n't", "do", "u.s.", "...", "c++", "well-known"),
        "a",
    ]
    return build_word_tokenizer(words)


def random_table(tokenizer, dimension=DIMENSION, seed=0):
    """Random rows; special tokens have none, nor have a few words."""
    table = np.random.default_rng(seed).normal(size=(tokenizer.get_vocab_size(), dimension))
    table[: len(SPECIAL_TOKENS)] = table[5] = 0
    if (begin := tokenizer.token_to_id(WORD_BEGIN)) is not None:
        table[begin] = 0
    return table.astype(np.float32)


def write_models(folder):
    """Write a model of each form."""
    rng = np.random.default_rng(1)
    head = Head(rng.normal(size=(23, DIMENSION)) / 4, rng.normal(size=(DIMENSION, 23)) / 4)
    segments = (Segment(10, 1.0), Segment(6, 0.5))
    forms = {
        "words": (words_tokenizer(), {}),
        "pieces": (pieces_tokenizer(), {}),
        "given words": (given_words_tokenizer(), {"normalize": False}),
        "head": (words_tokenizer(), {"head": head.in_format(np.dtype(np.float32))}),
        "ensemble": (words_tokenizer(), {"segments": segments}),
    }
    for name, (tokenizer, options) in forms.items():
        table = random_table(tokenizer)
        if name == "ensemble":
            table[:, : segments[0].width] *= 50  # members may differ in length
        export_model(folder / name, table, tokenizer, {}, **options)
    return {name: folder / name for name in forms}


def as_on_the_page(folder):
    """A model with the rounded table that a demo has."""
    model = read_static_model(folder)
    int8 = Int8Table.of(model.table, model.widths)
    return replace(model, table=np.asarray(int8))
