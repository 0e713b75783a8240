"""Train a static model without a teacher: sentences of one document belong together.

    python examples/train_without_teacher.py FILE [FILE ...] [--output models/without-teacher]

Each line of a .txt file is a document in English, of several sentences; .jsonl and .parquet files
hold theirs in the column `text`. A batch has two sentences of each of many documents, drawn anew
each time, which come nearer to each other than to those of the other documents: by a softmax over
the batch, as in DSSM (Huang et al., 2013), or with `--loss margin` by a margin, as in StarSpace (Wu
et al., 2018). `--word_dropout` leaves out words at random during training, as in deep averaging
networks (Iyyer et al., 2015).

With `--views dropout`, a batch has one sentence of each document, twice, without other words each
time: unsupervised SimCSE (Gao et al., 2021), whose dropout is that of a transformer. It needs
`--word_dropout`, without which both would be the same.

With `--trigrams`, a word outside the vocabulary is its longest known beginning and pieces of three
letters after it, with vectors that are trained like those of words. DSSM's letter trigrams overlap;
these do not, since a tokenizer.json puts each letter into one token. Without the option such words
count for nothing.
"""

import argparse
import functools
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Normalize
from tokenizers import Tokenizer

from st_static import CorpusConfig, SentencesConfig, StaticWordEmbedding, VocabularyConfig
from st_static.cli import run_command
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.distill.corpus.vocabulary import (
    choose_pieces,
    choose_words,
    single_characters,
    tokens_of,
)
from st_static.distill.corpus.word_counts import word_frequencies
from st_static.distill.distillation import SparseTrainer, sentence_ids
from st_static.distill.static_word_embedding import features_of
from st_static.model.export import check_output, export_model
from st_static.model.tokenizer import CONTINUATION, build_tokenizer
from st_static.progress import bar
from st_static.tokens.ragged import Ragged, offsets_of

MARGIN = 0.05  # between cosines
LEARNING_RATE = 5e-3
SHORTEST = SentencesConfig().min_words
# Pieces that fewer words have are left out.
WORDS_PER_PIECE = 5


