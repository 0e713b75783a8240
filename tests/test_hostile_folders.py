"""Folders that others made: refused in a sentence, in bounded time and memory, by every command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_model import write_model

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
KINDS = {"a pipe": "named pipe", "a device": "device", "20 GB of nothing": "sparse file"}

# Runs every command on every folder; a folder that takes longer than a minute ends the process.
RUN = """
import contextlib, io, json, os, resource, signal, sys, time
resource.setrlimit(resource.RLIMIT_AS, (6_000_000_000,) * 2)
from st_static.cli import main
folders, output = json.load(sys.stdin), sys.argv[1]
open(f"{output}/texts.txt", "w").write("a text\\n")
commands = {
    "encode": ["--input", f"{output}/texts.txt", "--output", f"{output}/vectors.npy"],
    "demo": ["--output", f"{output}/demo"],
    "export": ["--onnx"],
    "publish": ["org/model", "--dry_run"],
}
for folder, names in folders:
    for name in names:
        signal.alarm(60)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = main([name, folder, *commands[name]])
        print(json.dumps([folder, name, status, said.getvalue()]), flush=True)
"""


def replaced(file: Path, kind: str) -> None:
    """Put something that is no proper file in the place of one."""
    file.unlink()
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as stream:
            stream.truncate(20_000_000_000)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Writes a folder for each case, and runs commands on all of them in one process."""

    def run_all(cases, names):
        home = tmp_path_factory.mktemp("hostile")
        folders = []
        for number, change in enumerate(cases):
            folders.append(home / str(number))
            change(write_model(folders[-1]))
        asked = json.dumps([(str(folder), names) for folder in folders])
        command = [sys.executable, "-c", RUN, str(home)]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) == len(cases) * len(names)
        return found

    return run_all


def check_refused(found, says) -> None:
    """Each answer is an error of one line, but for the list of `publish`, with what is said."""
    for folder, name, status, said in found:
        expected = says[int(Path(folder).name)]
        assert (status, said[:7]) == (1, "Error: "), (name, expected, said)
        assert expected in said, (name, said)
        assert "Traceback" not in said


@pytest.mark.parametrize("file", JSON)
def test_a_broken_json_file_is_named_with_its_key(run, file):
    cases = [
        lambda folder, text=text: (folder / file).write_text(text, "utf-8") for text in JSON[file]
    ]
    names = ["encode", "demo", "export", "publish"]
    check_refused(run(cases, names), list(JSON[file].values()))


def test_tables_that_cannot_be_read(run):
    def write(header):
        content = json.dumps({"embeddings": header}).encode()
        return len(content).to_bytes(8, "little") + content + bytes(header["data_offsets"][1])

    cases = [
        lambda folder, header=header: (folder / "model.safetensors").write_bytes(write(header))
        for header, _ in HEADERS
    ]
    found = run(cases, ["encode", "demo", "export", "publish"])
    check_refused(found, [says for _, says in HEADERS])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_proper_file_is_not_read(run, kind):
    files = ["model.safetensors", "tokenizer.json", "modules.json", CONFIG_FILE]
    cases = [lambda folder, file=file: replaced(folder / file, kind) for file in files]
    says = [f"is a {KINDS[kind]}"] * len(files)
    check_refused(run(cases, ["encode", "export", "publish"]), says)


def test_a_card_is_read_only_where_it_is_needed_and_never_stalls(run):
    cases = [lambda folder, text=text: (folder / "README.md").write_text(text) for text in CARDS]
    cases += [lambda folder, kind=kind: replaced(folder / "README.md", kind) for kind in KINDS]
    found = run(cases, ["encode", "demo", "export", "publish"])
    assert {status for _, name, status, _ in found if name != "publish"} == {0}
    published = [one for one in found if one[1] == "publish"]
    check_refused(published, [*CARDS.values(), *(f"is a {kind}" for kind in KINDS.values())])


LOADED_BY_OTHERS = {
    "sentence-transformers": load_model,
    "Model2Vec": lambda folder: load_model(f"model2vec:{folder}"),
    "teacher": lambda folder: Teacher.load(TeacherConfig(folder, device="cpu", check=False)),
    "StaticWordEmbedding": StaticWordEmbedding.load,
}


@pytest.mark.parametrize("load", LOADED_BY_OTHERS.values(), ids=LOADED_BY_OTHERS)
@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        *((file, *case) for file in ("modules.json", CONFIG_FILE) for case in JSON[file].items()),
        ("config.json", "[]", "config.json is not as expected"),
        ("config.json", DEEP, "config.json is nested too deeply"),
        ("tokenizer.json", "[]", "tokenizer.json is not as expected: expected `object`"),
        ("model.safetensors", None, "model.safetensors is a named pipe"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_another_library_is_to_load_is_checked_first(tmp_path, load, file, text, says):
    folder = write_model(tmp_path / "model")
    if text is None:
        replaced(folder / file, "a pipe")
    else:
        (folder / file).write_text(text, "utf-8")
    with pytest.raises(ValueError, match=re.escape(says)):
        load(str(folder))


def multiply(folder: Path) -> None:
    """Make "a" ten billion characters, in one that is added to the vocabulary as well."""
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
    content["normalizer"] = {"type": "Sequence", "normalizers": [step] * 5}
    token = dict.fromkeys(["single_word", "lstrip", "rstrip", "special"], False)
    content["added_tokens"] = [token | {"id": 2, "content": "read", "normalized": True}]
    file.write_text(json.dumps(content), "utf-8")


TOO_MUCH = "make too much of a text"


def test_a_tokenizer_that_multiplies_text(run):
    check_refused(run([multiply], ["encode", "demo", "export", "publish"]), [TOO_MUCH])


@pytest.mark.parametrize("load", LOADED_BY_OTHERS.values(), ids=LOADED_BY_OTHERS)
def test_a_tokenizer_that_multiplies_text_is_not_loaded_by_others(tmp_path, load):
    folder = write_model(tmp_path / "model")
    multiply(folder)
    with pytest.raises(ValueError, match=TOO_MUCH):
        load(str(folder))


@pytest.mark.parametrize("card", ["---\nlicense: [\n---\n", f"---\nlicense: {DEEP}\n---\n"])
def test_a_card_that_model2vec_cannot_read(tmp_path, card):
    folder = write_model(tmp_path / "model")
    (folder / "README.md").write_text(card)
    with pytest.raises(ValueError, match=r"^Model2Vec cannot load '.*model' \("):
        load_model(f"model2vec:{folder}")


def test_a_broken_record_is_said_where_it_is_needed(run):
    cases = [
        lambda folder, text=text: (folder / "st_static.json").write_text(text) for text in RECORDS
    ]
    found = run(cases, ["encode"])
    assert {status for _, _, status, _ in found} == {0}
    for (folder, *_), says in zip(found, RECORDS.values(), strict=True):
        with pytest.raises(ValueError, match=re.escape(says)):
            ModelFolder(folder).whole_record()
