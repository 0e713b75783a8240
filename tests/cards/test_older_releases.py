"""Models load in older sentence-transformers, each in an environment of its own."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hub_server import Hub
from installs import python_of

from st_static import FastEncoder
from st_static.cards import load_alone
from st_static.model.export import export_model
from st_static.model.head import Head

pytestmark = pytest.mark.slow

PINS = sorted((Path(__file__).parents[1] / "environments").glob("sentence-transformers-*.txt"))
ODD_TEXTS = [
    "",
    " \n",
    "!!!",
    "qqqqzzzz",
    "THE OLD LIGHTHOUSE Keeper",
    "東京タワー と りんご",
    "😀👩‍👩‍👧",
    "the keeper " * 2000,
]


@pytest.fixture(params=[file.stem for file in PINS])
def older_python(request):
    """The Python of an environment with an older sentence-transformers."""
    return python_of(request.param)


@pytest.fixture(scope="module", params=["table", "head"])
def exported(request, student, tmp_path_factory):
    folder = tmp_path_factory.mktemp("older") / "model"
    rng = np.random.default_rng(0)
    table = rng.normal(size=(student.get_vocab_size(), 16))
    table[:2] = 0  # [PAD] and [UNK]
    layers = (rng.normal(size=shape).astype(np.float32) for shape in ((8, 16), (16, 8)))
    head = Head(*layers) if request.param == "head" else None
    export_model(folder, table.astype(np.float32), student, {}, head=head)
    return folder


def encode_in(python, model, texts, folder, endpoint=""):
    """Vectors [B, D] from another environment, and what it says on stderr."""
    output = folder / "vectors.npy"
    options = {"cache_folder": str(folder / "cache")}
    request = {"model": model, "texts": texts, "output": str(output), "options": options}
    hub = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"} if endpoint else {}
    result = subprocess.run(
        [str(python), "-P", load_alone.__file__],
        input=json.dumps(request),
        env={**os.environ, **hub, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return np.load(output), result.stderr


def test_there_are_older_releases_to_test():
    assert [file.stem for file in PINS] == [
        "sentence-transformers-3.4",
        "sentence-transformers-4.1",
        "sentence-transformers-5.1",
    ]


def test_a_folder_gives_equal_vectors_and_no_warning(older_python, exported, sentences, tmp_path):
    texts = [*sentences, *ODD_TEXTS]
    vectors, said = encode_in(older_python, str(exported), texts, tmp_path)
    expected = FastEncoder.from_pretrained(exported).encode(texts)
    # The library adds up thousands of the same words in float32.
    np.testing.assert_allclose(vectors[-1], expected[-1], rtol=0, atol=1e-4)
    np.testing.assert_allclose(vectors[:-1], expected[:-1], rtol=0, atol=1e-6)
    assert np.linalg.norm(vectors, axis=1).max() == pytest.approx(1, abs=1e-5)
    assert said == ""


def test_a_repository_gives_equal_vectors_and_no_warning(
    older_python, exported, sentences, tmp_path
):
    """The Hub keeps files only: the folder of Normalize, which is empty, is not there."""
    hub = Hub()
    files = [path for path in exported.rglob("*") if path.is_file()]
    hub.add("org/older", {str(path.relative_to(exported)): path.read_bytes() for path in files})
    with hub.running():
        vectors, said = encode_in(older_python, "org/older", sentences, tmp_path, hub.url)
    expected = FastEncoder.from_pretrained(exported).encode(sentences)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
    assert said == ""
