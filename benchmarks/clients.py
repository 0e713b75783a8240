"""Which libraries load a model, in which release, and whether they give its vectors.

    python benchmarks/clients.py MODEL --environments DIR [--only ENVIRONMENT …] [--write]

runs the programs of docs/use_it_from.md on the model's folder MODEL and on 200 texts, many of them
odd, each where its library is: in an environment in the folder DIR. Compares the vectors with those
of the newest sentence-transformers, and prints a Markdown table, or writes it into the page with
--write. Environments that are missing are made, which takes minutes, pip, npm and 6 GB. They want
the build of torch for processors alone: where pip does not find it, set
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu. Programs run without the network. Some
need onnx/model.onnx in the folder: st-static export MODEL --onnx.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "use_it_from.md"
MARKERS = ("<!-- clients: start -->\n", "<!-- clients: end -->")
TOLERANCE = 1e-6
TIMEOUT = 600  # seconds
TORCH = "torch==2.13.0+cpu"
# Releases that share an environment are installed one after the other, to save gigabytes.
ENVIRONMENTS = {
    "transformers-4": [TORCH, "sentence-transformers", "transformers<5", "huggingface_hub<1"],
    "model2vec": ["model2vec"],
    "st_static": ["-e", str(ROOT), TORCH, "langchain-core", "llama-index-core"],
    "newest": [
        *(TORCH, "sentence-transformers", "model2vec", "langchain-huggingface", "haystack-ai"),
        *("sentence-transformers-haystack", "txtai", "chromadb", "lancedb", "fastembed"),
        *("llama-index-embeddings-huggingface", "bertopic", "keybert"),
    ],
    "node": ["@huggingface/transformers"],
}
# Nothing on the page, because it does not work: its class asks for a finite length, and for one
# that can be set.
LLAMA_INDEX = """
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
vectors = HuggingFaceEmbedding(model_name=model).get_text_embedding_batch(texts)
"""
# What a program begins and ends with, instead of the lines that name a model and texts.
AROUND = {
    "python": (
        "import json, sys\nmodel = {model}\ntexts = json.load(open({texts}))\n",
        "import numpy\nfound = numpy.asarray(vectors, dtype=numpy.float32).tolist()\n"
        "json.dump(found, open({output}, 'w'))\n",
    ),
    "js": (
        'import {{ readFileSync, writeFileSync }} from "node:fs";\nconst model = {model};\n'
        'const texts = JSON.parse(readFileSync({texts}, "utf8"));\n',
        "writeFileSync({output}, JSON.stringify(vectors));\n",
    ),
}


@dataclass(frozen=True)
class Client:
    """A library in a release."""

    name: str  # as in the table
    package: str  # whose version is told
    environment: str = "newest"
    section: str = ""  # the page's heading above its program; by default the name
    block: int = 0  # which of the section's programs
    release: str = ""  # installed first; by default the environment is as it was made
    change: tuple[str, str] = ("", "")  # a part of the program, and what is to stand there
    program: str = ""  # instead of one of the page

    @property
    def heading(self) -> str:
        """The page's heading above its program."""
        return self.section or self.name


def _releases(name: str, package: str, environment: str, *releases: str) -> list[Client]:
    return [Client(name, package, environment, release=release) for release in releases]


CLIENTS = [
    Client("sentence-transformers", "sentence-transformers"),
    *_releases(
        *("sentence-transformers", "sentence-transformers", "transformers-4"),
        *("sentence-transformers==5.1.*", "sentence-transformers==4.1.*"),
        *("sentence-transformers==3.4.1", "sentence-transformers==3.4.0"),
        "sentence-transformers==3.2.*",
    ),
    Client("FastEncoder", "st-static", "st_static"),
    Client("Model2Vec", "model2vec"),
    *_releases(
        *("Model2Vec", "model2vec", "model2vec"),
        *("model2vec==0.8.*", "model2vec==0.5.*", "model2vec==0.3.*"),
    ),
    Client(
        *("Model2Vec, without `max_length`", "model2vec", "model2vec", "Model2Vec"),
        release="model2vec==0.8.*",
        change=(", max_length=None", ""),
    ),
    Client("LangChain, FastEncoder", "langchain-core", "st_static", "LangChain"),
    Client("LangChain, HuggingFaceEmbeddings", "langchain-huggingface", "newest", "LangChain", 1),
    Client("LlamaIndex, FastEncoder", "llama-index-core", "st_static", "LlamaIndex"),
    Client(
        *("LlamaIndex, HuggingFaceEmbedding", "llama-index-embeddings-huggingface"),
        program=LLAMA_INDEX,
    ),
    Client("Haystack", "haystack-ai"),
    Client("txtai", "txtai"),
    Client("Chroma", "chromadb"),
    Client("LanceDB", "lancedb"),
    Client("BERTopic", "bertopic"),
    Client("KeyBERT", "keybert"),
    Client("fastembed", "fastembed"),
    *_releases(
        *("transformers.js", "@huggingface/transformers", "node"),
        *("@huggingface/transformers@4", "@huggingface/transformers@3"),
    ),
]


