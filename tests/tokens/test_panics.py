"""A panic of the tokenizers library, which is no Exception, is told in a sentence everywhere."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_model import WORDS, write_card, write_model
from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

from st_static.cards.check_folder import UnfitFolderError, check_folder
from st_static.cli import main, run_command
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.encode.fast_encoder import FastEncoder
from st_static.ensemble.ensemble import Ensemble
from st_static.model.export import export_model
from st_static.model.model_folder import ModelFolder
from st_static.model.tokenizer import Normalization, build_piece_tokenizer, build_tokenizer
from st_static.tokens import fast_tokenizer
from st_static.tokens.unigram import UnigramTokenizer
from st_static.tokens.wordpiece import NativeWordPiece

SLOW_PATTERN = {
    "pre_tokenizer": {
        "type": "Split",
        "pattern": {"Regex": "(x+x+)+y"},
        "behavior": "Isolated",
        "invert": False,
    }
}
LONG_STRIDE = {
    "truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5}
}
TEXT = "x" * 40


def change_tokenizer(folder: Path, change: dict[str, Any]) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return folder


@pytest.fixture
def broken(tmp_path):
    """A model whose tokenizer panics on the text."""
    return change_tokenizer(write_model(tmp_path / "model"), SLOW_PATTERN)


@pytest.mark.parametrize(
    "encode",
    [
        lambda encoder: encoder.encode(TEXT),
        lambda encoder: encoder.encode(["a", TEXT]),
        lambda encoder: encoder.encode([*["a file"] * 3_000, TEXT]),
        lambda encoder: list(encoder.tokenize([TEXT, "a"])),
        lambda encoder: Ensemble([encoder, encoder]).encode([TEXT]),
    ],
    ids=["one", "few", "many", "ids", "ensemble"],
)
def test_a_panic_names_the_tokenizer(broken, encode):
    with pytest.raises(ValueError, match=rf"^The tokenizer of {broken} broke down: .*\. Fix it"):
        encode(FastEncoder.from_pretrained(broken, threads=2))


@pytest.mark.parametrize("command", ["encode", "explain", "evaluate"])
def test_a_panic_is_one_line_of_each_command(broken, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text(f"{TEXT}\n")
    (tmp_path / "data/STS12").mkdir(parents=True)
    pairs = {"sentence1": [TEXT, "a"], "sentence2": ["a file", "rows"], "score": [1.0, 2.0]}
    pq.write_table(pa.table(pairs), tmp_path / "data/STS12/test.parquet")
    options = {
        "encode": ["--input", "texts.txt", "--output", "x.npy"],
        "explain": [TEXT, TEXT],
        "evaluate": ["--tasks", "STS12", "--data", "data"],
    }
    assert main([command, str(broken), *options[command]]) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    assert "broke down: " in captured.out + captured.err


def test_what_no_other_place_tells_the_command_tells(broken, capsys):
    tokenizer = Tokenizer.from_file(str(broken / "tokenizer.json"))
    assert run_command(lambda _: len(tokenizer.encode(TEXT)), []) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: A tokenizer broke down: ")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_is_no_panic(tmp_path, monkeypatch, error):
    encoder = FastEncoder.from_pretrained(write_model(tmp_path / "model"))

    def interrupt(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setitem(sys.modules, "nanotoken", None)
    monkeypatch.setattr(Tokenizer, "encode", interrupt, raising=True)
    with pytest.raises(error):
        encoder.encode("rows")


def test_a_teachers_panic_names_the_teacher(small_teacher):
    teacher = Teacher.load(TeacherConfig(model=str(small_teacher), device="cpu", expect={}))
    teacher._of_batches.pre_tokenizer = Split(Regex("(x+x+)+y"), "isolated")
    with pytest.raises(ValueError, match=rf"^The tokenizer of {small_teacher} broke down"):
        teacher.tokenize([TEXT])


def test_a_truncation_that_panics_is_refused_as_it_is_read(tmp_path):
    folder = change_tokenizer(write_model(tmp_path / "model"), LONG_STRIDE)
    says = r"tokenizer\.json: truncation\.stride \(5\) must be less than .*max_length \(1\)"
    with pytest.raises(ValueError, match=says):
        FastEncoder.from_pretrained(folder)
    with pytest.raises(UnfitFolderError, match=says):
        check_folder(ModelFolder(folder))


def test_what_panics_is_not_published(broken):
    with pytest.raises(UnfitFolderError, match=r"\n- tokenizer\.json: on the text .* broke down"):
        check_folder(ModelFolder(broken))


@pytest.mark.parametrize(
    ("tokenizer", "fast", "method"),
    [
        (build_tokenizer(WORDS), NativeWordPiece, "encode_many"),
        (
            build_piece_tokenizer([("▁a", -1.0), ("b", -2.0)], Normalization()),
            UnigramTokenizer,
            "_encode_cut",  # encode leaves few texts to the tokenizer
        ),
    ],
    ids=["wordpiece", "unigram"],
)
def test_other_tokens_than_the_tokenizers_are_not_published(
    tmp_path, monkeypatch, tokenizer, fast, method
):
    folder, table = tmp_path / "model", np.eye(tokenizer.get_vocab_size(), 4, dtype=np.float32)
    export_model(folder, table, tokenizer, {"recipe": {}})
    write_card(folder)
    check_folder(ModelFolder(folder))
    # Nor is nanotoken loaded for a user's first texts.
    monkeypatch.setattr(fast_tokenizer, "_CHARACTERS_WITHOUT_NATIVE", 1_000_000)
    own = getattr(fast, method)

    def without_the_end(self, texts):
        """Only of the texts of the check, so that the tokenizer's own proof still succeeds."""
        return own(self, texts).first(1 if "C++ a_b a-b" in list(map(str, texts)) else 10_000)

    monkeypatch.setattr(fast, method, without_the_end)
    with pytest.raises(UnfitFolderError, match=r"has other tokens in FastEncoder"):
        check_folder(ModelFolder(folder))
