"""The base install encodes; where a job needs more, one line says which extra brings it.

Each test runs twice: here, with every package hidden that the base install does not bring; and,
slow, in an environment that has the wheel alone, which `.ci/run` makes.
"""

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


@dataclass
class Base:
    """A Python that has the base install only.

    Attributes:
        python: Its executable.
        prelude: Code that runs first.
    """

    python: Path
    prelude: str

    def run(self, code: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
        """Run code in a new process."""
        return subprocess.run(
            # -P: not the checkout's modules, from the folder that this is run in.
            [str(self.python), "-P", "-c", f"import sys\n{self.prelude}\n{code}", *arguments],
            input=stdin,
            capture_output=True,
            check=False,
        )

    def command(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
        """Run `st-static`."""
        code = "from st_static.cli import main; sys.exit(main())"
        return self.run(code, *arguments, stdin=stdin)


@pytest.fixture(params=["hidden", pytest.param("alone", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest) -> Base:
    if request.param == "hidden":
        modules = modules_beyond(installed_with())
        return Base(Path(sys.executable), hide(modules))
    return Base(python_of("base"), "")


def test_the_base_is_small(base: Base) -> None:
    for module in BEYOND_THE_BASE:
        assert b"ModuleNotFoundError" in base.run(f"import {module}").stderr


def test_texts_become_vectors(base, built, sentences, tmp_path) -> None:
    result = base.run(ENCODE, str(built / "model"), "\n".join(sentences), str(tmp_path))
    assert result.returncode == 0, result.stderr.decode()
    encoder = FastEncoder.from_pretrained(built / "model")
    ensemble = Ensemble([encoder, encoder], weights=[1.0, 0.5])
    expected = {"encoder": encoder, "ensemble": ensemble, "fused": ensemble.fuse()}
    for name, encodes in expected.items():
        vectors = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(vectors, encodes.encode(sentences), rtol=0, atol=1e-6)
    assert len(np.load(tmp_path / "calibrated.npy")) == len(sentences)
    assert (tmp_path / "fused" / "modules.json").is_file()


def test_the_readmes_first_program_and_a_page_of_its_model_need_no_more(base, tmp_path) -> None:
    [program, *_] = [b for b in ALL_BLOCKS if (b.page, b.language) == ("README", "python")]
    result = base.run(program.text)
    assert (result.returncode, result.stdout.decode()) == (0, program.prints), result.stderr
    result = base.command("demo", "st-static/english-512", "--output", str(tmp_path / "demo"))
    assert result.returncode == 0, result.stderr.decode()
    assert (tmp_path / "demo" / "index.html").is_file()


def test_the_command_encodes(base, built, sentences, tmp_path) -> None:
    output = tmp_path / "vectors.npy"
    arguments = ["encode", str(built / "model"), "--output", str(output)]
    result = base.command(*arguments, stdin="\n".join(sentences).encode())
    assert result.returncode == 0, result.stderr.decode()
    expected = FastEncoder.from_pretrained(built / "model").encode(sentences)
    np.testing.assert_allclose(np.load(output), expected, rtol=0, atol=1e-6)


def test_the_command_converts_text_vectors(base, tmp_path) -> None:
    (tmp_path / "v.txt").write_text("the 1 0\ndog 0 1\n")
    arguments = [str(tmp_path / "v.txt"), str(tmp_path / "model")]
    result = base.command("convert", *arguments, "--license", "mit", "--teacher", "org/teacher")
    assert result.returncode == 0, result.stderr.decode()
    vectors = FastEncoder.from_pretrained(tmp_path / "model").encode(["Dog!"])
    assert vectors.tolist() == [[0, 1]]
    result = base.command("convert", *arguments, "--language", "en")
    assert (result.returncode, result.stderr.decode().strip()) == (
        1,
        'Error: The option --language needs langcodes: pip install "st-static[build]".',
    )


def test_the_command_writes_a_demo(base, built, tmp_path) -> None:
    result = base.command("demo", str(built / "model"), "--output", str(tmp_path / "demo"))
    assert result.returncode == 0, result.stderr.decode()
    assert (tmp_path / "demo" / "model" / "table.safetensors").is_file()


def test_the_command_exports_another_format(base, built, tmp_path) -> None:
    arguments = [str(built / "model"), "--output", str(tmp_path / "model"), "--dtype", "int8"]
    result = base.command("export", *arguments)
    assert result.returncode == 0, result.stderr.decode()
    assert FastEncoder.from_pretrained(tmp_path / "model").encode("Badefi").any()


def test_the_command_explains(base, built) -> None:
    pair = ["explain", str(built / "model"), "Badefi", "Badefi"]
    result = base.command(*pair)
    assert result.returncode == 0, result.stderr.decode()
    assert "cosine: 1.000000" in result.stdout.decode()
    result = base.command(*pair, "--figure", "pair.png")
    assert (result.returncode, result.stderr.decode().strip()) == (
        1,
        'Error: The option --figure needs matplotlib: pip install "st-static[eval]".',
    )


def test_the_command_searches_and_names_what_a_condition_needs(base, built, tmp_path) -> None:
    (tmp_path / "texts.txt").write_text("Badefi\n")
    search = ["search", str(built / "model"), "--input", str(tmp_path / "texts.txt"), "Badefi"]
    result = base.command(*search)
    assert result.returncode == 0, result.stderr.decode()
    result = base.command(*search, "--where", "text = 'Badefi'")
    assert (result.returncode, result.stderr.decode().strip()) == (
        1,
        'Error: The option --where needs duckdb: pip install "st-static[sql]".',
    )


def test_names_of_extras_are_not_listed_without_them(base) -> None:
    program = "import pydoc, st_static; print(*dir(st_static)); print(pydoc.render_doc(st_static))"
    result = base.run(program)
    assert result.returncode == 0, result.stderr.decode()
    listed = result.stdout.decode().splitlines()[0].split()
    assert {"FastEncoder", "SearchIndex", "Ensemble"} < set(listed)
    assert not {"build", "SparseTrainer", "draw_tuning", "export_onnx"} & set(listed)


def test_help_and_version_need_nothing_else(base) -> None:
    for option in ("--help", "--version"):
        result = base.command(option)
        assert (result.returncode, result.stderr) == (0, b"")
        assert b"st-static" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("build", "build"),
        ("build --help", "build"),
        ("evaluate {model} --tasks STS12", "eval"),
        ("compare results/model/local", "eval"),
        ("analyse {model} --work_dir {model}", "eval"),
        ("card {model}", "publish"),
        ("publish {model} org/name", "publish"),
        ("export {model} --onnx", "onnx"),
    ],
)
def test_a_command_names_the_extra_it_needs(base, built, arguments: str, extra: str) -> None:
    result = base.command(*arguments.format(model=built / "model").split())
    said = result.stderr.decode()
    assert result.returncode == 1, said
    assert result.stdout == b""
    assert said.startswith("Error: This command needs ")
    assert said.endswith(f': pip install "st-static[{extra}]".\n')
    assert said.count("\n") == 1


def test_nothing_is_exported_where_onnx_is_missing(base, built, tmp_path) -> None:
    arguments = ["export", str(built / "model"), "--output", str(tmp_path / "m"), "--onnx"]
    assert base.command(*arguments).returncode == 1
    assert not (tmp_path / "m").exists()


def test_encoding_on_a_cluster_names_its_extra(base, built, tmp_path) -> None:
    pq.write_table(pa.table({"text": ["the old keeper"]}), tmp_path / "in.parquet")
    folders = ["--input", str(tmp_path), "--output", str(tmp_path.with_name("vectors"))]
    result = base.command("encode", str(built / "model"), *folders, "--engine", "ray")
    assert (result.returncode, result.stderr.decode()) == (1, WITHOUT_RAY)


def test_building_on_a_cluster_names_its_extra(built_config, tmp_path) -> None:
    """Where there is all that a build needs without one."""
    base = Base(Path(sys.executable), hide(modules_beyond(installed_with("build"))))
    teacher, corpus = built_config.teacher.model, built_config.corpus.files
    options = ["--teacher.model", teacher, "--corpus.files", corpus, "--work_dir", tmp_path / "w"]
    result = base.command("build", *map(str, options), "--engine", "ray")
    assert (result.returncode, result.stderr.decode()) == (1, WITHOUT_RAY)
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("SentencePCA", "build"),
        ("SimilarityDistillationLoss", "build"),
        ("SparseTrainer", "build"),
        ("StaticWordEmbedding", "build"),
        ("build", "build"),
        ("distill_into", "build"),
        ("draw_tuning", "eval"),
        ("export_onnx", "onnx"),
    ],
)
def test_a_name_tells_the_extra_it_needs(base: Base, name: str, extra: str) -> None:
    result = base.run(f"from st_static import {name}")
    last = result.stderr.decode().splitlines()[-1]
    assert last.startswith(f"st_static.dependencies.DependencyError: st_static.{name} needs ")
    assert last.endswith(f': pip install "st-static[{extra}]".')