def texts() -> list[str]:
    """200 texts, a third of them odd."""
    things = ["file", "row", "list", "string", "path", "error", "module", "loop", "number", "date"]
    verbs = ["Read", "Parse", "Sort", "Write", "Open", "Compare", "Delete"]
    plain = [f"{verb} a {thing} before it rains." for verb in verbs for thing in things]
    plain += [
        f"How do I {verb.lower()} two {thing}s at once?" for verb in verbs for thing in things
    ]
    unknown = ["ᚠᛇᚻ", "𓀀𓁐", "\ue000\ue001", "ᚠ ᛇ ᚻ", "x" * 101]
    empty = ["", " ", "\n\t", "!!!", "…", "\u200b", "[PAD]"]
    shouted = [text.upper() for text in plain[:8]]
    scripts = [
        "東京タワーは赤い。",
        "我喜欢读书",
        "한국어 문장",
        "русский текст",
        "नमस्ते दुनिया",
        "مرحبا بالعالم",
    ]
    emoji = ["😀", "👩‍👩‍👧 family", "read 📄 rows", "🇯🇵", "naïve café", "\uff46\uff55\uff4c\uff4c"]
    html = ["<b>bold</b> file", "<script>alert(1)</script>", "&amp; &lt;", '<a href="x">a</a>']
    control = [
        *("read\x00file", "a\x07b", "line\r\nbreak", "tab\there", "\x1b[31mred"),
        "soft\xadhyphen",
    ]
    numbers = ["3.14159", "1,000,000", "2026-11-23", "0xFF", "v6.2.0", "£5", "x²", "a_b_c"]
    long = [
        "word " * 10_000,
        "read rows from a file " * 2_000,
        "東京 " * 600,
        "a" * 5_000 + " file",
    ]
    odd = [*unknown, *empty, *shouted, *scripts, *emoji, *html, *control, *numbers, *long]
    found = [*plain, *odd]
    return found + [f"{text} {i}" for i, text in enumerate(plain[: 200 - len(found)])]


def programs(page: str, language: str) -> dict[str, list[str]]:
    """The programs of a page in a language, by the heading that they stand under."""
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    block = re.compile(rf"^```{language}\n(.*?)^```$", re.M | re.S)
    return {heading: block.findall(text) for heading, text in sections}


def program_of(client: Client, page: str, **values: str) -> str:
    """A client's program, with another model and other texts than the page's."""
    language = "js" if client.environment == "node" else "python"
    code = client.program or programs(page, language)[client.heading][client.block]
    before, change = client.change
    assert before in code, f"{before!r} is not in the program under {client.heading}."
    code = code.replace(before, change) if before else code
    given, finish = AROUND[language]
    own = re.compile(r"^(const )?(model|texts) = .*\n", re.M)
    assert client.program or len(own.findall(code)) == 2, f"No model and texts: {client.heading}."
    literals = {name: json.dumps(value) for name, value in values.items()}
    return given.format(**literals) + own.sub("", code) + finish.format(**literals)


