"""The base install encodes; where a job needs more, one line says which extra brings it.

Each test runs twice: here, with every package hidden that the base install does not bring; and,
slow, in an environment that has the wheel alone, which `.ci/run` makes.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from installs import hide, installed_with, modules_beyond, python_of
from test_readme import ALL_BLOCKS

from st_static import Ensemble, FastEncoder

WITHOUT_RAY = 'Error: The engine ray needs ray: pip install "st-static[cluster]".\n'
BEYOND_THE_BASE = ("torch", "sentence_transformers", "transformers", "sklearn", "xxhash")
ENCODE = """
import io
import numpy as np
import st_static
from st_static import Ensemble, FastEncoder
from st_static.texts.text_files import TextReader
model, texts, folder = sys.argv[1], sys.argv[2].splitlines(), sys.argv[3]
encoder = FastEncoder.from_pretrained(model)
np.save(f"{folder}/encoder.npy", encoder.encode(texts))
ensemble = Ensemble([encoder, encoder], weights=[1.0, 0.5])
np.save(f"{folder}/ensemble.npy", ensemble.encode(texts))
fused = ensemble.fuse()
np.save(f"{folder}/fused.npy", fused.encode(texts))
fused.save_pretrained(f"{folder}/fused")
fused.export_calibrated(f"{folder}/calibrated", texts)
calibrated = FastEncoder.from_pretrained(f"{folder}/calibrated")
np.save(f"{folder}/calibrated.npy", calibrated.encode(texts))
saved = FastEncoder.from_pretrained(f"{folder}/fused")
np.testing.assert_allclose(saved.encode(texts), ensemble.encode(texts), atol=1e-5)
assert saved.encode_to(f"{folder}/v.parquet", ["a"] * 9) == 9
reader = TextReader(io.BytesIO(b"text\\na ship\\n"), "csv")
assert encoder.write(reader, io.BytesIO()).rows == 1
assert encoder.similarity(*[encoder.encode(["a", "ship"])] * 2).shape == (2, 2)
tuned = ensemble.tune(lambda ensemble: ensemble.weights[1])
assert tuned.ensemble.weights[1] > 7
"""


# Runs commands one after another; what each returned and said.
COMMANDS = """
import contextlib, io, json
from st_static.cli import main
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            status = main(arguments)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


