"""Analyses of a small built model: every table and figure, and what each is computed from."""

import copy
import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import spearmanr
from small_build import generated_sentences
from transformers import AutoModel, AutoTokenizer

from st_static.cli import main
from st_static.distill.agreement import Target, teacher_agreement
from st_static.distill.config import SentencePCAConfig
from st_static.distill.sentence_pca import reduce_table
from st_static.distill.stages import read_word_table, write_student
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.built_model import BuiltModel, held_out_agreement
from st_static.evaluate.models import load_model
from st_static.lab.analyse import (
    Inputs,
    ablation,
    ablation_tables,
    analyse,
    analyse_transformers,
)
from st_static.lab.collapse import (
    sample_lines,
    texts_with_words,
    token_vectors,
    transformer_of,
    word_vectors,
)
from st_static.lab.sphere import Sphere, measure_all
from st_static.model.head import Head
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import are_continuations
from st_static.model.vectors import sentence_means, unit_rows


@pytest.fixture(scope="module")
def model(built):
    return BuiltModel(built / "model", built / "work")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder of texts, pairs, and words with their parts of speech."""
    inputs = tmp_path_factory.mktemp("inputs")
    sentences = generated_sentences(30, seed=5)
    (inputs / "texts.txt").write_text("\n".join(sentences))
    pairs = zip(sentences, reversed(sentences), strict=True)
    (inputs / "pairs.tsv").write_text("\n".join(map("\t".join, pairs)))
    (inputs / "tagged.txt").write_text("baba/nn bade/vb bafi/jj bago/nn")
    return inputs


@pytest.fixture(scope="module")
def written(built, inputs, tmp_path_factory):
    output = tmp_path_factory.mktemp("analysis")
    arguments = [
        *("analyse", str(built / "model"), "--work_dir", str(built / "work")),
        *("--output", str(output), "--teacher", str(built / "teacher/teacher")),
        *("--texts", str(inputs / "texts.txt"), "--pairs", str(inputs / "pairs.tsv")),
        *("--tagged", str(inputs / "tagged.txt"), "--probe", str(built / "corpus.txt")),
        *("--peers", str(built / "model")),
    ]
    assert main(arguments) == 0
    return output


def test_every_table_in_three_formats_and_every_figure_in_two(written):
    tables = [
        *("norms", "norms_and_frequency", "norms_extraction_to_pca", "norms_pca_to_distillation"),
        *("tagged_norms", "tagged_norms_and_frequency", "tagged_extremes", "parts_of_speech"),
        *("word_classes", "agreement_by_length", "socm", "socm_pairs"),
        *("alignment_uniformity", "probing"),
    ]
    figures = ["norms", "agreement_by_length", "parts_of_speech", "alignment_uniformity"]
    figures += ["socm_planes", "socm_clouds"]
    expected = {f"{t}{s}" for t in tables for s in (".md", ".csv", ".json")}
    expected |= {f"{f}{s}" for f in figures for s in (".svg", ".png")}
    assert {path.name for path in written.iterdir()} == expected
    assert all(path.stat().st_size for path in written.iterdir())


def test_a_build_is_measured_without_other_models(built, inputs, tmp_path):
    arguments = ["analyse", str(built / "model"), "--work_dir", str(built / "work")]
    arguments += ["--output", str(tmp_path), "--probe", str(built / "corpus.txt")]
    for option in ("texts", "pairs"):
        arguments += [f"--{option}", str(next(inputs.glob(f"{option}.*")))]
    assert main(arguments) == 0
    for name in ("alignment_uniformity", "probing", "socm"):
        rows = pl.read_json(tmp_path / f"{name}.json")["model"]
        assert {"extraction", "pca", "distillation"} <= set(rows), name


def test_a_row_of_probes_for_each_stage_the_teacher_and_peers(built, written):
    """The table does not see the order of words; the teacher does, though its weights are random.
    The model is that of its last stage."""
    rows = pl.read_json(written / "probing.json").to_dicts()
    teacher, model = str(built / "teacher/teacher"), str(built / "model")
    stages = ["extraction", "pca", "distillation"]
    assert [row["model"] for row in rows] == ["chance", *stages, teacher, model]
    by_name = {row["model"]: row for row in rows}
    assert {by_name[name]["word order"] for name in ("chance", *stages, model)} == {50}
    assert by_name[teacher]["word order"] != 50
    assert by_name[model] == by_name["distillation"] | {"model": model}


def test_norms_are_those_of_the_stages_tables(model, written):
    norms = pl.read_json(written / "norms.json")
    assert norms["word"].to_list() == model.words
    row = model.tokenizer.token_to_id(model.words[7])
    for stage, table in model.tables.items():
        assert norms[stage][7] == pytest.approx(np.linalg.norm(table[row]), rel=1e-5)


def test_agreement_of_all_lengths_is_that_of_the_build(model, built):
    stages = json.loads((built / "model/st_static.json").read_text())["stages"]
    table = held_out_agreement(model)
    expected = stages["distillation"]["teacher_agreement"]
    assert table["agreement"][-1] == pytest.approx(expected, abs=0.01)
    assert table["sentences"][-1] == 64


def hidden_states(transformer, texts):
    """The last layer of each text alone, by transformers itself."""
    tokenizer = AutoTokenizer.from_pretrained(transformer)
    bert = AutoModel.from_pretrained(transformer).eval()
    with torch.inference_mode():
        outputs = [bert(**tokenizer(text, return_tensors="pt")) for text in texts]
    return [output.last_hidden_state[0].numpy().astype(float) for output in outputs]


def collapse_by_covariances(texts):
    """The mean over pairs by its definition, with roots of d x d matrices by their eigenvalues."""

    def root(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T

    moments = []
    for tokens in texts:
        scaled = tokens / np.linalg.norm(tokens.mean(axis=0))
        moments.append((scaled.mean(axis=0), np.cov(scaled, rowvar=False, bias=True)))
    values = []
    for (mean, spread), (other_mean, other) in itertools.combinations(moments, 2):
        half = root(spread)
        distance = np.trace(spread + other - 2 * root(half @ other @ half)) / 4
        values.append((1 - np.sum((mean - other_mean) ** 2) / 4) * distance)
    return 100 * np.mean(values)


def test_the_collapse_of_transformers_is_over_all_their_tokens(built, tmp_path, capsys):
    """A base and its sentence-transformers folder, from texts of many lengths in batches."""
    base, fine_tuned = built / "teacher/bert", built / "teacher/teacher"
    texts = generated_sentences(40, seed=5)
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    arguments = ["--texts", str(tmp_path / "texts.txt"), "--output", str(tmp_path / "out")]
    assert main(["analyse", "--socm", str(base), str(fine_tuned), *arguments]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "out/socm.md").read_text() in printed
    rows = pl.read_json(tmp_path / "out/socm.json").to_dicts()
    assert [row["model"] for row in rows] == [str(base), str(fine_tuned)]
    expected = collapse_by_covariances(hidden_states(base, texts))
    assert [row["SOCM x 100"] for row in rows] == pytest.approx([expected, expected], rel=1e-3)
    assert {row["pairs"] for row in rows} == {40 * 39 // 2}


def test_padding_on_the_left_is_no_token(built):
    """As decoders have it; positions would shift, too."""
    texts = ["Baba bade.", "Bafi bago baku bala bame."]
    folder = str(built / "teacher/bert")
    transformer = transformer_of(folder, load_model(folder))
    transformer.tokenizer.padding_side = "left"
    found = token_vectors(transformer, texts)
    assert transformer.tokenizer.padding_side == "left"  # as it was
    for vectors, expected in zip(found, hidden_states(built / "teacher/bert", texts), strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_the_collapse_of_the_teacher_and_after_each_stage(built, model, inputs, written):
    path = str(built / "teacher/teacher")
    texts = sample_lines(inputs / "texts.txt")
    rows = pl.read_json(written / "socm.json").to_dicts()
    assert [row["model"] for row in rows] == [path, "extraction", "pca", "distillation"]
    expected = [collapse_by_covariances(hidden_states(built / "teacher/bert", texts))]
    known = [model.tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    for table in model.tables.values():
        rows_of_text = [table[ids].astype(float) for ids in known]
        expected.append(collapse_by_covariances([r[r.any(axis=1)] for r in rows_of_text]))
    assert [row["SOCM x 100"] for row in rows] == pytest.approx(expected, rel=1e-3)
    assert {row["texts"] for row in rows} == {len(texts)}


def test_each_model_names_the_pairs_that_it_loses_most(inputs, written):
    rows = pl.read_json(written / "socm_pairs.json")
    assert rows.group_by("model", maintain_order=True).len()["len"].to_list() == [20] * 4
    texts = set(sample_lines(inputs / "texts.txt"))
    assert {*rows["text1"], *rows["text2"]} <= texts
    assert (rows["text1"] != rows["text2"]).all()


def test_teacher_and_peers_lie_beside_the_build_on_the_sphere(built, written):
    rows = pl.read_json(written / "alignment_uniformity.json")
    teacher, peer = rows.filter(kind="teacher"), rows.filter(kind="peer")
    assert teacher["model"].to_list() == [str(built / "teacher/teacher")]
    # The peer is the model itself.
    last = rows.filter(model="distillation")
    for measure in ("alignment", "uniformity"):
        assert peer[measure].to_list() == pytest.approx(last[measure].to_list(), rel=1e-5)
        assert teacher[measure].to_list() != pytest.approx(last[measure].to_list(), rel=1e-3)


def test_a_static_model_is_no_transformer(built, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("Baba bade.\nBafi bago.")
    texts = ["--texts", str(tmp_path / "texts.txt")]
    assert main(["analyse", "--socm", str(built / "model"), *texts]) == 1
    assert "Expected a transformer, but" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--socm", "a", "b"], "--socm needs a file of texts to measure on: add --texts FILE."),
        (["--texts", "t"], "Missing: MODEL, --work_dir. Name a model and its work_dir"),
        (["m"], "Missing: --work_dir. Name a model"),
        (["m", "--tagged", "x", "--socm", "a", "--texts", "t"], "but --tagged, MODEL came, too"),
        (["m", "--work_dir", "w", "--socm", "a", "--texts", "t"], "but --work_dir, MODEL came"),
    ],
)
def test_either_a_built_model_or_transformers(arguments, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["analyse", *arguments])
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


def test_the_collapse_of_a_stage_is_over_its_word_vectors(model):
    texts = texts_with_words(model, ["Baba, bade!", "?", "Bafi."])
    assert texts == ["Baba, bade!", "Bafi."]
    rows = [[model.tokenizer.token_to_id(w) for w in ws] for ws in (("baba", "bade"), ("bafi",))]
    for stage, table in model.tables.items():
        for vectors, ids in zip(word_vectors(model, stage, texts), rows, strict=True):
            np.testing.assert_array_equal(vectors, table[ids])
    with pytest.raises(ValueError, match=r"Of the 2 texts for .* only 1 have words of the mod"):
        texts_with_words(model, ["Baba.", "?"])


@pytest.fixture(scope="module")
def with_head(built, tmp_path_factory):
    """The model as if its distillation had trained a head, too."""
    work = tmp_path_factory.mktemp("with_head") / "work"
    shutil.copytree(built / "work", work)
    [stage] = work.glob("distillation-*")
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(6, 8)), rng.normal(size=(8, 6))
    head = Head(first.astype(np.float32), second.astype(np.float32))
    write_student(stage, read_word_table(stage), head)
    shutil.rmtree(stage / "checkpoints")  # which have none
    return BuiltModel(built / "model", work)


def test_the_distilled_models_vectors_are_those_behind_its_head(model, with_head):
    first, second = generated_sentences(30, seed=3), generated_sentences(30, seed=4)
    pairs = Sphere(list(zip(first, second, strict=True)))
    tables = (measure_all(m, {}, pairs).filter(kind="stage") for m in (model, with_head))
    before, after = tables
    assert before[:-1].equals(after[:-1])
    head = with_head.head_of("distillation")
    encoder = FastEncoder(StaticModel(model.tokenizer, model.table, normalize=True, head=head))
    expected = np.square(encoder.encode(first) - encoder.encode(second)).sum(axis=1).mean()
    assert after["alignment"][-1] == pytest.approx(expected, rel=1e-5)
    assert before["alignment"][-1] != pytest.approx(expected, rel=1e-2)
    held_out = np.flatnonzero(with_head.work.is_held_out)
    vectors = encoder.encode(with_head.held_out_texts)
    target = Target.fit(with_head.work.sentence_vectors, with_head.work.for_words)
    agreement = teacher_agreement(vectors, target(with_head.work.sentence_vectors[held_out]))
    found = held_out_agreement(with_head)["agreement"][-1]
    assert found == pytest.approx(agreement, abs=0.01)
    assert found != pytest.approx(held_out_agreement(model)["agreement"][-1], abs=1)


def test_the_ablations_tables(model):
    tables = ablation_tables(model)
    assert list(tables) == [
        *("extraction", "sentence PCA", "sentence PCA, nothing dropped", "vocabulary PCA"),
        "distillation",
    ]
    # A teacher of 32 dimensions: floor(32 / 100) = 0 components are dropped anyway.
    dropped, kept = (tables[f"sentence PCA{more}"] for more in ("", ", nothing dropped"))
    np.testing.assert_array_equal(kept, dropped)
    rows = model.rows_of_words(model.tables["extraction"]).astype(np.float64)
    axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][: kept.shape[1]]
    extracted = model.tables["extraction"]
    expected = (extracted - rows.mean(axis=0)) @ axes.T * extracted.any(axis=1, keepdims=True)
    expected[are_continuations(model.tokenizer)] *= model.continuations
    np.testing.assert_allclose(np.abs(tables["vocabulary PCA"]), np.abs(expected), atol=1e-3)


def test_the_ablations_pca_sees_the_sentences_that_the_recipes_saw(model, tmp_path, monkeypatch):
    """With fewer than all of them, and another seed: the stage gives the same table again."""
    monkeypatch.setattr("st_static.distill.sentence_pca._SENTENCES", 100)
    other, work = copy.copy(model), model.work
    other.seed = 5
    table, _ = reduce_table(
        tmp_path,
        [model.tables["extraction"]],
        [1.0],
        continues=are_continuations(model.tokenizer),
        ids=model.tokenize(work.selected.texts),
        sentences=work.for_words,
        config=SentencePCAConfig(n_components=8, continuations=model.continuations),
        seed=5,
    )
    found = ablation_tables(other)["sentence PCA, nothing dropped"]
    np.testing.assert_array_equal(found, table)
    assert not np.allclose(np.abs(found), np.abs(model.tables["pca"]), atol=1e-2)


def test_the_ablation_scores_every_table(model, tmp_path):
    first, second = generated_sentences(40, seed=1), generated_sentences(40, seed=2)
    gold = np.random.default_rng(0).uniform(0, 5, 40)
    (tmp_path / "data/STS12").mkdir(parents=True)
    pairs = pa.table({"sentence1": first, "sentence2": second, "score": gold})
    pq.write_table(pairs, tmp_path / "data/STS12/test.parquet")
    scores = ablation(model, ["STS12"], tmp_path, tmp_path / "data")
    assert scores["table"].to_list() == list(ablation_tables(model))
    x, y = (unit_rows(sentence_means(model.table, model.tokenize(t))) for t in (first, second))
    expected = 100 * spearmanr((x * y).sum(axis=1), gold).statistic
    assert scores["STS12"][-1] == pytest.approx(expected, abs=0.01)
    assert scores["mean"].to_list() == scores["STS12"].to_list()


def test_models_that_differ_in_normalize_alone_share_no_results(model, tmp_path, monkeypatch):
    """Their tables, names and folders may be the same."""
    asked = {}

    def record(encoder, *arguments):
        [vector] = encoder.encode([model.words[0]])
        asked[encoder.name, encoder.revision] = np.linalg.norm(vector)
        return SimpleNamespace(scores={"STS12": 0.0}, failures={})

    monkeypatch.setattr("st_static.evaluate.benchmark.run_tasks", record)
    for normalize in (True, False):
        other = copy.copy(model)
        other.normalize = normalize
        ablation(other, ["STS12"], tmp_path, tmp_path)
    tables = ablation_tables(model)
    assert len(asked) == 2 * len(tables)
    row = model.tokenizer.token_to_id(model.words[0])
    lengths = [np.linalg.norm(table[row]) for table in tables.values()]
    np.testing.assert_allclose(list(asked.values()), [1] * len(tables) + lengths, rtol=1e-5)


def test_a_work_folder_of_another_model(built, tmp_path):
    with pytest.raises(ValueError, match=r"is not the work_dir of .*model: it has none of its st"):
        BuiltModel(built / "model", tmp_path)
    with pytest.raises(ValueError, match=rf"stages\. They are in {built}/work, or name"):
        BuiltModel(built / "model", built)
    shutil.copytree(built / "work", tmp_path / "work")
    [pca] = (tmp_path / "work").glob("pca-*")
    pca.rename(tmp_path / "moved")
    with pytest.raises(ValueError, match=rf"it lacks {pca.name}\. Build the model again, or"):
        BuiltModel(built / "model", tmp_path / "work")
    with pytest.raises(ValueError, match="was not built from a teacher"):
        BuiltModel(built / "teacher/teacher", built / "work")


def test_the_figures_are_titled(written):
    # In SVG, letters are shapes with the text as a comment.
    for name, title in (
        ("norms", "Length of word vectors after each stage"),
        ("agreement_by_length", "Teacher agreement by sentence length"),
        ("alignment_uniformity", "Alignment and uniformity"),
        ("parts_of_speech", "Words whose vectors grow and shrink most: extraction to pca"),
    ):
        assert f"<!-- {title} -->" in (written / f"{name}.svg").read_text("utf-8")


def test_local_copies_without_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="are for tasks: name some"):
        Inputs(data=tmp_path)


@pytest.mark.parametrize("others", [{"teacher": "st-static/english-384"}, {"peers": ["glove:x"]}])
def test_other_models_need_something_to_be_measured_on(others):
    with pytest.raises(ValueError, match=r"measured on .*pairs.*: give"):
        Inputs(**others)


def test_files_that_hold_something_else(tmp_path):
    file: Path = tmp_path / "file.txt"
    file.write_text("one line\n\n")
    for text in ("one line\n\n", "one line\none line\n"):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"at least two different lines .* but got 1"):
            sample_lines(file)
    with pytest.raises(ValueError, match="line 1: expected two texts with a tab"):
        Sphere.read(file)


@pytest.mark.parametrize("made", ["ensemble", "conversion", "trained_without_teacher"])
def test_a_model_without_stages_is_refused(tmp_path, capsys, made):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "st_static.json").write_text(json.dumps({made: {}}))
    assert main(["analyse", str(tmp_path / "model"), "--work_dir", str(tmp_path)]) == 1
    assert "model was not built from a teacher, so it has no stages" in capsys.readouterr().err


def test_a_peer_that_cannot_be_loaded_is_refused_before_anything_is_written(built, model, tmp_path):
    (tmp_path / "vectors.txt").write_text("no numbers")
    (tmp_path / "pairs.tsv").write_text("ba de\tba fi\ngo ku\tgo la\n")
    for measured in ({"probe": [built / "corpus.txt"]}, {"pairs": tmp_path / "pairs.tsv"}):
        inputs = Inputs(**measured, peers=[f"glove:{tmp_path / 'vectors.txt'}"])
        with pytest.raises(ValueError, match=r"vectors\.txt"):
            analyse(model, tmp_path / "analysis", inputs)
        assert not (tmp_path / "analysis").exists()


def test_a_teacher_that_is_no_transformer_is_refused_before_anything_is_written(
    model, inputs, tmp_path
):
    given = Inputs(teacher="st-static/english-384", texts=inputs / "texts.txt")
    with pytest.raises(ValueError, match="Expected a transformer, but 'st-static/english-384' is"):
        analyse(model, tmp_path / "analysis", given)
    assert not (tmp_path / "analysis").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"teacher": "nope"}, "measured on texts, pairs or probes: give one"),
        ({"peers": ["nope"]}, "Peers are measured on pairs or probes: give one"),
        ({"peers": ["./nope"], "probe": [Path(__file__)]}, r"There is no folder \./nope"),
        ({"probe": [Path("nofile")]}, "There is no nofile"),
    ],
)
def test_inputs_that_lack_another(given, says):
    with pytest.raises(ValueError, match=says):
        Inputs(**given)


def test_a_task_that_cannot_be_scored_is_refused_before_any_work(model, tmp_path, monkeypatch):
    output = tmp_path / "analysis"
    with pytest.raises(ValueError, match="no task 'STS99'"):
        analyse(model, output, Inputs(tasks=["STS99"]))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set, and the dataset"):
        analyse(model, output, Inputs(tasks=["STS12"]))
    assert not output.exists()


@pytest.mark.parametrize(
    ("option", "content", "says"),
    [
        ("texts", b"", r"at least two different lines of text in .*file\.txt, but got 0"),
        ("texts", "Über\n".encode("latin-1"), r"file\.txt, line 1: expected text in UTF-8"),
        ("texts", None, r"file\.txt cannot be read \(Is a directory\)\.$"),
        ("pairs", b"one\n", r"file\.txt, line 1: expected two texts with a tab"),
        ("pairs", b"one\tother\n", r"file\.txt: expected two different texts at the beg"),
        ("pairs", "Über\tü\n".encode("latin-1"), r"file\.txt, line 1: expected text in UTF-8"),
        ("probe", b"one\n", r"file\.txt: the probe of sentence length needs two classes"),
        ("tagged", None, r"file\.txt cannot be read \(.*Is a directory"),
    ],
)
def test_an_input_that_holds_something_else_is_refused_before_anything_is_written(
    built, model, tmp_path, option, content, says
):
    file = tmp_path / "file.txt"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        analyse(
            model, tmp_path / "analysis", Inputs(**{option: [file] if option == "probe" else file})
        )
    if option == "texts":
        with pytest.raises(ValueError, match=says):
            analyse_transformers([str(built / "teacher/bert")], file, tmp_path / "analysis")
    assert not (tmp_path / "analysis").exists()


def test_each_model_has_an_analysis_of_its_own(built, tmp_path, monkeypatch, capsys):
    work = str((built / "work").resolve())
    for name in ("one", "other"):
        shutil.copytree(built / "model", tmp_path / "models" / name)
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        assert main(["analyse", f"models/{name}", "--work_dir", work]) == 0
        assert f"analysis/{name}/norms.md" in capsys.readouterr().out
    assert {path.name for path in Path("analysis").iterdir()} == {"one", "other"}
