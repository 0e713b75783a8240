"""What `st-static demo` writes, and what it refuses."""

import json
import os
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml
from demo_models import DIMENSION, as_on_the_page, random_table, words_tokenizer, write_models
from markdown_it import MarkdownIt
from safetensors.numpy import load_file

from st_static.cli import main
from st_static.examples import examples_for
from st_static.model.export import export_model
from st_static.web.write_demo import read_texts, write_demo

PAGE = Path(__file__).parents[2] / "st_static" / "web" / "page"


@pytest.fixture
def model(models):
    return models["words"]


def facts_of(demo):
    return json.loads((demo / "model" / "model.json").read_text("utf-8"))


def test_the_command_writes_a_page_and_says_how_to_look_at_it(model, tmp_path, capsys):
    demo = tmp_path / "demo"
    assert main(["demo", str(model), "--output", str(demo)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    files = [path for path in demo.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    assert first == f"{demo}: {len(files)} files, {size / 1e6:.1f} MB"
    assert second == (
        f"Look at it: python -m http.server --bind 127.0.0.1 -d {demo}, then open http://127.0.0.1:8000"
    )
    names = {path.name for path in PAGE.iterdir()} | {"model", "README.md"}
    assert {path.name for path in demo.iterdir()} == names


def test_the_page_is_a_static_space(model, tmp_path):
    write_demo(model, tmp_path / "demo", hub_id="org/words")
    header = yaml.safe_load((tmp_path / "demo" / "README.md").read_text().split("---")[1])
    page = {"sdk": "static", "app_file": "index.html"}
    assert header == {"title": "words demo", **page, "models": ["org/words"]}


def test_the_space_shows_the_name_of_a_folder_as_it_is(model, tmp_path):
    name = "<img src=x onerror=alert(1)> [a](b) `c` &lt; **d** _e_ ~~f~~ \\*\n\n# g"
    shutil.copytree(model, tmp_path / name)
    write_demo(tmp_path / name, tmp_path / "demo")
    _, header, body = (tmp_path / "demo" / "README.md").read_text("utf-8").split("---\n")
    assert yaml.safe_load(header)["title"] == f"{name} demo"
    _, paragraph, _ = MarkdownIt("gfm-like", {"linkify": False}).parse(body)
    shown = "".join(part.content for part in paragraph.children if part.type == "text")
    assert shown.startswith(f"The static sentence encoder {' '.join(name.split())} runs on")


def test_the_table_is_that_of_the_model_in_8_bits(models, tmp_path):
    write_demo(models["head"], tmp_path / "demo")
    arrays = load_file(tmp_path / "demo" / "model" / "table.safetensors")
    model = as_on_the_page(models["head"])
    assert arrays["rows"].dtype == np.int8
    np.testing.assert_array_equal(arrays["rows"] * arrays["scales"], model.table)
    np.testing.assert_array_equal(arrays["head_first"], model.head.first)
    np.testing.assert_array_equal(arrays["head_second"], model.head.second)
    facts = facts_of(tmp_path / "demo")
    assert facts["dimension"] == DIMENSION
    sizes = {name: (tmp_path / "demo" / name).stat().st_size for name in facts["bytes"]}
    assert facts["bytes"] == sizes


def test_a_model_that_keeps_more_dimensions_than_it_has_keeps_all(tmp_path):
    folder = write_models(tmp_path / "models")["words"]
    config = json.loads((folder / "config_sentence_transformers.json").read_text("utf-8"))
    for named, kept in ((DIMENSION + 44, None), (DIMENSION - 4, DIMENSION - 4), (None, None)):
        config["truncate_dim"] = named
        (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
        write_demo(folder, tmp_path / "demo")
        facts = facts_of(tmp_path / "demo")
        assert facts["settings"]["truncate_dim"] == kept
        assert facts["dimension"] == (kept or DIMENSION)


def test_the_page_asks_for_nothing_that_it_does_not_bring(model, tmp_path):
    """Whatever a module imports, and the page links, is a file beside it."""
    write_demo(model, tmp_path / "demo")
    scripts = [tmp_path / "demo" / "js" / file.name for file in (PAGE / "js").iterdir()]
    for script in scripts:
        names = re.findall(r'(?:from|import)\s*\(?"([^"]+)"', script.read_text("utf-8"))
        assert all((script.parent / name).is_file() for name in names), script
    page = (tmp_path / "demo" / "index.html").read_text("utf-8")
    linked = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(linked) == 3
    assert all((tmp_path / "demo" / name).is_file() for name in linked)
    policy = re.search(r'content="(default-src [^"]+)"', page)[1]
    assert policy.split("; ")[:2] == [
        "default-src 'self'",
        "connect-src 'self' https://*.hf.co https://*.huggingface.co",  # the Hub's storage
    ]
    assert "<script>" not in page


def test_the_library_is_named_with_its_licence():
    folder = PAGE / "vendor" / "tokenizers"
    assert "Apache License" in (folder / "LICENSE").read_text("utf-8")
    assert "@huggingface/tokenizers 0.2.0" in (folder / "VERSION.txt").read_text("utf-8")


def test_search_begins_with_the_texts_of_the_user(model, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("First.\n\n  \n<b>Second</b>\n", "utf-8")
    command = ["demo", str(model), "--texts", str(texts), "--output", str(tmp_path / "demo")]
    assert main(command) == 0
    search = facts_of(tmp_path / "demo")["examples"]["search"]
    assert search == {"query": "", "texts": ["First.", "<b>Second</b>"]}


def test_examples_and_limits_are_those_of_the_card(tmp_path):
    tokenizer = words_tokenizer()
    record = {"recipe": {"language": "ja"}}
    export_model(tmp_path / "model", random_table(tokenizer), tokenizer, record)
    write_demo(tmp_path / "model", tmp_path / "demo")
    facts, examples = facts_of(tmp_path / "demo"), examples_for(["ja"])
    assert facts["languages"] == ["ja"]
    assert facts["examples"]["compare"] == list(examples.heat_map)
    assert facts["limits"]["pairs"][:-1] == [vars(limit) for limit in examples.limits]
    assert facts["limits"]["pairs"][-1]["limit"] == "length"


def test_a_demo_is_replaced_and_what_is_beside_it_stays(models, tmp_path):
    demo = tmp_path / "demo"
    write_demo(models["words"], demo)
    (demo / "mine.txt").write_text("mine")
    (demo / "js" / "dom.js").write_text("changed")
    write_demo(models["pieces"], demo)
    assert facts_of(demo)["name"] == "pieces"
    assert (demo / "mine.txt").read_text() == "mine"
    assert (demo / "js" / "dom.js").read_bytes() == (PAGE / "js" / "dom.js").read_bytes()


def test_folders_of_the_user_stay_as_private_as_they_are(model, tmp_path):
    demo = tmp_path / "demo"
    write_demo(model, demo)
    modes = {".": 0o700, "mine": 0o700, "mine/deep": 0o710, "js/mine": 0o750}
    for name in modes:
        (demo / name).mkdir(parents=True, exist_ok=True)
        (demo / name / "file.txt").write_text("mine")
    for name, mode in modes.items():
        (demo / name).chmod(mode)
    write_demo(model, demo)
    assert {name: (demo / name).stat().st_mode & 0o777 for name in modes} == modes
    assert all((demo / name / "file.txt").read_text() == "mine" for name in modes)


def test_a_folder_of_the_user_is_left_alone(model, tmp_path, capsys):
    (tmp_path / "index.html").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert main(["demo", str(model), "--output", str(tmp_path)]) == 1
    said = "is not a demo of st_static (it has no model/model.json of st_static)"
    assert f"holds something that {said}" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "content",
    [b'{"format": "layers-model"}', b'{"written_by": "me"}', b"[]", b"{", b"\xff", b"[" * 100_000],
)
def test_a_folder_is_no_demo_by_the_name_of_a_file_alone(content, model, tmp_path, capsys):
    """TensorFlow.js, for one, writes a model/model.json."""
    mine = {"model/model.json": content, "index.html": b"mine", "js/main.js": b"mine"}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    assert main(["demo", str(model), "--output", str(tmp_path)]) == 1
    assert "not a demo of st_static" in capsys.readouterr().err
    there = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in there} == mine


@pytest.mark.parametrize("size", [1_000, 50_000])  # too little for the page; for the table
def test_a_full_disk_is_told_in_a_line(size, tmp_path, capsys):
    resource = pytest.importorskip("resource")
    tokenizer = words_tokenizer()
    export_model(tmp_path / "model", random_table(tokenizer, 1_000), tokenizer, {})
    write_demo(tmp_path / "model", tmp_path / "demo")
    before = sorted(tmp_path.rglob("*"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        status = main(["demo", str(tmp_path / "model"), "--output", str(tmp_path / "demo")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    [said] = capsys.readouterr().err.splitlines()
    assert status == 1
    assert f"No space left on the disk of {tmp_path / 'demo'}: make room" in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"texts\.txt cannot be read \(No such file or directory\)\.$"),
        (b"", "Expected one text per line in .*, but it holds none"),
        (b" \n\n", "Expected one text per line in .*, but it holds none"),
        (b"\xff\xfe", "texts.txt is not UTF-8 text: it begins as UTF-16"),
        (b"\xe9\n", "texts.txt, line 1: expected text in UTF-8"),
        (b"a\n" * 10_001, "has 10,001 texts, but a demo takes up to 10,000"),
        (b"a" * 10_000_001, "has 10,000,001 bytes, but a demo takes up to 10,000,000"),
    ],
)
def test_texts_that_cannot_be_shown_are_refused(content, reason, model, tmp_path):
    texts = tmp_path / "texts.txt"
    if content is not None:
        texts.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_texts(texts)
    command = ["demo", str(model), "--texts", str(texts), "--output", str(tmp_path / "demo")]
    assert main(command) == 1
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("texts", "says"),
    [("folder", "folder is a folder: name a file in it."), ("none", "There is no file none.")],
)
def test_texts_that_are_no_file_are_told_as_by_other_commands(
    texts, says, tmp_path, monkeypatch, capsys
):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    # There is no such model, either: it is not even looked for.
    assert main(["demo", "no_model", "--texts", texts, "--output", "demo"]) == 1
    assert capsys.readouterr().err == f"Error: {says}\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_texts_may_come_through_a_pipe(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = ["demo", str(model), "--texts", str(tmp_path / "pipe")]
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("One.\n",))
    writer.start()
    assert main([*command, "--output", str(tmp_path / "demo")]) == 0
    writer.join()
    assert facts_of(tmp_path / "demo")["examples"]["search"]["texts"] == ["One."]


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("modules.json", "[]", "not a static model"),
        ("tokenizer.json", '"pre_tokenizer": {"type": "UnicodeScripts"}', "UnicodeScripts"),
        ("config_sentence_transformers.json", '"similarity_fn_name": "euclidean"', "euclidean"),
    ],
)
def test_models_that_cannot_run_are_refused(file, change, reason, tmp_path, capsys):
    model = write_models(tmp_path / "models")["words"]
    if change == "[]":
        (model / file).write_text(change)
    else:
        content = json.loads((model / file).read_text("utf-8"))
        (model / file).write_text(json.dumps(content | json.loads("{" + change + "}")))
    assert main(["demo", str(model), "--output", str(tmp_path / "demo")]) == 1
    [said] = capsys.readouterr().err.splitlines()
    assert reason in said
    assert not (tmp_path / "demo").exists()


def test_a_table_that_is_not_finite_is_refused(tmp_path):
    tokenizer = words_tokenizer()
    table = random_table(tokenizer)
    table[7, 0] = np.inf
    export_model(tmp_path / "model", table, tokenizer, {})
    with pytest.raises(ValueError, match="not finite"):
        write_demo(tmp_path / "model", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_table_that_int8_spoils_is_refused(tmp_path, capsys):
    """Its rows differ in what is small beside what they have in common, and cancels out."""
    tokenizer = words_tokenizer()
    table = random_table(tokenizer)
    table[6:, 0] = np.resize([1_000, -1_000], len(table) - 6)
    export_model(tmp_path / "model", table, tokenizer, {})
    assert main(["demo", str(tmp_path / "model"), "--output", str(tmp_path / "demo")]) == 1
    said = capsys.readouterr().err
    assert "expected more than 0.999. A demo holds the table in int8 only" in said
    assert not (tmp_path / "demo").exists()


def test_what_is_no_model_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere/model"):
        assert main(["demo", str(tmp_path / name), "--output", str(tmp_path / "demo")]) == 1
        [said] = capsys.readouterr().err.splitlines()
        assert name in said