@dataclass
class Base:
    """A Python that has the base install only.

    Attributes:
        python: Its executable.
        prelude: Code that runs first.
    """

    python: Path
    prelude: str

    def run(self, code: str, *arguments: str) -> str:
        """What code prints in a new process, which must end without an error."""
        done = subprocess.run(
            # -P: not the checkout's modules, from the folder that this is run in.
            [str(self.python), "-P", "-c", f"import sys\n{self.prelude}\n{code}", *arguments],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def commands(self, *lines: str) -> list[tuple[int, str, str]]:
        """Run `st-static` with each line of arguments: its status, stdout and stderr."""
        arguments = json.dumps([line.split() for line in lines])
        return [tuple(json.loads(line)) for line in self.run(COMMANDS, arguments).splitlines()]


@pytest.fixture(scope="module", params=["hidden", pytest.param("alone", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest) -> Base:
    if request.param == "hidden":
        return Base(Path(sys.executable), hide(modules_beyond(installed_with())))
    return Base(python_of("base"), "")


def test_the_base_is_small(base: Base) -> None:
    find = "from importlib.util import find_spec; print([*filter(find_spec, sys.argv[1:])])"
    assert base.run(find, *BEYOND_THE_BASE) == "[]\n"


def test_texts_become_vectors(base, built, sentences, tmp_path) -> None:
    base.run(ENCODE, str(built / "model"), "\n".join(sentences), str(tmp_path))
    encoder = FastEncoder.from_pretrained(built / "model")
    ensemble = Ensemble([encoder, encoder], weights=[1.0, 0.5])
    expected = {"encoder": encoder, "ensemble": ensemble, "fused": ensemble.fuse()}
    for name, encodes in expected.items():
        vectors = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(vectors, encodes.encode(sentences), rtol=0, atol=1e-6)
    assert len(np.load(tmp_path / "calibrated.npy")) == len(sentences)
    assert (tmp_path / "fused" / "modules.json").is_file()


def test_the_readmes_first_program_needs_no_more(base) -> None:
    [program, *_] = [b for b in ALL_BLOCKS if (b.page, b.language) == ("README", "python")]
    assert base.run(program.text) == program.prints


def test_commands_that_need_no_more(base, built, sentences, tmp_path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(sentences), "utf-8")
    (tmp_path / "vectors.txt").write_text("the 1 0\ndog 0 1\n")
    model, texts = built / "model", tmp_path / "texts.txt"
    done = base.commands(
        f"encode {model} --input {texts} --output {tmp_path}/vectors.npy",
        f"convert {tmp_path}/vectors.txt {tmp_path}/words --license mit --teacher org/teacher",
        f"demo {model} --output {tmp_path}/demo",
        f"demo st-static/english-384 --output {tmp_path}/english",
        f"export {model} --output {tmp_path}/bytes --dtype int8",
        f"search {model} --input {texts} keeper",
        f"explain {model} Badefi Badefi",
        "--help",
        "--version",
    )
    assert [status for status, *_ in done] == [0] * len(done), done
    explained, usage, version = (printed for _, printed, _ in done[-3:])
    assert "cosine: 1.000000" in explained
    assert "usage: st-static" in usage
    assert version.startswith("st-static ")
    expected = FastEncoder.from_pretrained(model).encode(sentences)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, rtol=0, atol=1e-6)
    assert FastEncoder.from_pretrained(tmp_path / "words").encode(["Dog!"]).tolist() == [[0, 1]]
    assert FastEncoder.from_pretrained(tmp_path / "bytes").encode("Badefi").any()
    assert (tmp_path / "demo" / "model" / "table.safetensors").is_file()
    assert (tmp_path / "english" / "index.html").is_file()


# Arguments, what it is that needs more, and the extra that brings it.
NEED_MORE = [
    ("build", "This command", "build"),
    ("build --help", "This command", "build"),
    ("evaluate {model} --tasks STS12", "This command", "eval"),
    ("compare results/model/local", "This command", "eval"),
    ("analyse {model} --work_dir {model}", "This command", "eval"),
    ("card {model}", "This command", "publish"),
    ("publish {model} org/name", "This command", "publish"),
    ("export {model} --output {folder}/onnx --onnx", "This command", "onnx"),
    ("convert {folder}/v.txt {folder}/words --language en", "The option --language", "build"),
    ("explain {model} a b --figure {folder}/a.png", "The option --figure", "eval"),
    ("search {model} --input {folder}/v.txt a --where text='a'", "The option --where", "sql"),
    (
        "encode {model} --input {folder}/lake --output {folder}/o --engine ray",
        "The engine ray",
        "cluster",
    ),
]


def test_a_command_names_the_extra_it_needs_and_writes_nothing(base, built, tmp_path) -> None:
    (tmp_path / "v.txt").write_text("the 1 0\ndog 0 1\n")
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({"text": ["the old keeper"]}), tmp_path / "lake" / "in.parquet")
    lines = [line.format(model=built / "model", folder=tmp_path) for line, *_ in NEED_MORE]
    for (line, what, extra), said in zip(NEED_MORE, base.commands(*lines), strict=True):
        needs = rf'Error: {what} needs [\w-]+: pip install "st-static\[{extra}\]"\.\n'
        assert said[:2] == (1, ""), line
        assert re.fullmatch(needs, said[2]), (line, said)
    assert not {"onnx", "words", "a.png"} & {path.name for path in tmp_path.iterdir()}


def test_names_of_extras_are_not_listed_without_them(base) -> None:
    program = "import pydoc, st_static; print(*dir(st_static)); print(pydoc.render_doc(st_static))"
    listed = base.run(program).splitlines()[0].split()
    assert {"FastEncoder", "SearchIndex", "Ensemble"} < set(listed)
    assert not {"build", "SparseTrainer", "draw_tuning", "export_onnx"} & set(listed)


def test_building_on_a_cluster_names_its_extra(built_config, tmp_path) -> None:
    """Where there is all that a build needs without one."""
    base = Base(Path(sys.executable), hide(modules_beyond(installed_with("build"))))
    options = f"--teacher.model {built_config.teacher.model} --work_dir {tmp_path}/w --engine ray"
    [said] = base.commands(f"build {options} --corpus.files {built_config.corpus.files}")
    assert said == (1, "", WITHOUT_RAY)
    assert not (tmp_path / "w").exists()


def test_a_name_tells_the_extra_it_needs(base: Base) -> None:
    extras = {
        "SentencePCA": "build",
        "SimilarityDistillationLoss": "build",
        "SparseTrainer": "build",
        "StaticWordEmbedding": "build",
        "build": "build",
        "distill_into": "build",
        "draw_tuning": "eval",
        "export_onnx": "onnx",
    }
    program = "for name in sys.argv[1:]:\n    try:\n        exec(f'from st_static import {name}')\n"
    program += "    except Exception as error:\n        print(type(error).__name__, error)\n"
    said = base.run(program, *extras).splitlines()
    for (name, extra), line in zip(extras.items(), said, strict=True):
        assert line.startswith(f"DependencyError st_static.{name} needs ")
        assert line.endswith(f': pip install "st-static[{extra}]".')
