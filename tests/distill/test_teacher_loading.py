"""Teachers that are no SentenceTransformers, GTE's two formats, and what contradicts a teacher."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_build import forward
from transformers import AutoModel, GteConfig, GteModel

from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig

POOLINGS = ("mean", "cls", "lasttoken")


def load(folder: Path, **options: object) -> Teacher:
    return Teacher.load(TeacherConfig(str(folder), dtype="float32", device="cpu", **options))


def last_hidden_states(folder: Path, text: str, teacher: Teacher) -> torch.Tensor:
    """What transformers computes of one text alone, [T, h]."""
    ids = torch.tensor([teacher.tokenizer.encode(text).ids])
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder).eval()(input_ids=ids).last_hidden_state[0]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_transformer_becomes_a_teacher_by_its_pooling(transformer_folders, sentences, pooling):
    folder = transformer_folders["wordpiece"]
    teacher = load(folder, pooling=pooling)
    found = forward(teacher, sentences[:4])[1]
    for text, vector in zip(sentences[:4], found, strict=True):
        states = last_hidden_states(folder, text, teacher)
        pooled = {"mean": states.mean(0), "cls": states[0], "lasttoken": states[-1]}[pooling]
        np.testing.assert_allclose(vector, pooled.numpy(), atol=1e-5)


def test_a_transformer_alone_is_refused_with_the_options(transformer_folders):
    with pytest.raises(ValueError, match=r"modules\.json says.*--teacher\.pooling mean \(or cls"):
        load(transformer_folders["wordpiece"])


def test_its_pooling_is_part_of_what_it_is(transformer_folders):
    folder = transformer_folders["wordpiece"]
    fingerprints = {load(folder, pooling=pooling).fingerprint() for pooling in POOLINGS}
    assert len(fingerprints) == 3


@pytest.fixture
def with_modules(transformer_folders, tmp_path) -> Path:
    """A SentenceTransformer that pools by CLS, and normalises."""
    modules = [Transformer(str(transformer_folders["wordpiece"])), Pooling(32, "cls"), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"))
    return tmp_path / "model"


def test_what_contradicts_a_teachers_own_modules_is_refused(with_modules):
    with pytest.raises(ValueError, match=r"pooling is mean, but .* comes with cls in its own"):
        load(with_modules, pooling="mean")


def test_what_agrees_with_a_teachers_own_modules_changes_nothing(with_modules):
    stated = load(with_modules, pooling="cls")
    assert stated.fingerprint() == load(with_modules).fingerprint()


@pytest.fixture(scope="module")
def gte(transformer_folders, tmp_path_factory) -> Path:
    """A tiny GTE with random weights, in the format of transformers."""
    folder = tmp_path_factory.mktemp("gte") / "native"
    shutil.copytree(transformer_folders["wordpiece"], folder)
    vocabulary = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GteModel(
            GteConfig(
                vocab_size=vocabulary,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=48,
                max_position_embeddings=64,
                pad_token_id=0,
                initializer_range=0.3,
            )
        )
    model.save_pretrained(folder)
    return folder


WHOLES = dict.fromkeys((f"self_attn.{name}_proj" for name in "qkv"), "attention.qkv_proj")
WHOLES |= dict.fromkeys(("mlp.up_proj", "mlp.gate_proj"), "mlp.up_gate_proj")


def in_old_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights under the names that GTE's own code gave them, some of them joined."""
    renamed = {}
    joined: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in weights.items():
        name = f"new.{name}".replace("new.layers.", "new.encoder.layer.")
        name = name.replace("self_attn.o_proj", "attention.o_proj")
        name = name.replace("post_attention_layernorm", "attn_ln")
        name = name.replace("post_mlp_layernorm", "mlp_ln")
        for part, whole in WHOLES.items():
            if part in name:
                joined.setdefault(name.replace(part, whole), {})[part] = tensor
                break
        else:
            renamed[name] = tensor
    for name, parts in joined.items():
        renamed[name] = torch.cat([parts[part] for part in WHOLES if part in parts])
    return renamed


def test_weights_under_the_old_names_give_the_same_vectors(gte, tmp_path, sentences):
    shutil.copytree(gte, tmp_path / "old")
    file = tmp_path / "old" / "model.safetensors"
    old = in_old_names(load_file(file))
    assert "new.encoder.layer.1.attention.qkv_proj.weight" in old
    save_file(old, file, metadata={"format": "pt"})
    folders = tmp_path / "old", gte
    found, expected = (forward(load(f, pooling="cls"), sentences)[1] for f in folders)
    np.testing.assert_array_equal(found, expected)
    assert np.abs(found[0] - found[1]).max() > 0.1


def test_gte_gives_what_transformers_computes(gte, sentences):
    teacher = load(gte, pooling="cls")
    for text, vector in zip(sentences[:4], forward(teacher, sentences[:4])[1], strict=True):
        expected = last_hidden_states(gte, text, teacher)[0]
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("gte-base-en-v1.5", r"--teacher\.model alibaba-nlp-community/gte-base-en-v1\.5\.$"),
        ("gte-multilingual-base", r"--teacher\.model alibaba-nlp-community/gte-multilingual-base"),
        ("gte-large-en-v1.5", r"--teacher\.model alibaba-nlp-community/gte-large-en-v1\.5\.$"),
        ("snowflake-m-v1.5", r"'gte': alibaba-nlp-community/gte-base-en-v1\.5 or "),
    ],
)
def test_gtes_old_format_is_refused_with_the_new_one(gte, tmp_path, name, instead):
    shutil.copytree(gte, tmp_path / name)
    config = json.loads((gte / "config.json").read_text())
    (tmp_path / name / "config.json").write_text(json.dumps(config | {"model_type": "new"}))
    with pytest.raises(ValueError, match=instead):
        load(tmp_path / name, pooling="cls")
