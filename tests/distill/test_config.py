"""What a recipe may say: defaults as the paper has them, and values that cannot work refused."""

import dataclasses
import json
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


def pinned(revision: str | None) -> TeacherConfig:
    return TeacherConfig(model="some/model", trust_remote_code=True, revision=revision)


NO_COMMIT = r"teacher\.revision must be a full commit hash"
OUTSIDE = r"work_dir .* must lie outside output"
UNEXPECTED = "VocabularyConfig: got an unexpected keyword argument 'sise'. Its fields are size, "
TOO_MANY = r"SentencePCAConfig: too many positional arguments\. Its fields are n_components, "
TWICE = r"SentencePCAConfig: multiple values for argument 'n_components'\. Its fields are "
WORK_TOGETHER = r"distillation\.batch_size \(256\) must be at most selection\.held_out \(64\)"


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (
            lambda: TeacherConfig(batch_tokens=0),
            ValueError,
            "number of at least 1, but got 0",
        ),
        (
            lambda: SentencesConfig(min_words=65),
            ValueError,
            "at least 1 and at most 64, but got",
        ),
        (lambda: SentencesConfig(min_letters=1.5), ValueError, "at least 0 and at most 1, but got"),
        (lambda: SelectionConfig(2001), ValueError, "at least 1 and at most 2000, but got"),
        (lambda: SelectionConfig(min_words=65), ValueError, "whole number at most 64, but got 65"),
        (lambda: SelectionConfig(reuse_length=0.9), ValueError, "expected a number of at least 1"),
        (lambda: SelectionConfig(held_out=1), ValueError, "expected a whole number of at least 2"),
        (lambda: DistillationConfig(batch_size=100), ValueError, "multiple of .*groups_per_batch"),
        (lambda: DistillationConfig(temperature=0), ValueError, "number above 0, but got 0"),
        (lambda: DistillationConfig(max_steps=-1), ValueError, "a whole number of at least 0"),
        (lambda: DistillationConfig(matryoshka_dims=[128, 0]), ValueError, "of at least 1 or null"),
        (lambda: DistillationConfig(head=-1), ValueError, "number of at least 0, but got -1"),
        (lambda: DistillationConfig(head=8, max_steps=0), ValueError, r"\.max_steps is 0"),
        (lambda: CorpusConfig(max_documents=-1), ValueError, "max_documents"),
        (lambda: BuildConfig(workers=-1), ValueError, "workers"),
        # Stages that cannot work together.
        (lambda: BuildConfig(selection=SelectionConfig(held_out=64)), ValueError, WORK_TOGETHER),
        (
            lambda: BuildConfig(distillation=DistillationConfig(matryoshka_dims=[512, 128])),
            ValueError,
            r"distillation\.matryoshka_dims",
        ),
        # The output is replaced as a whole.
        (lambda: BuildConfig(output="a/b", work_dir="a/b"), ValueError, OUTSIDE),
        (lambda: BuildConfig(output="a/b", work_dir="a/b/work"), ValueError, OUTSIDE),
        (lambda: BuildConfig(output="a/b", work_dir="a/../a/b"), ValueError, OUTSIDE),
        *(
            (lambda revision=revision: pinned(revision), ValueError, NO_COMMIT)
            for revision in [None, "main", COMMIT[:39], COMMIT + "0", COMMIT.upper(), "g" * 40]
        ),
        # Values of another type.
        (lambda: VocabularyConfig(size="5"), TypeError, "number of at least 1, but got '5'"),
        (lambda: VocabularyConfig(size=True), TypeError, "but got True"),
        (
            lambda: BuildConfig(vocabulary={"size": 3}),
            TypeError,
            "expected a VocabularyConfig, but",
        ),
        (lambda: VocabularyConfig(sise=3), TypeError, UNEXPECTED),
        (lambda: SentencePCAConfig(1, 2, 0, 4), TypeError, TOO_MANY),
        (lambda: SentencePCAConfig(1, n_components=1), TypeError, TWICE),
    ],
)
def test_values_that_cannot_work_are_refused(make, error, says):
    with pytest.raises(error, match=says) as caught:
        make()
    assert isinstance(caught.value, TypeError) == (error is TypeError)


def test_values_at_the_border_of_what_can_be() -> None:
    assert DistillationConfig(groups_per_batch=0, batch_size=100).batch_size == 100
    untrained = DistillationConfig(max_steps=0)
    few = BuildConfig(selection=SelectionConfig(held_out=2), distillation=untrained)
    assert few.selection.held_out == 2
    assert BuildConfig(output="models/mine", work_dir="models/mine-work").output == "models/mine"
    assert pinned(COMMIT).trust_remote_code
    assert not TeacherConfig(model="some/model", revision=COMMIT).trust_remote_code
    assert CorpusConfig().patterns == []
    assert CorpusConfig(files="a/*.txt").patterns == ["a/*.txt"]
    assert CorpusConfig(files=["a.txt", "b.txt"]).patterns == ["a.txt", "b.txt"]


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
    elsewhere = {"output": "a", "work_dir": "b", "workers": 7, "questions": ["why?"]}
    assert dataclasses.replace(config, **elsewhere).recipe() == recipe
    assert json.loads(json.dumps(recipe)) == recipe


def test_numbers_of_numpy_may_be_given_and_are_written_as_json() -> None:
    config = VocabularyConfig(size=np.int64(5))
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(
        dataclasses.asdict(VocabularyConfig(size=5))
    )


def test_folders_may_be_paths() -> None:
    config = BuildConfig(output=Path("here") / "model", work_dir=Path("work"))
    assert (config.output, config.work_dir) == (str(Path("here/model")), "work")
