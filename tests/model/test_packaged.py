"""A model inside the package is found by its name, and goes into a folder for other libraries."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from st_static import FastEncoder, StaticWordEmbedding, hub
from st_static.cli import main
from st_static.commands.options import MODEL
from st_static.evaluate.models import load_model
from st_static.files import read_json
from st_static.model.card_file import NOTES_END, NOTES_START, OF_MODEL, marked, read_card
from st_static.model.export import export_as, export_model
from st_static.model.model_folder import ModelFolder
from st_static.model.table import Int8Table
from st_static.model.tokenizer import build_tokenizer

NAME = "st-static/english-384"
SHIPPED = hub._PACKAGED / "english-384"
SOURCES = Path(__file__).parents[2] / "recipes/open_text.toml"
SENTENCES = [
    "Read rows from a file.",
    "Parse a CSV file.",
    "It rains today.",
    "The film is not worth seeing.",
    "Which plants grow in the shade?",
    "She plays the violin in a small orchestra.",
    "A fever may last for several days.",
    "Prices rose by 3.5% last year!",
    "Ein Café in São Paulo.",
    "The doctor wrote a prescription.",
]


def write_model(folder, built):
    """Write a model of the sentences' words, with a record, a card, a figure and prompts."""
    words = {word for text in SENTENCES for word in re.findall(r"\w+", text.lower())}
    tokenizer = build_tokenizer(sorted(words), [*"aco", *["##a", "##c", "##o"]])
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16))
    table[:2] = 0
    record = read_json(built / "model" / "st_static.json")
    mark = f"{NOTES_START}\n{NOTES_END}\n{OF_MODEL.format('0')}\n"
    prompts = {"prompts": {"query": "a "}}
    export_model(folder, table, tokenizer, record, card=mark, config=prompts)
    (folder / "figures" / "small").mkdir(parents=True)
    (folder / "figures" / "small" / "words.png").write_bytes(b"figure")
    return ModelFolder(folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory, built):
    """A folder with a model, and with its packaged form in `models`."""
    folder = tmp_path_factory.mktemp("small")
    export_as(write_model(folder / "model", built), folder / "models" / "english-384", "int8")
    return folder


@pytest.fixture
def small_package(small, monkeypatch):
    """A package with a small model alone: the folder of its models."""
    monkeypatch.setattr(hub, "_PACKAGED", small / "models")
    return small / "models"


@pytest.fixture(params=["small", "shipped"])
def in_package(request, monkeypatch, tmp_path):
    """The folder of the model in the package: a small one, or that which is really there."""
    monkeypatch.chdir(tmp_path)
    if request.param == "small":
        return request.getfixturevalue("small_package") / "english-384"
    return SHIPPED


@pytest.mark.parametrize(
    ("name", "language", "most_bytes"),
    [("english-384", "en", 26_000_000), ("ja-256", "ja", 12_000_000)],
)
def test_a_shipped_model_is_small_and_names_all_its_sources(name, language, most_bytes):
    model = ModelFolder(hub._PACKAGED / name)
    assert sum(file.size for file in model.files) <= most_bytes
    assert f"st-static/{name}" in MODEL  # in the help of commands
    sources = tomllib.loads(SOURCES.read_text("utf-8"))
    for source in (sources["packages"] | sources["repositories"]).values():
        if source.get("language", "en") == language:
            facts = ("source", "repository", "licence", "attribution")
            assert all(source.get(fact, "") in model.card for fact in facts), source
            assert source["text_sha256"][:12] in model.card, source
    assert "`python recipes/open_text.py open_text`" in model.card


