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
    """What determines the vocabulary."""
    return asdict(vocabulary) | {"teacher_tokenizer": digest(teacher.tokenizer.to_str())}


def selection_key(config: SelectionConfig, teacher: Teacher) -> Key:
    """What determines the selection."""
    if not config.passages:
        return asdict(config)
    # How long passages may be: the prompt takes its part of what the teacher reads.
    return asdict(config) | {"max_tokens": teacher.max_tokens, "prompt": teacher.prompt}


def teacher_key(teacher: Teacher) -> Key:
    """What determines the teacher's vectors; `auto` would hide another machine's format."""
    return {
        "weights": teacher.fingerprint(),
        "dtype": str(teacher.dtype),
        "prompt": teacher.prompt,
        "batch_tokens": teacher.batch_tokens,
        "sums": "by shard",
    }


def fine_tuning_key(
    config: PairsConfig, pairs: pa.Table | None, distillation: DistillationConfig
) -> Key:
    """What determines the training on pairs: given ones, or those that are mined."""
    key = {"max_steps": config.max_steps, "distillation": asdict(distillation)}
    if pairs:
        return key | {"pairs": digest({n: pairs[n].to_pylist() for n in pairs.column_names})}
    return key | {"mined": config.mined}
