"""`import st_static` is light, and its names are there when they are asked for."""

import json
import subprocess
import sys

import pytest

import st_static

HEAVY = {"torch", "transformers", "sentence_transformers", "sklearn", "datasets", "pandas"}


def modules_after(statement: str) -> set[str]:
    """The top-level modules that are loaded after a statement in a new process."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


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
LIST_A_BENCHMARK = """
import st_static.cards.plan_card
from st_static.evaluate.tasks import benchmark_tasks
assert len(benchmark_tasks('MTEB(eng, v1)')) == 56
"""


@pytest.mark.parametrize(
    ("code", "needed", "not_needed"),
    [
        ("from st_static import BuildConfig", "st_static", HEAVY),
        ("from st_static.commands.build import parse_build; parse_build([])", "st_static", HEAVY),
        # Worker processes load these, one each.
        (
            "from st_static.distill.corpus import selection, sentences, vocabulary",
            "st_static",
            HEAVY,
        ),
        (ENCODE_A_FILE, "pyarrow", {"pandas", "scipy", "torch"}),
        (ENCODE_A_LONG_FILE, "scipy", {"pandas", "torch"}),
        (LIST_A_BENCHMARK, "mteb", {"torch"}),
    ],
)
def test_what_is_not_needed_is_not_loaded(code: str, needed: str, not_needed: set[str]) -> None:
    loaded = modules_after(code)
    assert needed in loaded
    assert loaded.isdisjoint(not_needed)


def test_importing_the_package_loads_nothing_but_python_and_lists_its_names() -> None:
    code = "import st_static; assert not set(st_static.__all__) - set(dir(st_static))"
    third_party = modules_after(code) - modules_after("pass")
    assert third_party <= {"st_static", *sys.stdlib_module_names}
    assert {"__doc__", "__version__"} < set(dir(st_static))
    assert not {"importlib", "annotations", "needed_by"} & set(dir(st_static))


def test_public_names_are_there() -> None:
    assert len(st_static.__all__) == len(set(st_static.__all__)) > 3
    names: dict[str, object] = {}
    exec("from st_static import *", names)
    for name in st_static.__all__:
        assert names[name] is getattr(st_static, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        st_static.nothing  # noqa: B018