def test_it_is_found_without_the_hub_and_its_card_is_of_these_bytes(in_package, monkeypatch):
    monkeypatch.setattr(hub, "_ask", lambda *_: pytest.fail("the Hub is asked"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    encoder = FastEncoder.from_pretrained(NAME)
    assert encoder.model.name == NAME
    assert encoder.encode(SENTENCES).any(axis=1).all()
    model = ModelFolder.of(NAME)
    assert model.path == in_package
    assert marked(model.card) == model.fingerprint
    assert model.dimension == encoder.dimension


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_its_export_gives_its_vectors_in_other_libraries(in_package, tmp_path, dtype):
    assert main(["export", NAME, "--output", "model", "--dtype", dtype]) == 0
    model = ModelFolder(tmp_path / "model")
    assert marked(model.card) == model.fingerprint
    assert f"Exported as {dtype} from `{NAME}`" in model.card
    tolerance = 1e-6 if dtype == "float32" else 1e-3
    vectors = FastEncoder.from_pretrained(NAME).encode(SENTENCES)
    for library in (SentenceTransformer, StaticModel.from_pretrained):
        expected = library(str(model.path)).encode(SENTENCES)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=tolerance)
    if dtype == "float32":
        packed, whole = (FastEncoder.from_pretrained(m, dtype="int8") for m in (NAME, model.path))
        np.testing.assert_array_equal(packed.encode(SENTENCES), whole.encode(SENTENCES))


def test_rows_in_int8_become_float32_when_many_texts_are_encoded(in_package):
    encoder, whole = FastEncoder.from_pretrained(NAME), FastEncoder(ModelFolder(in_package).model)
    assert isinstance(encoder.model.table, Int8Table)
    np.testing.assert_array_equal(encoder._many._rows, whole.model.table)
    for texts in (SENTENCES, SENTENCES * 50):
        np.testing.assert_array_equal(encoder.encode(texts), whole.encode(texts))


def test_libraries_read_the_packaged_form_itself(in_package):
    vectors = FastEncoder.from_pretrained(NAME).encode(SENTENCES)
    evaluated = [load_model(kind + NAME) for kind in ("", "model2vec:")]
    assert {model.name for model in evaluated} == {NAME}
    assert len({model.revision for model in evaluated}) == 1
    assert evaluated[0].revision != "unknown"
    for model in evaluated:
        np.testing.assert_allclose(model.encode(SENTENCES), vectors, rtol=0, atol=1e-6)
    rows = StaticWordEmbedding.load(NAME).embedding.weight.detach().numpy()
    np.testing.assert_array_equal(rows, ModelFolder(in_package).model.table)


def test_commands_take_its_name(in_package, capsys):
    Path("texts.txt").write_text("It rains today.\n")
    assert main(["encode", NAME, "--input", "texts.txt", "--output", "vectors.npy"]) == 0
    expected = FastEncoder.from_pretrained(in_package).encode(["It rains today."])
    np.testing.assert_array_equal(np.load("vectors.npy"), expected)
    assert main(["explain", NAME, *SENTENCES[:2]]) == 0
    assert main(["demo", NAME, "--output", "demo"]) == 0
    card = Path("demo", "README.md").read_text("utf-8")
    assert "encoder english-384 runs" in card  # no link: it is not on the Hub
    before = {file.path: file.size for file in ModelFolder(in_package).files}
    capsys.readouterr()
    for command in (["card", NAME], ["export", NAME, "--onnx"]):
        assert main(command) == 1
        assert f"st-static export {NAME} --output DIR" in capsys.readouterr().err
    assert {file.path: file.size for file in ModelFolder(in_package).files} == before


def test_a_folder_of_the_user_goes_first_and_says_so(
    small, small_package, monkeypatch, tmp_path, caplog
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "st-static").mkdir()  # as a clone may be called
    assert ModelFolder.of(NAME).path == small_package / "english-384"
    assert not caplog.messages
    export_as(ModelFolder(small / "model"), NAME)
    assert ModelFolder.of(NAME).path == Path(NAME)
    assert FastEncoder.from_pretrained(NAME).model.name == "english-384"
    hub.require_model(NAME)
    said = f"Using the folder {NAME} here, not the model of that name in the package st_static."
    assert caplog.messages == [said]


@pytest.mark.parametrize("load", [FastEncoder.from_pretrained, ModelFolder.of, hub.require_model])
def test_an_empty_folder_that_hides_the_model_is_named(small_package, monkeypatch, tmp_path, load):
    monkeypatch.chdir(tmp_path)
    Path(NAME).mkdir(parents=True)
    with pytest.raises(ValueError, match=f"^The folder {NAME} here is empty, and hides"):
        load(NAME)


@pytest.mark.parametrize(
    "name", ["st-static/other", "st-static/..", "st-static/", "other/english-384"]
)
def test_other_names_are_not_in_the_package(small_package, name):
    assert hub.packaged(name) is None
    assert hub.packaged(NAME, revision="main") is None


def test_a_misspelt_name_is_answered_with_those_in_the_package():
    with pytest.raises(
        ValueError, match=f"or name a model in the package: {NAME}, st-static/ja-256.$"
    ):
        hub.require_model("st-static/english-521")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("english-384", f"Did you mean {NAME}?"),
        ("st-static/english384", f"Did you mean {NAME}?"),
        ("st_static/english-384", f"Did you mean {NAME}?"),
        ("st-static/English-384", f"Did you mean {NAME}?"),
        ("st-static/minilm-head-256", "To build it, run `st-static build minilm-head-256`."),
        ("minilm-head-256", "To build it, run `st-static build minilm-head-256`."),
    ],
)
def test_what_was_meant_is_said_first(name, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where no folder st_static is
    with pytest.raises(ValueError, match=re.escape(f"in the cache. {says} Unset it, or ")):
        FastEncoder.from_pretrained(name)


@pytest.mark.parametrize("name", ["other/english-384", "st-static/english-256", "minilm"])
def test_other_names_were_not_meant(name):
    with pytest.raises(ValueError, match=r"nor in the cache\. Unset it, or "):
        FastEncoder.from_pretrained(name)


def test_notes_arrive_and_are_not_lost(built, tmp_path):
    model = write_model(tmp_path / "model", built)
    card = model.path / "README.md"
    card.write_text(card.read_text("utf-8").replace(NOTES_END, f"Theirs.\n{NOTES_END}"), "utf-8")
    for _ in range(2):
        export_as(model, tmp_path / "out")
        assert f"{NOTES_START}\nTheirs.\n{NOTES_END}" in read_card(tmp_path / "out" / "README.md")
    card.write_text(card.read_text("utf-8").replace("Theirs.", "New."), "utf-8")
    with pytest.raises(ValueError, match=r"The notes in .* differ\."):
        export_as(ModelFolder(model.path), tmp_path / "out")


def test_a_model_is_not_exported_onto_itself(small):
    model = ModelFolder(small / "model")
    before = model.fingerprint
    with pytest.raises(ValueError, match="is the model itself"):
        export_as(model, small / "models" / ".." / "model", "float16")
    assert ModelFolder(small / "model").fingerprint == before


def test_prompts_figures_and_the_bytes_of_int8_stay(small, tmp_path):
    once = ModelFolder(small / "models" / "english-384")
    export_as(once, tmp_path / "twice", "int8")
    twice = ModelFolder(tmp_path / "twice")
    assert twice.fingerprint == once.fingerprint
    assert twice.model.prompts == {"query": "a "}
    assert (twice.path / "figures" / "small" / "words.png").read_bytes() == b"figure"


def test_importing_reads_no_model():
    code = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, args: event == 'open' and opened.append(str(args[0])))\n"
        "import st_static\nassert not [f for f in opened if 'safetensors' in f or 'models' in f]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
