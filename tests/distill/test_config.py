"""What a recipe may say: defaults as the paper has them, and values that cannot work refused."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from st_static.distill.config import (
    BuildConfig,
    CorpusConfig,
    DistillationConfig,
    SelectionConfig,
    SentencePCAConfig,
    SentencesConfig,
    TeacherConfig,
    VocabularyConfig,
)

COMMIT = "a829fd0e060bb84554da0dfd354d0de0f7712b7f"


def test_defaults_are_the_papers_up_to_distillation() -> None:
    config = BuildConfig()
    assert config.vocabulary.size == 150_000
    assert config.selection.sentences_per_word == 100
    assert config.sentences.min_words == 3
    assert config.sentences.min_letters == 0.5
    assert config.pca == SentencePCAConfig(256)
    assert config.distillation.temperature == 0.05


def test_recipe_holds_no_place_on_this_machine() -> None:
    here = BuildConfig(output="a", work_dir="b", workers=1, questions=["why?"]).recipe()
    there = BuildConfig(output="c", work_dir="d", workers=7).recipe()
    assert here == there
    assert json.loads(json.dumps(here)) == here


@pytest.mark.parametrize(
    "changed",
    [
        BuildConfig(seed=1),
        BuildConfig(teacher=TeacherConfig(prompt="query: ")),
        BuildConfig(sentences=SentencesConfig(min_words=4)),
        BuildConfig(pca=SentencePCAConfig(continuations=0.0)),
    ],
)
def test_recipe_holds_what_determines_the_model(changed: BuildConfig) -> None:
    assert changed.recipe() != BuildConfig().recipe()


def test_configurations_cannot_be_changed_after_their_check() -> None:
    config = BuildConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.vocabulary.size = 0  # type: ignore[misc]


def test_files_may_be_one_pattern_or_several() -> None:
    assert CorpusConfig().patterns == []
    assert CorpusConfig(files="a/*.txt").patterns == ["a/*.txt"]
    assert CorpusConfig(files=["a.txt", "b.txt"]).patterns == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    "revision", [None, "main", "v1.0", COMMIT[:39], COMMIT + "0", COMMIT.upper(), "g" * 40]
)
def test_remote_code_needs_a_full_commit_hash(revision: str | None) -> None:
    with pytest.raises(ValueError, match=r"teacher\.revision must be a full commit hash"):
        TeacherConfig(model="some/model", trust_remote_code=True, revision=revision)


def test_remote_code_runs_with_a_pinned_revision_only_when_asked_for() -> None:
    pinned = TeacherConfig(model="some/model", trust_remote_code=True, revision=COMMIT)
    assert pinned.trust_remote_code
    assert not TeacherConfig(model="some/model", revision=COMMIT).trust_remote_code


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: TeacherConfig(batch_tokens=0),
            r"batch_tokens: expected a whole number of at least 1, but got 0\.",
        ),
        (lambda: SentencesConfig(min_words=0), "min_words: expected a whole number of at least 1"),
        (
            lambda: SentencesConfig(min_words=65),
            "min_words: expected a whole number of at least 1 and at most 64, but got 65",
        ),
        (
            lambda: SentencesConfig(min_letters=1.5),
            "min_letters: expected a number of at least 0 and at most 1, but got 1.5",
        ),
        (
            lambda: SelectionConfig(2001),
            "sentences_per_word: expected a whole number of at least 1 and at most 2000, but got",
        ),
        (lambda: SelectionConfig(min_words=65), "expected a whole number at most 64, but got 65"),
        (lambda: SelectionConfig(reuse_length=0.9), "expected a number of at least 1"),
        (lambda: SelectionConfig(held_out=1), "expected a whole number of at least 2"),
        (lambda: DistillationConfig(batch_size=100), r"must be a multiple of .*groups_per_batch"),
        (lambda: DistillationConfig(temperature=0), "expected a number above 0, but got 0"),
        (lambda: DistillationConfig(max_steps=-1), "expected a whole number of at least 0"),
        (
            lambda: DistillationConfig(matryoshka_dims=[128, 0]),
            "expected a list of whole numbers of at least 1 or null",
        ),
        (lambda: CorpusConfig(max_documents=-1), "max_documents"),
        (lambda: BuildConfig(workers=-1), "workers"),
    ],
)
def test_values_that_cannot_work_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        make()
    assert not isinstance(error.value, TypeError)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: VocabularyConfig(size="5"), "expected a whole number of at least 1, but got '5'"),
        (lambda: VocabularyConfig(size=True), "but got True"),
        (
            lambda: BuildConfig(vocabulary={"size": 3}),
            "expected a VocabularyConfig, but",
        ),
        (
            lambda: VocabularyConfig(sise=3),
            "VocabularyConfig: got an unexpected keyword argument 'sise'. Its fields are size, ",
        ),
        (
            lambda: SentencePCAConfig(1, 2, 0, 4),
            r"SentencePCAConfig: too many positional arguments\. Its fields are n_components, ",
        ),
        (
            lambda: SentencePCAConfig(1, n_components=1),
            r"SentencePCAConfig: multiple values for argument 'n_components'\. Its fields are ",
        ),
    ],
)
def test_values_of_another_type_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


def test_random_batches_need_no_groups() -> None:
    assert DistillationConfig(batches="random", batch_size=100).batch_size == 100


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"selection": SelectionConfig(held_out=64)},
            r"distillation\.batch_size \(256\) must be at most selection\.held_out \(64\)",
        ),
        (
            {"distillation": DistillationConfig(matryoshka_dims=[512, 128])},
            r"distillation\.matryoshka_dims",
        ),
    ],
)
def test_stages_that_cannot_work_together_are_refused_at_once(changes: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BuildConfig(**changes)


def test_without_distillation_few_sentences_may_be_held_out() -> None:
    few = SelectionConfig(held_out=2)
    config = BuildConfig(selection=few, distillation=DistillationConfig(max_steps=0))
    assert config.selection.held_out == 2


@pytest.mark.parametrize("work_dir", ["models/mine", "models/mine/work", "models/../models/mine"])
def test_the_stages_must_not_lie_in_the_model_folder(work_dir: str) -> None:
    """It is replaced as a whole."""
    with pytest.raises(ValueError, match=r"work_dir .* must lie outside output"):
        BuildConfig(output="models/mine", work_dir=work_dir)
    assert BuildConfig(output="models/mine", work_dir="models/mine-work").output == "models/mine"


def test_the_record_of_a_recipe_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "teacher").mkdir()
    config = BuildConfig(
        teacher=TeacherConfig(model=str(tmp_path / "teacher")),
        corpus=CorpusConfig(files=[str(tmp_path / "*.txt"), str(tmp_path / "b.jsonl")]),
    )
    recipe = config.recipe()
    assert recipe["teacher"]["model"] == "teacher"
    assert recipe["corpus"]["files"] == ["*.txt", "b.jsonl"]
    assert str(tmp_path) not in str(recipe)


def test_numbers_of_numpy_may_be_given_and_are_written_as_json() -> None:
    config = VocabularyConfig(size=np.int64(5))
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(
        dataclasses.asdict(VocabularyConfig(size=5))
    )


def test_folders_may_be_paths() -> None:
    config = BuildConfig(output=Path("here") / "model", work_dir=Path("work"))
    assert (config.output, config.work_dir) == (str(Path("here/model")), "work")
