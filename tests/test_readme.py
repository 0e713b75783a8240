"""Every command and every program of the README and of docs/ runs as printed, page by page.

Each page starts in a folder of its own with a reader's files, and where it says so, with what the
README's quickstart left; the README, and a page that says so, start in a clone. The Hub is the
server on the loopback, with a tiny teacher and tiny datasets under the names that the pages and the
recipes use; the recipes are made small.
"""

import ast
import importlib.util
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import mteb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hub_server import TOKEN, Hub
from model2vec import StaticModel
from openai_serving import serving
from small_build import generated_sentences, model_bytes, save_tiny_teacher

from st_static.commands.build import parse_build
from st_static.model.tokenizer import build_tokenizer

ROOT = Path(__file__).parents[1]
IN_A_CLONE = (
    "The commands on this page run in a clone, after the [quickstart](../README.md#quickstart)."
)
INSTALLED = re.compile(
    r'The commands on this page need (only )?`pip install (st-static|"st-static\[[\w,]+\]")`'
)
AFTER_QUICKSTART = "the [quickstart](../README.md#quickstart): `st-static build quickstart`"


class Block(NamedTuple):
    """A code block: its page, its language, its text, and what it prints, as the next one says."""

    page: str
    language: str
    text: str
    prints: str


_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)


def blocks_of(page: Path) -> list[Block]:
    return [Block(page.stem, *found) for found in _BLOCK.findall(page.read_text("utf-8"))]


def words_of(page: Path) -> str:
    """A page's text, in one line."""
    return " ".join(page.read_text("utf-8").split())


DOCS = sorted((ROOT / "docs").glob("*.md"))
ALL_BLOCKS = [block for page in (ROOT / "README.md", *DOCS) for block in blocks_of(page)]
[QUICKSTART] = [block for block in ALL_BLOCKS if block.text.endswith("python recipes/build.py\n")]
RUN = {"bash", "js", "python"}
BLOCKS = [b for b in ALL_BLOCKS if b is not QUICKSTART and b.language in RUN]
# Their programs need many libraries: `.ci/run` installs some, `benchmarks/clients.py` runs all of
# the first page.
OF_CLIENTS, OF_TABLES = "use_it_from", "from_table_to_answers"
# What cannot be had here.
SUBSTITUTES = {
    "hf auth login": f"python -m huggingface_hub.cli.hf auth login --token {TOKEN}",  # it would ask
    "ORG/": "org/",  # the organisation that the token may write to
    '--benchmark "MTEB(eng, v2)"': "--tasks STS12",  # the datasets of 41 tasks
    'ja-256 --benchmark "JMTEB(v2)"': "ja-256 --tasks JSTS",  # of 28
    "python -m pytest": "python -m pytest --version",  # these tests, in themselves
    "ray stop": f"python {ROOT / 'tests' / 'stop_ray.py'} 6379",  # which ends no other cluster
}
_ATTEMPTS = 4
SERVER = "127.0.0.1:8000"  # that a page has started
# Where a reader's `npm install` puts them.
MAKE_TICKETS = ROOT / "docs" / "from_table_to_answers" / "make_tickets.py"
NODE_MODULES = ROOT / "tests" / "javascript" / "node_modules"
BUSY = "while the machine was too busy"  # what publish says of a card's speeds
PIP_INSTALL = re.compile(
    r'(?:python -m pip install -c constraints\.txt -e "\.|pip install "st-static)'
    r'\[(?P<extras>[\w,]+)\]"(?: && )?|pip install (?P<package>[\w-]+)$'
)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
TEACHER = "sentence-transformers/all-MiniLM-L6-v2"
SMALL = {
    "vocabulary": {"size": 120, "min_count": 1},
    "selection": {"sentences_per_word": 2, "held_out": 64},
    "pca": {"n_components": 8},
    "distillation": {"max_steps": 20, "eval_steps": 10, "batch_size": 16, "groups_per_batch": 4},
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone of this repository as it is now, with small recipes and a reader's own text."""
    folder = tmp_path_factory.mktemp("readme") / "st_static"
    listed = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    for name in filter(os.path.exists, listed.split("\n")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    for name in ("quickstart", "minilm-256", "finetune", "queries-minilm", "parallel-256"):
        make_small(folder / f"recipes/{name}.yaml")
    write_files(folder)
    git = ["git", "-c", "user.name=reader", "-c", "user.email=reader@example.org"]
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "clone"], cwd=folder, check=True)
    return folder


def write_files(folder: Path) -> None:
    """A reader's own text, and the text and the program that the pages say to fetch."""
    texts = generated_sentences(80, seed=9)
    pairs = [
        {"anchor": a, "positive": b} for a, b in zip(texts[:40], texts[40:], strict=True) if a != b
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "texts.txt").write_text("Read rows from a file.\nIt rains today.\n")
    (folder / "node_modules").symlink_to(NODE_MODULES)
    (folder / "data").mkdir()
    text = "\n".join(generated_sentences(400)).encode()
    (folder / "open_text").mkdir()
    for place in ("data/ours.txt.xz", "open_text/ours.txt.xz"):
        (folder / place).write_bytes(lzma.compress(text))
    shutil.copyfile(MAKE_TICKETS, folder / MAKE_TICKETS.name)


