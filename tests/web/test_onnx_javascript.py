"""ONNX files in JavaScript: the same token ids as in Python, and the same vectors.

`npm ci --ignore-scripts` in tests/javascript installs what they run in.
"""

import itertools
import json
import operator
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_texts import odd_texts
from random_model import write_random_model
from tokenizers import Tokenizer

from st_static import FastEncoder, export_onnx
from st_static.model.head import Head
from st_static.model.modules import Segment
from st_static.model.tokenizer import (
    Normalization,
    build_piece_tokenizer,
    build_tokenizer,
    build_word_tokenizer,
)
from st_static.model.vectors import unit_rows as unit

JAVASCRIPT = Path(__file__).parents[1] / "javascript"
NODE = shutil.which("node")
if NODE is None:
    pytest.skip("Needs node: install Node.js 20 or newer.", allow_module_level=True)
if not (JAVASCRIPT / "node_modules").is_dir():
    pytest.skip("Run npm ci --ignore-scripts in tests/javascript.", allow_module_level=True)

D = 12
WORDS = ["the", "old", "lighthouse", "keeper", "counted", "ships", "café", "east", "don't"]
TEXTS = ["The old keeper.", "SHIPS", "ships 東京 zzz", "the old ships " * 9, "The café don't"]
UNKNOWN = ["", "!!!", "東京"]
HEAD = Head(np.full((3, D), 0.5, np.float32), np.full((D, 3), -0.25, np.float32))
SEGMENTS = (Segment(5, 1.0), Segment(D - 5, 0.5))


def make_model(folder: Path, tokenizer: Tokenizer, **options: Any) -> Path:
    write_random_model(folder, tokenizer, D, **options)
    export_onnx(folder, quantize="int8")
    return folder


def in_node(folder: Path, **request: Any) -> Any:
    """What `encode.mjs` answers about a model."""
    asked, answer = folder.parent / "request.json", folder.parent / "answer.json"
    request = {"folder": str(folder), "texts": [], "encoded": [], "batches": []} | request
    asked.write_text(json.dumps(request))
    command = [NODE, "encode.mjs", "@huggingface/transformers", str(asked), str(answer)]
    result = subprocess.run(
        command, cwd=JAVASCRIPT, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return json.loads(answer.read_text())


def ids_of(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encoded]


@pytest.mark.parametrize(
    "options", [{}, {"head": HEAD}, {"segments": SEGMENTS}, {"normalize": False}]
)
def test_transformers_js_and_onnxruntime_node_give_the_vectors(tmp_path, options):
    folder = make_model(tmp_path / "model", build_tokenizer(WORDS), **options)
    fast = FastEncoder.from_pretrained(folder)
    ids = ids_of(build_tokenizer(WORDS), [*TEXTS, *UNKNOWN])
    width = max(map(len, ids))
    padded = [row + [0] * (width - len(row)) for row in ids]
    masks = [[1] * len(row) + [0] * (width - len(row)) for row in ids]
    batches = [{"ids": padded, "mask": masks}, {"ids": [[]], "mask": [[]]}]
    answer = in_node(folder, encoded=TEXTS, unknown=UNKNOWN, batches=batches)
    expected = fast.encode([*TEXTS, *UNKNOWN, ""])
    for dtype, tolerance in (("fp32", 1e-6), ("q8", 0.02)):
        got = {name: np.array(rows) for name, rows in answer[dtype].items()}
        np.testing.assert_allclose(got["session"], expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(got["sentences"], expected[:-1], rtol=tolerance, atol=tolerance)
        for pooled in (got["alone"], got["together"]):
            np.testing.assert_allclose(pooled, unit(expected[: len(TEXTS)]), atol=tolerance)
        known, exact = unit(got["session"])[: len(TEXTS)], unit(expected)[: len(TEXTS)]
        assert (known * exact).sum(axis=1).min() > 0.999


def student_of_pieces(sentences: list[str], normalization: Normalization) -> Tokenizer:
    """Pieces of one to four letters of the odd texts, with scores as they come."""
    normalize = normalization.normalizer_of_pieces().normalize_str
    pieces: dict[str, float] = {}
    for word in " ".join(map(normalize, odd_texts(sentences, 300, seed=7))).split():
        for begin, end in itertools.combinations(range(min(len(word), 9)), 2):
            if word[begin:end].isalnum():
                mark = "" if begin else "▁"
                pieces.setdefault(mark + word[begin:end], -4.0 - len(pieces) / 4096)
    return build_piece_tokenizer(list(pieces.items()), normalization)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZERS = {
    "words of English": lambda student, _: student,
    "words with accents": lambda *_: build_tokenizer(
        [*WORDS, *LETTERS], ["##s", "##e"], Normalization()
    ),
    "Turkish words": lambda *_: build_tokenizer(
        [*WORDS, *LETTERS, "ı", "##ı"], ["##s"], Normalization(dotless_i=True)
    ),
    "words of text vectors": lambda *_: build_word_tokenizer([*WORDS, "...", "c++", "n't", "ca"]),
    "words of text vectors in NFD": lambda *_: build_word_tokenizer(
        ["the", "cafe\u0301", "e\u0301", "\u1112\u1161", "ı", *LETTERS], dotless_i=True
    ),
    "pieces": lambda _, texts: student_of_pieces(texts, Normalization()),
    "pieces without accents": lambda _, texts: student_of_pieces(
        texts, Normalization(strip_accents=True)
    ),
}


def has_a_final_capital_sigma(text: str) -> bool:
    """JavaScript, as Python's `lower`, makes another small letter of it at the end of a word."""
    return text.lower() != "".join(map(str.lower, text))


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_token_ids_are_those_of_python(tmp_path, student, sentences, kind):
    """But for what docs/onnx.md names: a few hundred characters, and final capital sigmas."""
    tokenizer = TOKENIZERS[kind](student, sentences)
    folder = make_model(tmp_path / "model", tokenizer)
    characters = [chr(i) for i in range(0x20000) if not 0xD800 <= i < 0xE000]
    alone = [f"a{character}b" for character in characters]
    odd = odd_texts(sentences, 15_000)
    ids, expected = in_node(folder, texts=alone + odd)["ids"], ids_of(tokenizer, alone + odd)
    if "pieces" in kind:  # punctuation marks in a row are one unknown token
        ids, expected = ([[i for i in row if i != 1] for row in rows] for rows in (ids, expected))
    equal = list(map(operator.eq, ids, expected))
    differing = {c for c, is_equal in zip(characters, equal, strict=False) if not is_equal}
    assert len(differing) < 700
    assert all(c > "\u0600" for c in differing)
    compared = [
        is_equal
        for text, is_equal in zip(odd, equal[len(alone) :], strict=True)
        if not differing & set(text) and not has_a_final_capital_sigma(text)
    ]
    assert len(compared) >= 10_000
    assert all(compared)


def test_the_docs_name_what_still_differs(tmp_path, student):
    folder = make_model(tmp_path / "model", student)
    texts = ["ΟΔΟΣ", "a\U00020000b", "a\u2e43b"]
    for ids, expected in zip(
        in_node(folder, texts=texts)["ids"], ids_of(student, texts), strict=True
    ):
        assert ids != expected
