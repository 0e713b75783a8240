"""What the tests of whole builds share: generated text, a tiny random teacher, a small recipe."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
from st_static.distill.teacher import Teacher

_SYLLABLES = ["ba", "de", "fi", "go", "ku", "la", "me", "no", "pu", "ra", "si", "to"]
WORDS = [first + second for first in _SYLLABLES for second in _SYLLABLES]
DIMENSION = 32


def generated_sentences(n_sentences: int, seed: int = 0) -> list[str]:
    """Sentences of 3 to 12 invented words; few words are frequent and many are rare."""
    rng = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, len(WORDS) + 1)
    sentences = []
    for length in rng.integers(3, 13, n_sentences):
        words = rng.choice(WORDS, length, p=frequency / frequency.sum())
        sentences.append(" ".join(words).capitalize() + ".")
    return sentences


def write_corpus(path: Path, n_sentences: int = 1500, seed: int = 0) -> Path:
    """Write generated sentences, a document a line."""
    path.write_text("\n".join(generated_sentences(n_sentences, seed)) + "\n", "utf-8")
    return path


def save_tiny_teacher(folder: Path) -> Path:
    """Save a two-layer BERT with random weights as a SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = sorted({letter for word in WORDS for letter in word})
    pieces = [*WORDS[:80], *letters, *(f"##{letter}" for letter in letters), "."]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    bert = folder / "bert"
    bert.mkdir(parents=True)
    (bert / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    BertTokenizerFast(str(bert / "vocab.txt"), model_max_length=64).save_pretrained(bert)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=DIMENSION,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=64,
                # Random weights of the usual 0.02 would give all sentences the same vector.
                initializer_range=0.5,
            )
        )
    model.save_pretrained(bert)
    transformer = Transformer(str(bert), max_seq_length=64)
    pooling = Pooling(DIMENSION, pooling_mode="mean")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(folder / "teacher"))
    return folder / "teacher"


def small_config(teacher: Path, corpus: Path, folder: Path, **changes: Any) -> BuildConfig:
    """A recipe of a second or two: model and stages go under `folder`."""
    config = BuildConfig(
        output=str(folder / "model"),
        work_dir=str(folder / "work"),
        workers=1,
        teacher=TeacherConfig(
            model=str(teacher), expect={}, dtype="float32", device="cpu", batch_tokens=512
        ),
        corpus=CorpusConfig(files=str(corpus)),
        sentences=SentencesConfig(min_words=3),
        vocabulary=VocabularyConfig(size=120, min_count=2),
        selection=SelectionConfig(sentences_per_word=5, held_out=64),
        pca=SentencePCAConfig(n_components=8),
        distillation=DistillationConfig(
            max_steps=30,
            batch_size=16,
            groups_per_batch=4,
            eval_steps=10,
            # Of random weights only noise is left without the mean.
            center=False,
        ),
    )
    return replace(config, **changes)


def model_bytes(folder: Path) -> dict[str, bytes]:
    """Every file of a model, by its path within."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def build_in_small_shards(config: BuildConfig, ray_address: str = "local") -> None:
    """Build, as the leader of a process group, in steps so small that every stage has several."""
    os.setsid()
    os.environ["RAY_ADDRESS"] = ray_address
    from joblib.externals.loky import get_reusable_executor

    from st_static.distill import extraction
    from st_static.distill import pipeline as recipe
    from st_static.distill.corpus import sentences

    sentences.BLOCK_CHARACTERS = 6_000
    extraction.LEAST_TOKENS = 1  # a shard is a batch
    recipe.build(config)
    # At the end of a multiprocessing child nobody else does it, and the exit would wait for them.
    get_reusable_executor().shutdown()


def with_batch_tokens(teacher: Teacher, batch_tokens: int) -> Teacher:
    """The same teacher with another batch size."""
    return Teacher(teacher.model, teacher.prompt, batch_tokens)


def forward(teacher: Teacher, texts: list[str]) -> tuple[torch.Tensor, np.ndarray]:
    """The teacher's vectors of tokens and of sentences, in one batch."""
    batch = teacher.tokenize(texts)
    tokens, sentences = teacher.forward(
        torch.from_numpy(batch.input_ids), torch.from_numpy(batch.attention_mask)
    )
    return tokens, sentences.float().numpy()
