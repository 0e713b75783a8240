"""Folders that others made: refused in a sentence, in bounded time and memory, by every command."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from small_model import write_model

from st_static import FastEncoder
from st_static.distill.static_word_embedding import StaticWordEmbedding
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.evaluate.models import load_model
from st_static.model.model_folder import ModelFolder

DEEP = "[" * 100_000
CONFIG_FILE = "config_sentence_transformers.json"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 11)
)
# By the file: what is written into it, and what all commands say of it.
JSON = {
    "modules.json": {
        '["a"]': "modules.json is not as expected: expected `object`, got `str` at `[0]`",
        "null": "expected `array`, got `null`",
        "5": "expected `array`, got `int`",
        '[{"path": ""}]': "missing required field `type` at `[0]`",
        '[{"type": "a.StaticEmbedding"}]': "missing required field `path` at `[0]`",
        '[{"type": "a.StaticEmbedding", "path": 5}]': "expected `str`, got `int` at `[0].path`",
        '[{"type": "a.StaticEmbedding", "path": "../other"}]': "names the folder '../other' at",
        '[{"type": "a.StaticEmbedding", "path": "/etc"}]': "not inside the model's",
        DEEP: "modules.json is not as expected",
        # Nested too deeply, or, where Python's stack has room for it, no JSON.
        f'[{{"type": "a", "path": "", "x": {DEEP}': "modules.json is n",
        "[{": "modules.json is not JSON",
        "\ufeff[]": "modules.json is not JSON (it begins with a byte order mark",
    },
    CONFIG_FILE: {
        "[]": "sentence_transformers.json is not as expected: expected `object`, got `array`",
        '{"truncate_dim": "32"}': "expected `int | null`, got `str` at `truncate_dim`",
        '{"truncate_dim": -1}': "expected `int` >= 1 at `truncate_dim`",
        '{"prompts": ["a"]}': "expected `object | null`, got `array` at `prompts`",
        '{"prompts": {"a": 5}}': "expected `str | null`, got `int` at `prompts[...]`",
        '{"default_prompt_name": []}': "at `default_prompt_name`",
    },
    "tokenizer.json": {
        "[]": "tokenizer.json is not as expected",
        '{"model": {"vocab": {"a": "b"}}}': "expected `int`, got `str` at `model.vocab[...]`",
        '{"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 4000000000}}}': (
            "The tokenizer has ids up to 4000000000, for 4000000001 rows"
        ),
        DEEP: "tokenizer.json is not as expected",
    },
}
F32, F8 = {"dtype": "F32", "data_offsets": [0, 8]}, {"dtype": "F8_E4M3", "data_offsets": [0, 8]}
HEADERS = [
    (F32 | {"shape": [2]}, "shape is [2]"),
    (F8 | {"shape": [2, 4]}, "is stored as F8_E4M3"),
    (F32 | {"shape": [0, 8], "data_offsets": [0, 0]}, "shape is [0, 8]"),
]
RECORDS = {
    "[]": "st_static.json is not as expected: expected `object`",
    DEEP: "st_static.json is nested too deeply",
    '{"recipe": {"teacher": []}}': "st_static.json is not as expected",
    '{"recipe": {"corpus": {}}}': "st_static.json is not as expected: object missing required",
    '{"conversion": {}}': "st_static.json is not as expected: object missing required",
}
CARDS = {
    f"---\n{BOMB}language: *a10\n---\n": "it has an alias (*)",
    f"---\nlicense: {'[' * 50_000}\n---\n": "it is nested more than 32 deep",
    "---\nlicense: !!python/object:os.system {}\n---\n": "it has the tag",
    "---\nlicense: !!bool maybe\n---\n": "it has the tag",
    "---\nlicense: mit\n---\n" + "![" * 100_000: "pipeline_tag",
    "---\nlicense: mit\n---\n" + "](" * 100_000: "pipeline_tag",
    "---\nlicense: mit\n---\n" + "![](" * 50_000: "has no alt text",
    "---\nlicense: mit\n---\n" + "AutoModel.from_pretrained(" * 8_000: "pipeline_tag",
    f"---\nlicense: mit\n{chr(10) * 200_000}\n---\n": "pipeline_tag",
    "a" * 2_000_000: "has 2,000,000 bytes",
}
KINDS = ("named pipe", "device", "sparse file")  # what is no proper file
FILES = ("model.safetensors", "tokenizer.json", "modules.json", CONFIG_FILE)

# Runs every command on every folder; a folder that takes longer than a minute ends the process.
RUN = """
import contextlib, io, json, os, resource, signal, sys, time
resource.setrlimit(resource.RLIMIT_AS, (6_000_000_000,) * 2)
from st_static.cli import main
output, *folders = sys.argv[1:]
open(f"{output}/texts.txt", "w").write("a text\\n")
commands = {
    "encode": ["--input", f"{output}/texts.txt", "--output", f"{output}/vectors.npy"],
    "demo": ["--output", f"{output}/demo"],
    "export": ["--onnx"],
    "publish": ["org/model", "--dry_run"],
}
for folder in folders:
    for name, options in commands.items():
        signal.alarm(60)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = main([name, folder, *options])
        print(json.dumps([folder, name, status, said.getvalue()]), flush=True)