class MarginLoss(torch.nn.Module):
    """The mean of max(0, MARGIN - cos(a, b) + cos(a, c)) over pairs (a, b) and all c of others."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: None
    ) -> torch.Tensor:
        first, second = (self.model(part)["sentence_embedding"] for part in sentence_features)
        cosines = first @ second.T  # [B, B], of vectors of length 1
        violations = torch.relu(MARGIN - cosines.diagonal()[:, None] + cosines)
        return violations[~torch.eye(len(cosines), dtype=torch.bool)].mean()


class SentencePairs:
    """Draws two sentences of each document, or one twice; the Trainer's data collator.

    Args:
        ids: Token ids of all sentences, [S rows].
        borders: Sentences `borders[i]` to `borders[i + 1]` are of document i, [documents + 1].
        twice: Whether to draw one sentence, of which the model sees different words each time.
    """

    valid_label_columns: Sequence[str] = ()

    def __init__(self, ids: Ragged, borders: np.ndarray, twice: bool = False) -> None:
        self.ids = ids
        self.borders = borders
        self.twice = twice
        self.random = np.random.default_rng(0)

    def __call__(self, rows: list[dict[str, int]]) -> dict[str, torch.Tensor]:
        documents = np.array([row["document"] for row in rows])
        start = self.borders[documents]
        n_sentences = self.borders[documents + 1] - start
        first = self.random.integers(n_sentences)
        further = 0 if self.twice else self.random.integers(1, n_sentences)
        second = (first + further) % n_sentences
        return {
            f"{name}_{key}": values
            for name, sentence in (("first", first), ("second", second))
            for key, values in features_of(self.ids.take(start + sentence)).items()
        }


def read_documents(files: list[str]) -> Iterator[list[str]]:
    """The different sentences of each document that has two or more."""
    with bar("documents", None, "document") as progress:
        for document in Corpus(CorpusConfig(files=files)):
            sentences = dict.fromkeys(split_sentences([document]))
            kept = [text for text in sentences if len(text.split()) >= SHORTEST]
            progress.update()
            if len(kept) > 1:
                yield kept


def make_tokenizer(sentences: list[str], size: int, with_trigrams: bool) -> Tokenizer:
    """The tokenizer of the most frequent words, and of pieces of the others if asked for."""
    counts = word_frequencies(sentences).sort_by([("count", "descending"), ("text", "ascending")])
    config = VocabularyConfig(size=size, pieces="used")
    words = choose_words(counts, config)["text"].to_pylist()
    if not with_trigrams:
        return build_tokenizer(words)
    seen = counts["text"].to_pylist()
    n_words = Counter(piece for word in seen for piece in trigrams(word))
    frequent = [piece for piece, n in n_words.items() if n >= WORDS_PER_PIECE]
    used_by = functools.partial(tokens_of, words=counts["text"])
    pieces = choose_pieces(words, frequent, single_characters(seen), used_by, config=config)
    return build_tokenizer(words, pieces)


def trigrams(word: str) -> dict[str, None]:
    """The pieces of three letters at any place of a word; of two, for what is left at its end."""
    pieces = [CONTINUATION * (i > 0) + word[i : i + n] for n in (3, 2) for i in range(len(word))]
    return dict.fromkeys(pieces)


def random_table(ids: Ragged, n_tokens: int, dim: int) -> np.ndarray:
    """A table to start from, [V, D]; rows of tokens that the text does not use stay zero."""
    table = np.zeros((n_tokens, dim), np.float32)
    used = np.unique(ids.values)
    table[used] = np.random.default_rng(0).normal(scale=dim**-0.5, size=(len(used), dim))
    return table


def share_found(model: SentenceTransformer, documents: list[list[str]]) -> float:
    """For how many documents the second sentence is the nearest of all to the first, in percent."""
    first, second = (model.encode([document[i] for document in documents]) for i in (0, 1))
    nearest = model.similarity(first, second).argmax(dim=1).numpy()
    return 100 * float(np.mean(nearest == np.arange(len(documents))))


def train(
    model: SentenceTransformer, pairs: SentencePairs, options: argparse.Namespace, folder: str
) -> None:
    loss = MarginLoss if options.loss == "margin" else MultipleNegativesRankingLoss
    arguments = SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        learning_rate=LEARNING_RATE,
        max_grad_norm=0,  # the published scores are of tables trained without clipping
        dataloader_drop_last=True,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
    )
    SparseTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"document": range(len(pairs.borders) - 1)}),
        loss=loss(model),
        data_collator=pairs,
    ).train()


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="paths, glob patterns or folders")
    output = Path("models/without-teacher")
    add("--output", type=Path, default=output, help=f"folder for the model (default: {output})")
    add(
        "--loss",
        choices=["softmax", "margin"],
        default="softmax",
        help="see above (default: softmax)",
    )
    views = ["sentences", "dropout"]
    add("--views", choices=views, default="sentences", help="see above (default: sentences)")
    add("--word_dropout", type=float, default=0.0, help="a probability (default: 0)")
    add("--trigrams", action="store_true", help="pieces of words outside the vocabulary")
    add("--words", type=int, default=30_000, help="of the vocabulary (default: 30000)")
    add("--dim", type=int, default=256, help="of the vectors (default: 256)")
    add("--steps", type=int, default=5_000, help="of the training (default: 5000)")
    add("--batch_size", type=int, default=512, help="documents (default: 512)")
    add("--held_out", type=int, default=1_000, help="documents (default: 1000)")
    options = parser.parse_args(arguments)
    if not 0 <= options.word_dropout < 1:
        parser.error(
            f"Expected --word_dropout from 0 to below 1, but it is {options.word_dropout}."
        )
    if options.views == "dropout" and not options.word_dropout:
        parser.error("--views dropout needs a --word_dropout, such as 0.5: see above.")
    for name in ("words", "dim", "steps", "held_out"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be positive, but it is {getattr(options, name)}.")
    if options.batch_size < 2:
        parser.error("--batch_size must be 2 or more: sentences are told apart within a batch.")
    check_output(options.output)
    return options


def main(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    documents = list(read_documents(options.files))
    np.random.default_rng(0).shuffle(documents)
    held_out, kept = documents[: options.held_out], documents[options.held_out :]
    if len(kept) < options.batch_size:
        raise ValueError(
            f"Expected at least {options.held_out + options.batch_size} documents of two sentences "
            f"or more, --held_out and --batch_size together, but there are {len(documents)}. Give "
            "more text, or lower the two."
        )
    sentences = [sentence for document in kept for sentence in document]
    tokenizer = make_tokenizer(sentences, options.words, options.trigrams)
    n_tokens = tokenizer.get_vocab_size()
    print(f"{len(kept):,} documents, {len(sentences):,} sentences, {n_tokens:,} tokens")

    ids = sentence_ids(tokenizer, sentences)
    table = random_table(ids, n_tokens, options.dim)
    words = StaticWordEmbedding(tokenizer, table, word_dropout=options.word_dropout)
    model = SentenceTransformer(modules=[words, Normalize()], device="cpu")
    before = share_found(model, held_out)
    borders = offsets_of(np.array([len(document) for document in kept]))
    pairs = SentencePairs(ids, borders, twice=options.views == "dropout")
    with tempfile.TemporaryDirectory() as empty:  # the Trainer wants a folder, and writes nothing
        train(model, pairs, options, empty)
    after = share_found(model, held_out)
    print(f"held-out sentences found: {before:.1f} % before, {after:.1f} % after")

    table = words.embedding.weight.detach().numpy()
    paths = {"files", "output"}  # a published model names no folders of yours
    chosen = {name: value for name, value in vars(options).items() if name not in paths}
    export_model(options.output, table, tokenizer, {"trained_without_teacher": chosen})
    print("written to", options.output)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