def make_small(recipe: Path) -> None:
    """Less of everything, and the teacher of the Hub, which is tiny here."""
    values = yaml.safe_load(recipe.read_text())
    for section, small in SMALL.items():
        values[section] = {**values.get(section, {}), **small}
    if values["distillation"].get("target") == "vectors":
        del values["pca"]
    if "pairs" in values:
        values["distillation"]["matryoshka_dims"] = [8, 4]
        values["pairs"]["max_steps"] = 10
    values["corpus"]["max_documents"] = 400
    # Its weights are random, so that it understands nothing.
    values["teacher"] = {"model": TEACHER, "license": "apache-2.0", "expect": {}}
    recipe.write_text(yaml.safe_dump(values, sort_keys=False))


@pytest.fixture(scope="module")
def reader(clone, tmp_path_factory):
    """The environment of a reader, whose Hub is on the loopback."""
    hub = Hub()
    work = tmp_path_factory.mktemp("hub")
    teacher = save_tiny_teacher(work)
    hub.add(TEACHER, model_bytes(teacher))
    hub.add("minishlab/potion-base-8M", model_bytes(save_potion(work / "potion")))
    for task in ("STS12", "STS13", "JSTS", "JSICK"):
        about, [split] = mteb.get_task(task).metadata.dataset, mteb.get_task(task).eval_splits
        texts = generated_sentences(60, seed=7)
        scores = [float(i % 6) for i in range(30)]
        pairs = {"sentence1": texts[:30], "sentence2": texts[30:], "score": scores}
        files = {f"data/{split}-00000-of-00001.parquet": parquet(pairs)}
        hub.add(f"datasets/{about['path']}", files, about["revision"])
    about = mteb.get_task("NFCorpus").metadata.dataset
    hub.add(f"datasets/{about['path']}", search_files(texts), about["revision"])
    environment = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
    with hub.running():
        yield {
            **environment,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
            "PYTHONPATH": str(clone),
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(work / "home"),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
        }


def search_files(texts: list[str]) -> dict[str, bytes]:
    """A dataset of search: every text's first words are to find it."""
    ids, queries = [str(i) for i in range(len(texts))], [" ".join(t.split()[:2]) for t in texts]
    tables = {
        "corpus": {"_id": ids, "title": [""] * len(ids), "text": texts},
        "queries": {"_id": ids, "text": queries},
        "test": {"query-id": ids, "corpus-id": ids, "score": [1] * len(ids)},
    }
    configs = "".join(
        f"- config_name: {'default' if name == 'test' else name}\n"
        f"  data_files:\n  - split: {name}\n    path: {name}.parquet\n"
        for name in tables
    )
    files = {f"{name}.parquet": parquet(columns) for name, columns in tables.items()}
    return {**files, "README.md": f"---\nconfigs:\n{configs}---\n".encode()}


def save_potion(folder: Path) -> Path:
    """A model as Model2Vec saves it."""
    tokenizer = build_tokenizer(["read", "rows", "from", "a", "file", "it", "rains"])
    vectors = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 8))
    StaticModel(vectors.astype(np.float32), tokenizer, normalize=True).save_pretrained(folder)
    return folder