class Environment:
    """A folder of packages with what runs programs: Python's virtual ones, or node's modules."""

    def __init__(self, name: str, parent: Path) -> None:
        self.name, self.folder = name, parent / name
        self.is_node = name == "node"
        self.python = self.folder / "bin" / "python"
        self._make()

    def _make(self) -> None:
        """Make it unless it is there and whole."""
        requirements = ENVIRONMENTS[self.name]
        done = self.folder / "complete.json"
        if done.is_file() and json.loads(done.read_text()) == requirements:
            return
        print(f"Making {self.folder}", file=sys.stderr)
        if self.is_node:
            self.folder.mkdir(exist_ok=True)
        else:
            venv.create(self.folder, with_pip=True, clear=True)
        self.install(*requirements)
        done.write_text(json.dumps(requirements))

    def install(self, *packages: str) -> None:
        """Install packages; what is there and fits stays."""
        if self.is_node:
            # The scripts of its packages fetch libraries for graphics cards.
            command = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", self.folder]
        else:
            command = [self.python, "-m", "pip", "install", "--quiet"]
        if subprocess.run([*command, *packages], check=False).returncode:
            sys.exit(f"{command[0]} did not install {' '.join(packages)} in {self.folder}.")

    def version(self, package: str) -> str:
        """The release of a package."""
        if self.is_node:
            about = self.folder / "node_modules" / package / "package.json"
            return str(json.loads(about.read_text())["version"])
        code = f"from importlib.metadata import version; print(version({package!r}))"
        return subprocess.check_output([self.python, "-c", code], text=True).strip()

    def run(self, code: str) -> str:
        """Run a program in the folder; what it says on stderr if it fails, else nothing."""
        script = self.folder / ("program.mjs" if self.is_node else "program.py")
        script.write_text(code, "utf-8")
        try:
            result = subprocess.run(
                ["node" if self.is_node else self.python, script],
                cwd=self.folder,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False"},
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"more than {TIMEOUT} seconds"
        return result.stderr or "no output" if result.returncode else ""


def vectors_of(
    client: Client, environment: Environment, model: Path, texts: list[str]
) -> NDArray[np.float32] | str:
    """A client's vectors [B, D], or the line that says why there are none."""
    files = {name: environment.folder / f"{name}.json" for name in ("texts", "output")}
    files["texts"].write_text(json.dumps(texts))
    # In transformers.js a model's name is never an absolute path.
    name = os.path.relpath(model, environment.folder) if environment.is_node else str(model)
    values = {kind: str(file) for kind, file in files.items()}
    code = program_of(client, PAGE.read_text("utf-8"), model=name, **values)
    if said := environment.run(code):
        errors = re.findall(r"^\S*(?:Error|Exception|Fail|File)\b.*$", said, re.M)
        return str((errors or said.strip().splitlines())[-1])
    return np.array(json.loads(files["output"].read_text()), dtype=np.float32)


def what_differs(
    found: NDArray[np.float32], expected: NDArray[np.float32], texts: list[str]
) -> str:
    """Which texts [B] have other vectors than expected [B, D], by their kind."""
    differ = ~(np.abs(found - expected).max(axis=1) <= TOLERANCE)
    has_no_word = ~expected.any(axis=1)
    is_long = np.array([len(text.split()) > 512 for text in texts])
    kinds = {
        "without a known word": has_no_word,
        "of more than 512 words": is_long & ~has_no_word,
        "other": ~is_long & ~has_no_word,
    }
    said = []
    for kind, members in kinds.items():
        if count := int((differ & members).sum()):
            is_nan = np.isnan(found[differ & members]).any()
            said.append(f"{count} {kind}{': NaN' if is_nan else ''}")
    return ", ".join(said) or "none"


def row(
    client: Client,
    release: str,
    found: NDArray[np.float32] | str,
    expected: NDArray[np.float32],
    texts: list[str],
) -> str:
    """A row of the table."""
    if isinstance(found, str):
        return f"| {client.name} | {release} | no: `{found[:90]}` | | |"
    if found.shape != expected.shape:
        return f"| {client.name} | {release} | yes | shape {found.shape} | all |"
    largest = np.nanmax(np.abs(found - expected))
    said = what_differs(found, expected, texts)
    return f"| {client.name} | {release} | yes | {largest:.0e} | {said} |"


def measure(clients: list[Client], model: Path, parent: Path) -> list[str]:
    """The table's lines."""
    lines = ["| client | release | loads | largest difference | texts that differ |"]
    lines.append("|---|---|---|---|---|")
    parent.mkdir(parents=True, exist_ok=True)
    all_texts, newest = texts(), CLIENTS[0]
    expected = vectors_of(newest, Environment(newest.environment, parent), model, all_texts)
    assert not isinstance(expected, str), expected
    for client in clients:
        environment = Environment(client.environment, parent)
        if client.release:
            environment.install(client.release)
        found = vectors_of(client, environment, model, all_texts)
        release = environment.version(client.package)
        lines.append(row(client, release, found, expected, all_texts))
        print(lines[-1], file=sys.stderr)
    return lines


def write(lines: list[str]) -> None:
    """Put the table between the page's markers."""
    before, rest = PAGE.read_text("utf-8").split(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    table = "".join(f"{line}\n" for line in lines)
    PAGE.write_text(f"{before}{MARKERS[0]}{table}{MARKERS[1]}{after}", "utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=ENVIRONMENTS, help="whose clients run")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    options = parser.parse_args()
    if not (options.model / "modules.json").is_file():
        parser.error(f"expected a model's folder, but {options.model} has no modules.json")
    if options.only and options.write:
        parser.error("--write needs all clients: leave out --only")
    clients = [c for c in CLIENTS if not options.only or c.environment in options.only]
    if any(c.environment == "node" for c in clients) and not shutil.which("npm"):
        parser.error("npm is missing: install node, or name environments without it by --only")
    lines = measure(clients, options.model.resolve(), options.environments.resolve())
    if options.write:
        write(lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
