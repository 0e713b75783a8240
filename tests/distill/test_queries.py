"""Models whose vectors are queries for the teacher's: the build and the evaluation."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from model2vec import StaticModel as Model2Vec
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router
from small_build import DIMENSION, generated_sentences
from tokenizers import Tokenizer

from st_static import FastEncoder, export_onnx
from st_static.cli import main
from st_static.distill.config import (
    DistillationConfig,
    PairsConfig,
    SentencePCAConfig,
)
from st_static.distill.pipeline import build
from st_static.distill.stages import BuildResult
from st_static.ensemble.config import EnsembleConfig
from st_static.web.write_demo import write_demo

VECTORS = DistillationConfig(
    target="vectors",
    max_steps=200,
    batch_size=16,
    groups_per_batch=4,
    eval_steps=50,
    learning_rate=0.03,  # the vectors of random weights are long
)


@pytest.fixture(scope="module")
def config(built_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    return replace(
        built_config,
        output=str(folder / "queries"),
        work_dir=str(folder / "work"),
        pca=SentencePCAConfig(),
        distillation=VECTORS,
    )


@pytest.fixture(scope="module")
def built(config) -> BuildResult:
    return build(config)


@pytest.fixture(scope="module")
def teacher(config) -> SentenceTransformer:
    return SentenceTransformer(config.teacher.model, device="cpu")


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_table_keeps_the_teachers_dimensions_and_learns_its_vectors(built, teacher):
    assert "pca" not in [stage.name for stage in built.stages]
    assert not (built.output / "sentence_pca.safetensors").exists()
    texts = generated_sentences(300, seed=5)  # of the words that it has learnt
    wanted = unit(teacher.encode(texts))
    encoder = FastEncoder.from_pretrained(built.output)
    assert encoder.encode(texts).shape == (300, DIMENSION)
    tables = [built.work.table(stage) for stage in ("extraction", "distillation")]
    trained = load_file(built.output / "model.safetensors")["embeddings"]
    assert np.array_equal(tables[1], trained)
    tokenizer = Tokenizer.from_file(str(built.output / "tokenizer.json"))
    rows = [[i for i in tokenizer.encode(text).ids if i > 1] for text in texts]  # no special ones
    before, after = (
        (unit(np.array([table[ids].mean(axis=0) for ids in rows])) * wanted).sum(axis=1).mean()
        for table in tables
    )
    assert after > before + 0.005  # random weights leave little to learn
    # The model on disk is what was trained.
    assert (encoder.encode(texts) * wanted).sum(axis=1).mean() == pytest.approx(after, abs=1e-3)


def test_other_clients_encode_the_same_queries(built, tmp_path):
    model = tmp_path / "queries"
    shutil.copytree(built.output, model)
    export_onnx(model)
    write_demo(model, tmp_path / "demo")
    session = onnxruntime.InferenceSession(model / "onnx" / "model.onnx")
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    [text] = generated_sentences(1, seed=6)
    ids = np.array([tokenizer.encode(text).ids])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    [onnx] = session.run(["sentence_embedding"], inputs)
    wanted = SentenceTransformer(str(built.output), device="cpu").encode([text])
    np.testing.assert_allclose(onnx, wanted, atol=1e-6)
    np.testing.assert_allclose(
        unit(Model2Vec.from_pretrained(model).encode([text])), wanted, atol=1e-3
    )
    assert (tmp_path / "demo" / "index.html").is_file()  # tests/web computes such tables in node


def test_a_prompt_for_queries_is_not_passed_over(config, tmp_path, teacher):
    prompted = tmp_path / "teacher"
    prompts = {"query": "ba: "}
    SentenceTransformer(modules=list(teacher), prompts=prompts, device="cpu").save(str(prompted))
    changed = replace(config, teacher=replace(config.teacher, model=str(prompted)))
    with pytest.raises(ValueError, match=r"prompt for queries, 'ba: '\. Give --teacher\.prompt"):
        build(changed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pca": SentencePCAConfig(8)}, "no use for pca: leave"),
        ({"pairs": PairsConfig(files="pairs.jsonl")}, "no use for pairs: leave"),
        (
            {"distillation": replace(VECTORS, center=True, matryoshka_dims=[8])},
            "no use for distillation.center, distillation.matryoshka_dims: leave",
        ),
    ],
)
def test_options_that_do_not_fit(config, changes, says):
    with pytest.raises(ValueError, match=says):
        replace(config, **changes)


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Path:
    """NFCorpus's files with texts of ours: each query is some words of its only answer."""
    folder = tmp_path_factory.mktemp("mteb") / "NFCorpus"
    folder.mkdir()
    rng, texts = np.random.default_rng(0), generated_sentences(120, seed=7)
    queries = [" ".join(rng.permutation(text.rstrip(".").split())[:3]) for text in texts[:40]]
    documents = {"_id": [f"d{i}" for i in range(120)], "title": [""] * 120, "text": texts}
    asked = {"_id": [f"q{i}" for i in range(40)], "text": queries}
    links = {"query-id": asked["_id"], "corpus-id": documents["_id"][:40], "score": [1] * 40}
    for name, columns in (("corpus", documents), ("queries", asked), ("qrels", links)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {file}.parquet\n"
        for name, split, file in (
            ("corpus", "corpus", "corpus"),
            ("queries", "queries", "queries"),
            ("default", "test", "qrels"),
        )
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    return folder


def ndcg(queries: np.ndarray, documents: np.ndarray) -> float:
    """nDCG@10 x 100 where the answer of query i is document i, by its definition."""
    order = np.argsort(-(unit(queries) @ unit(documents).T), axis=1, kind="stable")
    ranks = np.argmax(order == np.arange(len(queries))[:, None], axis=1)
    return 100 * np.where(ranks < 10, 1 / np.log2(ranks + 2), 0).mean()


def test_a_task_is_scored_with_the_documents_of_another_model(
    built, config, teacher, searched, tmp_path, capsys
):
    ours, files = str(built.output), pq.read_table(searched / "queries.parquet")
    own = SentenceTransformer(ours, device="cpu")
    queries = own.encode(files["text"].to_pylist())
    documents = teacher.encode(pq.read_table(searched / "corpus.parquet")["text"].to_pylist())
    task = ["--tasks", "NFCorpus", "--data", str(searched.parent), "--folder", str(tmp_path)]
    assert main(["evaluate", ours, *task, "--documents_by", config.teacher.model]) == 0
    told = float(capsys.readouterr().out.split()[1])
    assert told == pytest.approx(ndcg(queries, documents), abs=0.01)
    # A router is the same, and documents of the model itself are not; results lie apart.
    both = Router.for_query_document([*own], [*teacher])
    SentenceTransformer(modules=[both], device="cpu").save(str(tmp_path / "router"))
    assert main(["evaluate", str(tmp_path / "router"), *task]) == 0
    assert float(capsys.readouterr().out.split()[1]) == pytest.approx(told, abs=0.01)
    assert main(["evaluate", ours, *task]) == 0
    assert float(capsys.readouterr().out.split()[1]) != pytest.approx(told, abs=0.01)
    assert len(list((tmp_path / "results/local__queries").glob("*"))) == 2


@pytest.fixture
def files(searched, tmp_path, monkeypatch) -> list[str]:
    """Options that name the same data as a user's own; the current folder is `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    links = pq.read_table(searched / "qrels.parquet")
    links = links.rename_columns(["query_id", "document_id", "score"])
    pq.write_table(links, "relevant.parquet")
    names = ["--queries", searched / "queries.parquet", "--documents", searched / "corpus.parquet"]
    return [*map(str, names), "--relevant", "relevant.parquet"]


def test_files_of_ones_own_are_searched_so_too(built, config, teacher, searched, files):
    assert (
        main(["evaluate", str(built.output), *files, "--documents_by", config.teacher.model]) == 0
    )
    facts = json.loads(Path("results/own_queries.json").read_text())
    assert "Documents were encoded by local/teacher." in facts["about"]
    texts = [pq.read_table(searched / f"{name}.parquet")["text"] for name in ("queries", "corpus")]
    own = SentenceTransformer(str(built.output), device="cpu")
    wanted = ndcg(own.encode(texts[0].to_pylist()), teacher.encode(texts[1].to_pylist()))
    first = facts["table"].splitlines()[2].split("|")
    assert float(first[2].split()[0]) == pytest.approx(wanted, abs=0.01)


def test_the_card_says_which_documents_are_asked(built, config, searched, files, tmp_path, capsys):
    model = tmp_path / "queries"
    shutil.copytree(built.output, model)
    assert main(["evaluate", str(model), *files, "--documents_by", config.teacher.model]) == 0
    own = ["--own_data", "results/own_queries.json", "--work_dir", config.work_dir]
    assert main(["card", str(model), *own]) == 0
    card = (model / "README.md").read_text()
    assert "for documents that were encoded by a local model, `teacher`:" in card
    assert "index = documents.encode_document(" in card
    assert "has the direction of the teacher's" in card
    assert "Documents were encoded by local/teacher." in card
    assert "PCA" not in card.partition("<details>")[0]
    task = ["--tasks", "NFCorpus", "--data", str(searched.parent), "--folder", str(tmp_path)]
    assert main(["evaluate", str(model), *task, "--documents_by", config.teacher.model]) == 0
    [results] = (tmp_path / "results/local__queries").iterdir()
    capsys.readouterr()
    assert main(["card", str(model), "--results", str(results)]) == 1
    assert "documents that another model encoded, so not of this" in capsys.readouterr().err


def test_what_is_for_models_alone_is_refused(config, tmp_path, capsys):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(asdict(config)))
    assert main(["build", str(recipe), "--publish", "org/queries"]) == 1
    assert "encodes queries for its teacher's documents, which" in capsys.readouterr().err
    with pytest.raises(ValueError, match="is for models of one teacher: leave it out"):
        EnsembleConfig(members=["st-static/english-384"], distillation=VECTORS)


def test_documents_of_another_model_that_do_not_fit(built, config, searched, tmp_path, capsys):
    data = ["--data", str(searched.parent), "--folder", str(tmp_path)]
    for arguments, says in [
        (
            ["--tasks", "NFCorpus", "--documents_by", "st-static/english-384"],
            "dimensions, but st-st",
        ),
        (["--tasks", "NFCorpus", "--documents_by", "nowhere"], "nowhere"),
    ]:
        assert main(["evaluate", str(built.output), *arguments, *data]) == 1
        assert says in capsys.readouterr().err
    (searched.parent / "STS12").mkdir(exist_ok=True)
    arguments = ["--tasks", "STS12", "NFCorpus", "--documents_by", config.teacher.model]
    assert main(["evaluate", str(built.output), *arguments, *data]) == 1
    assert "these have no documents: STS12" in capsys.readouterr().err
