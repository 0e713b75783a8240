"""`import st_static` is light, and its names are there when they are asked for."""

import json
import subprocess
import sys

import pytest
from installs import hide, installed_with, modules_beyond

import st_static

HEAVY = {"torch", "transformers", "sentence_transformers", "sklearn", "datasets", "pandas"}


def modules_after(statement: str) -> set[str]:
    """The top-level modules that are loaded after a statement in a new process."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


@pytest.mark.parametrize(
    "statement",
    [
        "import st_static",
        "from st_static import BuildConfig",
        "from st_static.commands.build import parse_build; parse_build([])",
        # Worker processes load these, one each.
        "from st_static.distill.corpus import selection, sentences, vocabulary",
    ],
)
def test_heavy_libraries_are_not_loaded_by(statement: str) -> None:
    loaded = modules_after(statement)
    assert "st_static" in loaded
    assert loaded.isdisjoint(HEAVY)


ENCODE_A_FILE = """
import io, numpy as np, st_static.texts.text_files as files
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer
model = StaticModel(build_tokenizer(['a', 'ship']), np.ones((9, 2)), normalize=True)
texts = files.TextReader(io.BytesIO('A ship.\\nÀ [MASK] café!'.encode()), 'txt')
assert FastEncoder(model).write(texts, io.BytesIO()).rows == 2
"""
ENCODE_A_LONG_FILE = f"""{ENCODE_A_FILE}
texts = files.TextReader(io.BytesIO(b'A ship.\\n' * 400_000), 'txt')
assert FastEncoder(model).write(texts, io.BytesIO()).rows == 400_000
"""
# What the extras bring; the rest of the code runs where nothing of it is installed.
ENCODE_AND_FUSE = """
import io, sys, numpy as np
from st_static import Ensemble, FastEncoder, read_named
from st_static.texts.text_files import TextReader
from st_static.model.export import export_model
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer
tokenizer = build_tokenizer(['a', 'ship'])
table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 2)).astype(np.float32)
folder = sys.argv[1]
export_model(folder + '/one', table, tokenizer, {})
one, two = FastEncoder.from_pretrained(folder + '/one'), FastEncoder(read_named(folder + '/one'))
fused = Ensemble([one, two]).fuse()
fused.save_pretrained(folder + '/exact')
fused.export_calibrated(folder + '/calibrated', ['a ship'])
saved = FastEncoder.from_pretrained(folder + '/exact')
np.testing.assert_allclose(saved.encode(['a ship']), Ensemble([one, two]).encode(['a ship']), 1e-5)
assert saved.encode_to(folder + '/v.parquet', ['a'] * 9) == 9
reader = TextReader(io.BytesIO(b'text\\na ship\\n'), 'csv')
assert one.write(reader, io.BytesIO()).rows == 1
assert one.similarity(*[one.encode(['a', 'ship'])] * 2).shape == (2, 2)
try:
    Ensemble([one, two]).tune(lambda ensemble: 0)
except ImportError as error:
    assert str(error) == 'Ensemble.tune needs scipy: pip install "st-static[build]".'
else:
    raise AssertionError('scipy is there')
assert Ensemble([one]).tune(lambda ensemble: 1).score == 1
"""


def test_encoding_and_fusing_need_none_of_the_extras(tmp_path) -> None:
    code = hide(modules_beyond(installed_with())) + ENCODE_AND_FUSE
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


LIST_A_BENCHMARK = """
import st_static.publish.card_inputs
from st_static.evaluate.tasks import benchmark_tasks
assert len(benchmark_tasks('MTEB(eng, v1)')) == 56
"""


@pytest.mark.parametrize(
    ("code", "needed", "not_needed"),
    [
        (ENCODE_A_FILE, "pyarrow", {"pandas", "torch"}),
        (ENCODE_A_LONG_FILE, "torch", {"pandas"}),
        (LIST_A_BENCHMARK, "mteb", {"torch"}),
    ],
)
def test_what_is_not_needed_is_not_loaded(code: str, needed: str, not_needed: set[str]) -> None:
    loaded = modules_after(code)
    assert needed in loaded
    assert loaded.isdisjoint(not_needed)


def test_importing_the_package_loads_nothing_but_python() -> None:
    third_party = modules_after("import st_static") - modules_after("pass")
    assert third_party <= {"st_static", *sys.stdlib_module_names}


@pytest.mark.parametrize("module", [st_static])
def test_public_names_are_there(module) -> None:
    assert len(module.__all__) == len(set(module.__all__)) > 3
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "from st_static import SentencePCA, SimilarityDistillationLoss, StaticWordEmbedding",
        "from st_static import BuildConfig, build",
        "from st_static import *",
    ],
)
def test_public_names_can_be_imported(statement: str) -> None:
    names: dict[str, object] = {}
    exec(statement, names)
    assert callable(names.get("build", names.get("SentencePCA")))


@pytest.mark.parametrize("module", [st_static])
def test_an_unknown_name_is_an_attribute_error(module) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018
