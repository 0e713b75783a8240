"""The card of a model with a head says what the model is, what loads it, and how large it is."""

import re
import shutil

import numpy as np
import pytest
from card_results import complete_record, facts_of, write_results
from editing import card_of
from sentence_transformers import SentenceTransformer

from st_static.cards.check_card import check_card
from st_static.cli import main
from st_static.evaluate.speed import MODEL2VEC
from st_static.files import read_json
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.modules import PCA_FILE

UNITS = 5


def export_with_head(source, folder, dtype="float32"):
    """A model with a head, otherwise the same as one without."""
    model, rng = read_static_model(source), np.random.default_rng(0)
    width = model.table.shape[1]
    first, second = rng.normal(size=(UNITS, width)), rng.normal(size=(width, UNITS))
    export_model(
        folder,
        model.table,
        model.tokenizer,
        read_json(source / "st_static.json"),
        dtype=dtype,
        pca=source / PCA_FILE,
        head=Head(first.astype(np.float32), second.astype(np.float32)),
    )


@pytest.fixture(scope="module")
def with_head(write, built, tmp_path_factory):
    """A model with a head and its card; not to be changed."""
    model = tmp_path_factory.mktemp("card_with_head") / "tiny"
    export_with_head(built / "model", model)
    complete_record(model)
    write_results(model)
    assert write(model, "--hub_id", "org/tiny") == 0
    return model


@pytest.fixture(scope="module")
def said(with_head):
    """What the card says, its lines joined."""
    return " ".join(card_of(with_head).split())


def test_the_card_is_valid_and_can_be_published(with_head, capsys):
    assert check_card(card_of(with_head)) == []
    assert main(["publish", str(with_head), "org/tiny", "--dry_run"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert listed >= {"word_table/model.safetensors", "1_Dense/model.safetensors"}
    assert "2_Dense/config.json" in listed


def test_it_says_what_the_model_is(with_head, said, written):
    assert facts_of(with_head).head_units == UNITS
    assert facts_of(written).head_units == 0
    assert f"plus what a head of {UNITS} hidden units, a small network, makes of it" in said
    assert "No transformer runs" in said
    assert "No neural network" not in said
    assert "trains the word table and the head" in said
    assert "after each stage, with the head from distillation on" in said


def test_a_card_of_a_table_says_nothing_of_a_head(written):
    card = card_of(written).partition("The recipe</summary>")[0]
    assert not re.search(r"\bhead\b", card)
    assert "No neural network runs" in card


def test_model2vec_is_not_offered_and_not_measured(with_head, said, written):
    assert "Model2Vec, which knows tables only, does not load a model with a head." in said
    assert said.count("Model2Vec") == 1
    encoders = {row.encoder for row in facts_of(with_head).speed}
    assert {row.encoder for row in facts_of(written).speed} - encoders == {MODEL2VEC}


def test_its_shares_are_those_of_two_texts(with_head, said):
    assert "With the head, a share holds for its two texts only" in said
    assert "prints the shares, and how much the cosine falls without each word; here" in said
    [alt] = [f.alt for f in facts_of(with_head).figures if f.file == "words.png"]
    assert alt in said


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_its_size_is_that_of_its_files_and_of_its_modules(built, tmp_path, write, dtype):
    model = tmp_path / "tiny"
    export_with_head(built / "model", model, dtype)
    on_disk = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    write_results(model)
    assert write(model) == 0
    facts = facts_of(model)
    assert facts.bytes_on_disk == on_disk
    loaded = SentenceTransformer(str(model), device="cpu")
    assert facts.bytes_in_memory == sum(p.nbytes for p in loaded.parameters())
    assert facts.dtype == dtype


def test_model2vec_as_its_own_peer_is_refused_in_plain_words(with_head, write, tmp_path, capsys):
    model = shutil.copytree(with_head.parent, tmp_path / "home") / "tiny"
    assert write(model, "--peer_models", f"model2vec:{model}") == 1
    said = capsys.readouterr().err
    assert "is more than a table (it has a head" in said
    assert "and Model2Vec knows tables only" in said