"""


Change = Callable[[Path], object]


def put(text: str, file: str, folder: Path) -> None:
    """Write a text into a file of a folder."""
    (folder / file).write_text(text, "utf-8")


def put_table(header: dict, folder: Path) -> None:
    """Write a file of a table with this header, and zeros."""
    content = json.dumps({"embeddings": header}).encode()
    size = len(content).to_bytes(8, "little")
    (folder / "model.safetensors").write_bytes(size + content + bytes(header["data_offsets"][1]))


def replace(kind: str, file: str, folder: Path) -> None:
    """Put something that is no proper file in the place of one."""
    path = folder / file
    path.unlink()
    if kind == "named pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as stream:
            stream.truncate(20_000_000_000)


def multiply(folder: Path) -> None:
    """Make "a" ten billion characters, in one that is added to the vocabulary as well."""
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
    content["normalizer"] = {"type": "Sequence", "normalizers": [step] * 5}
    token = dict.fromkeys(["single_word", "lstrip", "rstrip", "special"], False)
    content["added_tokens"] = [token | {"id": 2, "content": "read", "normalized": True}]
    file.write_text(json.dumps(content), "utf-8")


# What is done to a folder, and what all commands say of it.
MULTIPLIED = (multiply, "make too much of a text")
BROKEN: list[tuple[Change, str]] = [
    *((partial(put, text, file), says) for file in JSON for text, says in JSON[file].items()),
    *((partial(put_table, header), says) for header, says in HEADERS),
    *((partial(replace, kind, file), f"is a {kind}") for kind in KINDS for file in FILES),
    MULTIPLIED,
]


def answers(home: Path, changes: Iterable[Change]) -> list[list]:
    """Run all commands on a model for each change, in one process.

    Returns:
        For each model and command: the folder, the command, its exit status and what it said.
    """
    folders = []
    for number, change in enumerate(changes):
        folders.append(str(write_model(home / str(number))))
        change(home / str(number))
    command = [sys.executable, "-c", RUN, str(home), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 4 * len(folders)
    return found


def check_refused(found: Iterable[list], says: list[str]) -> None:
    """Each answer is an error of one line, but for the list of `publish`, with what is said."""
    for folder, name, status, said in found:
        expected = says[int(Path(folder).name)]
        assert (status, said[:7]) == (1, "Error: "), (name, expected, said)
        assert expected in said, (name, said)
        assert "Traceback" not in said


def test_a_broken_folder_is_refused_by_every_command(tmp_path):
    """In a sentence that names the file, and its key."""
    found = answers(tmp_path, [change for change, _ in BROKEN])
    check_refused(found, [says for _, says in BROKEN])


def test_a_card_is_read_only_where_it_is_needed_and_never_stalls(tmp_path):
    cases: list[tuple[Change, str]] = [
        *((partial(put, text, "README.md"), says) for text, says in CARDS.items()),
        *((partial(replace, kind, "README.md"), f"is a {kind}") for kind in KINDS),
    ]
    found = answers(tmp_path, [change for change, _ in cases])
    assert {status for _, name, status, _ in found if name != "publish"} == {0}
    check_refused([one for one in found if one[1] == "publish"], [says for _, says in cases])


OTHERS = {
    "sentence-transformers": load_model,
    "Model2Vec": lambda folder: load_model(f"model2vec:{folder}"),
    "teacher": lambda folder: Teacher.load(TeacherConfig(folder, device="cpu", expect={})),
    "StaticWordEmbedding": StaticWordEmbedding.load,
}


@pytest.mark.parametrize("load", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(
            (partial(put, text, file), says)
            for file in ("modules.json", CONFIG_FILE)
            for text, says in JSON[file].items()
        ),
        (partial(put, "[]", "config.json"), "config.json is not as expected"),
        (partial(put, DEEP, "config.json"), "config.json is nested too deeply"),
        (partial(put, "[]", "tokenizer.json"), "tokenizer.json is not as expected: expected `o"),
        (partial(replace, "named pipe", "model.safetensors"), "model.safetensors is a named pipe"),
        MULTIPLIED,
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_another_library_is_to_load_is_checked_first(tmp_path, load, change, says):
    change(write_model(tmp_path / "model"))
    with pytest.raises(ValueError, match=re.escape(says)):
        load(str(tmp_path / "model"))


@pytest.mark.parametrize("card", ["---\nlicense: [\n---\n", f"---\nlicense: {DEEP}\n---\n"])
def test_a_card_that_model2vec_cannot_read(tmp_path, card):
    put(card, "README.md", write_model(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"^Model2Vec cannot load '.*model' \("):
        load_model(f"model2vec:{tmp_path / 'model'}")


@pytest.mark.parametrize("text", RECORDS, ids=lambda text: text[:30])
def test_a_broken_record_is_said_where_it_is_needed(tmp_path, text):
    folder = write_model(tmp_path / "model")
    put(text, "st_static.json", folder)
    assert FastEncoder.from_pretrained(folder).encode("a text").ndim == 1
    with pytest.raises(ValueError, match=re.escape(RECORDS[text])):
        ModelFolder(folder).whole_record()
