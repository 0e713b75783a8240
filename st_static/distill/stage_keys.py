"""What determines each stage of a build: its key changes with its files, and with nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from st_static.distill.config import (
    DistillationConfig,
    PairsConfig,
    SelectionConfig,
    SentencesConfig,
    VocabularyConfig,
)
from st_static.distill.corpus.documents import Corpus
from st_static.distill.engines import Engine
from st_static.distill.stages import digest
from st_static.distill.teacher import Teacher
from st_static.languages import is_english, languages_of
from st_static.model.tokenizer import ENGLISH

Key = dict[str, Any]

# Of the stages' files; to be raised when they are computed or laid out in another way.
_FORMAT = 2
# The same where words are not English ones: it may be raised without making English builds anew.
_FORMAT_OF_OTHERS = 3
# Options that came later, with the values that leave older stages' keys as they were: what was
# done before there was a choice, whatever the defaults are now.
_DISTILLATION_BEFORE = {
    "optimizer": "sparse_adam",
    "max_grad_norm": 0.0,
    "device": None,
    "sentences_per_word": None,
    "development": "corpus",
    "head": 0,
    "cosines": 0.0,
    "spread": 0.0,
    "estimate": 0.0,
    "words": 0.0,
}
_SELECTION_BEFORE = {
    "further": 0.0,
    "spans": 0.0,
    "span_words": [1, 5],
    "passages": 0.0,
    "passage_words": [40, 220],
}


def format_of(vocabulary: VocabularyConfig) -> int:
    """The number of the format of all stages."""
    english = vocabulary.units == "words" and vocabulary.normalization == ENGLISH
    return _FORMAT if english else _FORMAT_OF_OTHERS


def sentences_key(config: SentencesConfig, corpus: Corpus, language: Any, engine: Engine) -> Key:
    """What determines the sentences; the engine reads the files."""
    key = asdict(config) | {"shards": "of parts", "corpus": corpus.identity(engine)}
    languages = languages_of(language)
    if any(map(is_english, languages or ["en"])):
        key |= {"lower_cased": "at marks"}
    return key if is_english(languages) else key | {"languages": languages}


def vocabulary_key(vocabulary: VocabularyConfig, teacher: Teacher) -> Key:
    """What determines the vocabulary; stages of before there was a choice stay valid."""
    usual = asdict(VocabularyConfig().with_defaults_of([])) | {"unknown": "pieces"}
    del usual["size"], usual["min_count"]
    chosen = {k: v for k, v in asdict(vocabulary).items() if v != usual.get(k)}
    return chosen | {"teacher_tokenizer": digest(teacher.tokenizer.to_str())}


def selection_key(config: SelectionConfig, teacher: Teacher) -> Key:
    """What determines the selection; stages of before there were other lengths stay valid."""
    key = _without(_SELECTION_BEFORE, asdict(config))
    if not config.passages:
        return key
    # How long passages may be: the prompt takes its part of what the teacher reads.
    prompt = {"prompt": teacher.prompt} if teacher.prompt else {}
    return key | {"max_tokens": teacher.max_tokens} | prompt


def teacher_key(teacher: Teacher) -> Key:
    """What determines the teacher's vectors; `auto` would hide another machine's format."""
    return {
        "weights": teacher.fingerprint(),
        "dtype": str(teacher.dtype),
        "prompt": teacher.prompt,
        "batch_tokens": teacher.batch_tokens,
        "sums": "by shard",
    }


def distillation_key(config: DistillationConfig) -> Key:
    """What determines the training; stages of before there was a choice stay valid."""
    return _without(_DISTILLATION_BEFORE, asdict(config))


def fine_tuning_key(
    config: PairsConfig, pairs: pa.Table | None, distillation: DistillationConfig
) -> Key:
    """What determines the training on pairs: given ones, or those that are mined."""
    training = ("max_steps", "batch_size", "temperature", "learning_rate")
    mining = () if pairs else ("mined", "min_cosine", "margin")
    key = {name: getattr(config, name) for name in (*training, *mining)}
    if pairs:
        key["pairs"] = digest({name: pairs[name].to_pylist() for name in pairs.column_names})
    return key | {"distillation": distillation_key(distillation)}


def _without(before: Key, key: Key) -> Key:
    """A key without the options that say what was done before there was a choice."""
    return {name: value for name, value in key.items() if value != before.get(name, ...)}
