"""Arguments of the wrong kind: one clear sentence, before any work, from every public function."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sklearn.exceptions import NotFittedError
from transformers import PreTrainedTokenizer

from st_static import (
    BuildConfig,
    CorpusConfig,
    DistillationConfig,
    Ensemble,
    FastEncoder,
    SentencePCA,
    SentencePCAConfig,
    SimilarityDistillationLoss,
    SparseTrainer,
    StaticWordEmbedding,
    TeacherAgreement,
    VocabularyConfig,
    build,
    cosine_agreement,
    distill_into,
    draw_tuning,
)
from st_static.cards.publish import publish
from st_static.distill.pipeline import select_sentences
from st_static.ensemble.build_ensemble import build_ensemble
from st_static.ensemble.config import EnsembleConfig
from st_static.model.export import export_model
from st_static.model.tokenizer import build_tokenizer

TEXTS = ["the", "old ships", "ships", "the old", "old"]


@pytest.fixture(scope="module")
def x(tmp_path_factory):
    """Small things of each right kind."""
    folder = tmp_path_factory.mktemp("api")
    tokenizer = build_tokenizer(["the", "old", "ships"])
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 8))
    export_model(folder / "model", table.astype(np.float32), tokenizer, {})
    encoder = FastEncoder.from_pretrained(folder / "model")
    ensemble = Ensemble([encoder, encoder])
    return SimpleNamespace(
        folder=folder,
        tokenizer=tokenizer,
        table=table,
        encoder=encoder,
        ensemble=ensemble,
        fused=ensemble.fuse(),
        tuning=ensemble.tune(lambda trial: trial.weights[1]),
        pca=SentencePCA(2).fit(table),
        model=SentenceTransformer(str(folder / "model"), device="cpu"),
        vectors=table[:5],
    )


def distill(x: SimpleNamespace, **changes: Any) -> None:
    arguments = {
        "fused": x.fused,
        "path": x.folder / "distilled",
        "dim": 2,
        "texts": TEXTS,
        "target": x.ensemble,
        "work_dir": x.folder / "work",
        "held_out": 2,
    }
    distill_into(**{**arguments, **changes})  # type: ignore[arg-type]


Call = Callable[[SimpleNamespace], object]
A_LIST = "Expected a list of texts, but got "
MEMBERS = "Expected a list of members, but got {}. Put one into a list."
STUDENT = "Expected a SentenceTransformer, but got {}. Load it: SentenceTransformer(…)."
NOT_FITTED = "This SentencePCA instance is not fitted yet. Call 'fit'"


TYPE_ERRORS: list[tuple[Call, str]] = [
    # FastEncoder
    (lambda x: x.encoder.encode("a", batch_size="9"), "number as batch_size, but got '9'"),
    (lambda x: x.encoder.encode("a", truncate_dim=2.5), "as truncate_dim, but got 2.5."),
    (lambda x: x.encoder.encode("a", truncate_dim=True), "truncate_dim, but got True."),
    (lambda x: FastEncoder(x.encoder.model, threads="2"), "as threads, but got '2'."),
    (lambda x: FastEncoder.from_pretrained(None), "folder or id, as a str or Path, but"),
    (lambda x: x.encoder.encode_to(None, ["a"]), "a file to write, as a str or Path, but"),
    (lambda x: x.encoder.encode(["a"], truncate_dim="8"), "truncate_dim, but got '8'."),
    (lambda x: x.encoder.similarity("a", "b"), "or one [D], in numbers, but got 'a'."),
    (lambda x: x.encoder.similarity(["a"], ["b"]), "in numbers, but got a list."),
    (lambda x: x.encoder.similarity(None, None), "in numbers, but got None."),
    # Ensemble
    (lambda x: Ensemble(x.encoder), MEMBERS.format("a FastEncoder")),
    (lambda x: Ensemble("models/one"), MEMBERS.format("'models/one'")),
    (lambda x: Ensemble({"a": x.encoder}), MEMBERS.format("a dict")),
    (lambda x: Ensemble([x.encoder], weights={1.0}), "one for each member, but got a set."),
    (lambda x: x.ensemble.encode(None), A_LIST + "None."),
    (lambda x: x.ensemble.encode(b"a"), A_LIST + "bytes."),
    (lambda x: x.ensemble.encode({"a"}), A_LIST + "a set."),
    (lambda x: x.ensemble.encode({"a": 1}), A_LIST + "a dict."),
    (lambda x: x.ensemble.encode(["a", None]), "Expected a str at position 1, but got None."),
    (lambda x: x.ensemble.tune(lambda trial: np.ones(2)), "but got an ndarray."),
    (lambda x: x.ensemble.fuse(3), "Expected a list of words as the vocabulary, but got 3."),
    (lambda x: x.ensemble.fuse(b"the"), "a str at position 0 of the vocabulary, but got 116."),
    # a fused ensemble
    (lambda x: distill(x, path=None), "Expected a folder to write, as a str or Path"),
    (lambda x: distill(x, work_dir=None), "Expected a work_dir, as a str or Path"),
    (lambda x: distill(x, dim=2.0), "Expected a whole number as the dimension, but got 2.0."),
    (lambda x: distill(x, held_out=True), "as held_out, but got True."),
    (lambda x: distill(x, texts=iter(TEXTS)), "Make a list of it: list(texts)."),
    (lambda x: distill(x, texts=[1, 2, 3, 4]), "Expected a str at position 0, but"),
    # SentencePCA
    (lambda x: SentencePCA().fit("abc"), "in numbers, but got 'abc'."),
    (lambda x: SentencePCA().fit(["abc"]), "in numbers, but got a list."),
    (lambda x: x.pca.transform(None), "Expected vectors [V, d], in numbers, but got N"),
    # training
    (lambda x: SimilarityDistillationLoss("m"), STUDENT.format("'m'")),
    (lambda x: SimilarityDistillationLoss(x.encoder), STUDENT.format("a FastEncoder")),
    (lambda x: SparseTrainer("m"), STUDENT.format("'m'")),
    (lambda x: SparseTrainer(), STUDENT.format("None")),
    (lambda x: SparseTrainer(model="m"), STUDENT.format("'m'")),
    (lambda x: StaticWordEmbedding("m", x.table), "Expected a Tokenizer of the package"),
    (lambda x: StaticWordEmbedding(x.tokenizer, "table"), "but got 'table'."),
    # agreement
    (lambda x: TeacherAgreement(None, x.vectors), A_LIST + "None."),
    (lambda x: TeacherAgreement([1, 2, 3], x.vectors), "Expected a str at position 0"),
    # builds
    (lambda x: build({}), "Expected a BuildConfig, but got a dict. Make one: "),
    (lambda x: build("recipe.yaml"), "but got 'recipe.yaml'. Make one: "),
    (lambda x: select_sentences(None), "Expected a BuildConfig, but got None."),
    (lambda x: build(EnsembleConfig(["a"])), "but got an EnsembleConfig."),
    (lambda x: build_ensemble(BuildConfig()), "Expected an EnsembleConfig, but got a BuildConfig."),
    (lambda x: BuildConfig(output=None), "BuildConfig.output: expected text, but got N"),
    (lambda x: EnsembleConfig("a"), "EnsembleConfig.members: expected a list of texts"),
    # figures and the Hub
    (lambda x: draw_tuning(x.tuning, None), "Expected a file to write, as a str or Path"),
    (lambda x: publish(None, "org/name"), "Expected the model's folder, as a str or"),
    (lambda x: StaticWordEmbedding.load(None), "folder or id, as a str or Path, but got None."),
    (lambda x: x.ensemble.encode(t for t in TEXTS), "a generator. Make a list of it: list(texts)."),
    (lambda x: x.ensemble.tune("objective"), "a function of an ensemble, but got 'objective'."),
    (lambda x: x.ensemble.tune(lambda trial: None), "a number from the objective, but got None."),
    (lambda x: x.ensemble.fuse([1, 2]), "as a str at position 0 of the vocabulary, but got 1."),
    (lambda x: x.fused.save_pretrained(None), "a folder to write, as a str or Path, but got None."),
    (lambda x: x.fused.export_calibrated(x.folder / "c", None), "column of texts, but got None."),
    (lambda x: x.fused.export_calibrated(TEXTS, x.folder / "c"), "a str or Path, but got a list."),
    (lambda x: distill(x, fused=x.ensemble), "but got an Ensemble. Make one: ensemble.fuse()."),
    (lambda x: distill(x, config={"max_steps": 2}), "a DistillationConfig, but got a dict."),
    (lambda x: SentencePCA().fit(None), "sentence vectors [M, d], in numbers, but got None."),
    (lambda x: SentencePCA("many").fit(x.table), "as n_components, or None, but got 'many'."),
    (lambda x: SentencePCA(2, n_remove=None).fit(x.table), 'as n_remove, or "auto", but got None.'),
    (lambda x: StaticWordEmbedding(PreTrainedTokenizer, x.table), "of transformers do as well."),
    (lambda x: TeacherAgreement(TEXTS, None), "vectors [H, d], in numbers, but got None."),
    (lambda x: BuildConfig(vocabulary={"size": 3}), "expected a VocabularyConfig, but got a dict."),
    (lambda x: VocabularyConfig(size="many"), "a whole number of at least 1, but got 'many'."),
    (lambda x: VocabularyConfig(min_count=True), "expected a whole number, but got True."),
    (lambda x: CorpusConfig(files=Path("a.txt")), "of texts or null, but got PosixPath('a.txt')."),
    (lambda x: SentencePCAConfig(n_components="some"), "a whole number or null, but got 'some'."),
    (lambda x: DistillationConfig(matryoshka_dims=[8, "4"]), "list of whole numbers of at least 1"),
    (lambda x: draw_tuning("tuning.svg", x.folder / "tuning"), "returns, but got 'tuning.svg'."),
    (lambda x: publish(x.model, "org/name"), "as a str or Path, but got a SentenceTransformer."),
    (lambda x: SimilarityDistillationLoss(x.model, temperature="low"), "but got 'low'."),
]
VALUE_ERRORS: list[tuple[Call, str]] = [
    # FastEncoder
    (lambda x: FastEncoder.from_pretrained(""), "folder or id, but its name is empty."),
    (lambda x: x.encoder.similarity([[1], [1, 2]], [1]), "rows of different lengths."),
    (lambda x: x.encoder.similarity(3, 4), "[D], but got the shape ()."),
    # Ensemble
    (lambda x: Ensemble([FastEncoder]), "but member 0 is the class FastEncoder."),
    (lambda x: Ensemble([3]), "but member 0 is 3."),
    # a fused ensemble
    (lambda x: distill(x, held_out=0), "at least 2 sentences as held_out, but got 0."),
    (lambda x: distill(x, texts="the"), A_LIST + "one str. Put it into a list."),
    (lambda x: distill(x, target="teacher"), "but the target is 'teacher'. Load it"),
    # SentencePCA
    (lambda x: SentencePCA().fit([[1], [1, 2]]), "but got rows of different lengths."),
    (lambda x: x.pca.transform(np.ones(8)), "but got the shape (8,)."),
    # agreement
    (lambda x: TeacherAgreement("texts", x.vectors), A_LIST + "one str."),
    (lambda x: TeacherAgreement(TEXTS, np.ones(5)), "but got the shape (5,)."),
    (lambda x: TeacherAgreement(TEXTS, x.vectors)("path"), "but the encoder is 'path'. Load it"),
    (lambda x: cosine_agreement("a", x.encoder, TEXTS, TEXTS), "the first is 'a'."),
    (lambda x: cosine_agreement(x.encoder, None, TEXTS, TEXTS), "second is None."),
    (lambda x: cosine_agreement(x.encoder, x.encoder, "ab", "cd"), "one str."),
    (lambda x: x.encoder.encode_to("v.txt", ["a"]), '(in Python with format="npy" or "parquet").'),
    (lambda x: Ensemble([x.encoder], weights=np.ones((1, 1))), "but weight 0 is array([1.])."),
    (lambda x: x.pca.transform(np.ones((2, 5))), "as the PCA was fitted on, but got 5."),
    (lambda x: StaticWordEmbedding(x.tokenizer, None), "or `embedding_dim` must be provided."),
    (lambda x: TeacherAgreement(TEXTS, np.full((5, 2), np.nan)), "finite vectors of the teacher"),
    (
        lambda x: FastEncoder.from_pretrained(x.folder / "model/config.json"),
        "is a file: name the f",
    ),
    (
        lambda x: StaticWordEmbedding.load(x.folder / "model/config.json"),
        "is a file: name the fold",
    ),
]
NOT_FITTED_ERRORS: list[Call] = [
    lambda x: SentencePCA().transform(x.table),
    lambda x: SentencePCA().save(x.folder / "pca"),
]


@pytest.mark.parametrize(
    ("kind", "call", "says"),
    [
        *((TypeError, *wrong) for wrong in TYPE_ERRORS),
        *((ValueError, *wrong) for wrong in VALUE_ERRORS),
        *((NotFittedError, call, NOT_FITTED) for call in NOT_FITTED_ERRORS),
    ],
)
def test_what_is_wrong_is_said_in_one_line(kind, call, says, x):
    before = sorted(x.folder.rglob("*"))
    with pytest.raises(kind, match=re.escape(says)) as caught:
        call(x)
    assert "\n" not in str(caught.value)
    assert sorted(x.folder.rglob("*")) == before


def test_what_looks_odd_and_is_right(x):
    members = (encoder for encoder in [x.encoder, x.encoder])
    ensemble = Ensemble(members, weights=np.ones(2))
    np.testing.assert_array_equal(ensemble.encode(tuple(TEXTS)), x.ensemble.encode(TEXTS))
    assert Ensemble([x.encoder]).encode(TEXTS).shape == (5, 8)
    assert SentencePCA(2).fit(x.table.tolist()).transform([[1.0] * 8]).shape == (1, 2)
    agreement = TeacherAgreement(TEXTS, x.vectors.tolist())
    assert agreement(x.ensemble) == TeacherAgreement(TEXTS, x.vectors)(x.ensemble)
    embedding = StaticWordEmbedding(x.tokenizer, np.ones((5, 3), int)).embedding
    assert embedding.weight.is_floating_point()
    assert x.ensemble.fuse(word for word in ["the"]).table.shape[1] == 16
    files = draw_tuning(x.tuning, str(x.folder / "tuning"))
    assert all(file.is_file() for file in files)