def parquet(columns: dict[str, list]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def check_install(match: re.Match[str]) -> str:
    """Check what pip would be told, and leave it out: it is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if match["extras"]:
        assert set(match["extras"].split(",")) <= project["optional-dependencies"].keys()
    elif match["package"] != project["name"]:
        assert f"\n{match['package']}==" in (ROOT / "constraints.txt").read_text()
    return ""


def as_run(line: str) -> str:
    """A line of a block with what cannot be had replaced."""
    line = PIP_INSTALL.sub(check_install, line)
    assert "pip install" not in line
    for printed, substitute in SUBSTITUTES.items():
        line = line.replace(printed, substitute)
    return line


def absent_packages(block: Block) -> set[str]:
    """The packages that a Python program imports and that are not installed here."""
    if block.language != "python":
        return set()
    nodes = list(ast.walk(ast.parse(block.text)))
    modules = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    packages = {name.partition(".")[0] for name in modules}
    return {name for name in packages if importlib.util.find_spec(name) is None}


def commands_of(block: Block) -> list[list[str]]:
    if block.language == "python":
        return [[sys.executable, "-c", block.text]]
    if block.language == "js":
        return [["node", "--input-type=module", "--eval", block.text]]
    lines = [as_run(line) for line in block.text.replace("\\\n", "").splitlines()]
    exports = "".join(f"{line}; " for line in lines if line.startswith("export "))
    return [["bash", "-c", exports + line] for line in lines if line]


def run_block(block: Block, folder: Path, reader: dict[str, str]) -> None:
    """Run a block; again, as a reader would, where speeds were measured beside other work."""
    for attempt in range(_ATTEMPTS):
        failure = failure_of(block, folder, reader)
        if failure is None:
            return
        assert attempt < _ATTEMPTS - 1, failure
        assert BUSY in failure, failure


def failure_of(block: Block, folder: Path, reader: dict[str, str]) -> str | None:
    """What the first command that fails prints, or all do that print what the page does not say."""
    printed = ""
    for command in commands_of(block):
        result = subprocess.run(
            command, cwd=folder, env=reader, capture_output=True, text=True, check=False
        )
        if result.returncode:
            return f"{command[-1]}\n{result.stdout}\n{result.stderr}"
        printed += result.stdout
    return None if not block.prints or is_alike(printed, block.prints) else printed


def is_alike(printed: str, expected: str) -> bool:
    """Whether texts are equal but for the last digits of numbers, which processors round."""
    words, others = (NUMBER.split(text) for text in (printed, expected))
    numbers, wanted = ([*map(float, NUMBER.findall(text))] for text in (printed, expected))
    return words == others and numbers == pytest.approx(wanted, rel=0.01, abs=0.011)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """Where libpq finds a PostgreSQL server that has pgvector; root's runs as another user."""
    pgserver = pytest.importorskip("pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    host = server.get_postmaster_info().socket_dir
    yield {"PGHOST": str(host), "PGUSER": "postgres", "PGDATABASE": "postgres"}
    server.cleanup()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server with OpenAI's API."""
    with serving(tmp_path_factory.mktemp("server")) as served:
        yield served.address


@pytest.fixture(scope="module")
def built(clone, reader):
    """The clone, in which the quickstart has been built."""
    run_block(QUICKSTART, clone, reader)
    return clone


def test_blocks_are_of_languages_that_are_run_and_nothing_is_replaced_in_vain():
    assert len(BLOCKS) > 20
    assert {block.language for block in ALL_BLOCKS} == {*RUN, "text", "yaml"}
    assert {b.page for b in ALL_BLOCKS if b.language == "text"} == {OF_CLIENTS}
    text = "".join(block.text for block in ALL_BLOCKS)
    assert all(printed in text for printed in SUBSTITUTES)
    assert len(mteb.get_benchmark("MTEB(eng, v2)").tasks) > 40


def test_blocks_of_yaml_are_recipes(tmp_path):
    for block in (block for block in ALL_BLOCKS if block.language == "yaml"):
        (tmp_path / "recipe.yaml").write_text(block.text)
        assert parse_build([str(tmp_path / "recipe.yaml")])


def test_code_of_the_readme_fits_the_width_of_the_start_page():
    lines = [line for block in blocks_of(ROOT / "README.md") for line in block.text.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_a_page_with_blocks_says_where_it_starts(page):
    blocks = [block for block in blocks_of(page) if block.language in RUN]
    words, text = words_of(page), "".join(block.text for block in blocks)
    is_installed = bool(INSTALLED.search(words))
    assert (IN_A_CLONE in words) + is_installed == bool(text)
    if is_installed:
        assert not re.search(r"recipes/|examples/|benchmarks/|constraints", text)
        assert ("models/quickstart" in text) == (AFTER_QUICKSTART in words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"{block.page}-{i}") for i, block in enumerate(BLOCKS)]
)
def test_a_block_runs_as_printed(block, built, reader, request):
    absent = absent_packages(block)
    if block.page == OF_TABLES:  # its first program makes what the others read
        first = next(b for b in BLOCKS if (b.page, b.language) == (OF_TABLES, "python"))
        absent |= absent_packages(first)
    if block.page in (OF_CLIENTS, OF_TABLES) and absent:
        pytest.skip(f"Install {', '.join(sorted(absent))}; tests/clients.txt has some.")
    if block.language == "js" and not (shutil.which("node") and NODE_MODULES.is_dir()):
        pytest.skip("Needs node, and npm ci --ignore-scripts in tests/javascript.")
    folder = built.parent / block.page
    page = ROOT / "docs" / f"{block.page}.md"
    in_a_clone = block.page == "README" or IN_A_CLONE in words_of(page)
    if not folder.is_dir() and in_a_clone:
        shutil.copytree(built, folder, symlinks=True)
    elif not folder.is_dir():
        folder.mkdir()
        write_files(folder)
        for name in ("models", "work") if AFTER_QUICKSTART in words_of(page) else ():
            shutil.copytree(built / name, folder / name)
    database = request.getfixturevalue("postgres") if "psycopg" in block.text else {}
    if SERVER in block.text:
        address = request.getfixturevalue("server")
        block = block._replace(text=block.text.replace(SERVER, address))
    run_block(block, folder, reader | database)
    if in_a_clone:
        assert not subprocess.check_output(["git", "status", "--porcelain"], cwd=folder)
