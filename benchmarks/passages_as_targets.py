"""Whether queries should be trained towards the passages that they come from.

    python benchmarks/passages_as_targets.py QUERIES_MODEL TEACHER --texts 'corpus/*.txt.xz' \\
        --held_out 'held_out/*.txt.xz' --beir FOLDER [--passages 40000] [--steps 5000]

goes on training the table of a model whose queries ask the teacher's index. A passage is a line of
at least three sentences; a sentence of each, and two to six neighbouring words, are the queries.
The target of a query is

- its own vector, by the teacher, as in `distillation.target: vectors`
- the vector of its passage
- both, in equal parts
- what the teacher ranks: softmaxes of a query's cosines with the passages of the batch and the
  eight that the teacher puts nearest to the query, by the student and by the teacher, are to agree,
  as do cosines of pairs of texts in `distillation.target: cosines`; alone, and with its own vector

and it prints nDCG@10 x 100 for the queries of `hybrid_fusion.py`, by meaning alone, with documents
that the teacher encodes: of paragraphs from `--held_out`, and of FOLDER.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from hybrid_fusion import EncodedTexts, by_meaning, paragraphs_of, sorts_of
from measuring import parser_of, print_heading, print_row
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from st_static.distill.config import DistillationConfig
from st_static.distill.distillation import sentence_ids
from st_static.distill.static_word_embedding import features_of
from st_static.model.model_name import locate
from st_static.tokens.ragged import Ragged

NEIGHBOURS, HELD_OUT_PARAGRAPHS = 8, 10_000
CONFIG = DistillationConfig()
# Of the numbers of queries [B], and their vectors by the student [B, D].
Loss = Callable[[Tensor, Tensor], Tensor]


class Targets:
    """The teacher's vectors of queries and passages, [Q, D] and [P, D], of length 1, and the
    numbers of the passages that each query comes from, [Q], and is nearest to, [Q, K]."""

    def __init__(self, queries: Tensor, passages: Tensor, source: Tensor) -> None:
        self.queries, self.passages, self.source = queries, passages, source
        blocks = tqdm(queries.split(1024), "neighbours", disable=None)
        self.nearest = torch.cat([(b @ passages.T).topk(NEIGHBOURS).indices for b in blocks])

    def own(self, index: Tensor, student: Tensor) -> Tensor:
        """The distance to the query's own vector."""
        return (1 - F.cosine_similarity(student, self.queries[index])).mean()

    def passage(self, index: Tensor, student: Tensor) -> Tensor:
        """The distance to the passage's vector."""
        return (1 - F.cosine_similarity(student, self.passages[self.source[index]])).mean()

    def ranking(self, index: Tensor, student: Tensor) -> Tensor:
        """The divergence of the student's ranking of passages from the teacher's."""
        near = torch.cat([self.source[index], self.nearest[index].flatten()]).unique()
        log_p, q = (
            (F.normalize(vectors) @ self.passages[near].T / CONFIG.temperature).log_softmax(1)
            for vectors in (student, self.queries[index])
        )
        return F.kl_div(log_p, q, reduction="batchmean", log_target=True)


def trained(
    start: Tensor, texts: list[str], tokenizer: Tokenizer, loss: Loss, steps: int
) -> Tensor:
    """Train the table [V, D] with batches of random queries, as the recipe trains."""
    table = start.clone().requires_grad_()
    optimizer = torch.optim.SparseAdam([table], lr=CONFIG.learning_rate)
    ids, rng = sentence_ids(tokenizer, texts), np.random.default_rng(0)
    known = np.flatnonzero(ids.lengths)
    for step in tqdm(range(steps), "steps", disable=None):
        optimizer.param_groups[0]["lr"] = CONFIG.learning_rate * (1 - step / steps)
        index = rng.choice(known, CONFIG.batch_size, replace=False)
        optimizer.zero_grad()
        loss(torch.from_numpy(index), means_of(table, ids.take(index), sparse=True)).backward()
        optimizer.step()
    return table.detach()


def means_of(table: Tensor, ids: Ragged, sparse: bool = False) -> Tensor:
    """Texts' mean rows, [B, D]."""
    features = features_of(ids)
    return F.embedding_bag(
        features["input_ids"], table, features["offsets"], mode="mean", sparse=sparse
    )


def main() -> None:
    """Encode by the teacher, train and print a row for each target."""
    parser = parser_of(__doc__)
    parser.add_argument("model", metavar="QUERIES_MODEL")
    parser.add_argument("teacher", help="A folder, a Hub id or package:NAME/FOLDER.")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--held_out", required=True)
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--passages", type=int, default=40_000)
    parser.add_argument("--steps", type=int, default=5_000)
    arguments = parser.parse_args()
    words = SentenceTransformer(locate(arguments.model), device="cpu")[0]
    start, tokenizer = words.embedding.weight.detach().float(), words.tokenizer
    teacher = SentenceTransformer(locate(arguments.teacher), device="cpu").bfloat16()

    def encode(texts: list[str]) -> Tensor:
        vectors = teacher.encode(texts, show_progress_bar=None, convert_to_tensor=True)
        return F.normalize(vectors.float())

    rng = np.random.default_rng(2)
    paragraphs = paragraphs_of(arguments.texts, arguments.passages)
    sentences = [paragraph[rng.integers(len(paragraph))] for paragraph in paragraphs]
    spans = [span_of(sentence.split(), rng) for sentence in sentences]
    queries = sentences + spans
    passages = encode([" ".join(paragraph) for paragraph in paragraphs])
    source = torch.arange(len(paragraphs)).repeat(2)
    targets = Targets(encode(queries), passages, source)
    losses: dict[str, Loss] = {
        "its own vector": targets.own,
        "its passage": targets.passage,
        "both": lambda *batch: (targets.own(*batch) + targets.passage(*batch)) / 2,
        "the teacher's ranking": targets.ranking,
        "ranking and own vector": lambda *batch: targets.ranking(*batch) + targets.own(*batch),
    }
    sorts = sorts_of(arguments.held_out, arguments.beir, HELD_OUT_PARAGRAPHS)
    documents = EncodedTexts(sorts, lambda texts: encode(texts).numpy())

    def row(name: str, table: Tensor) -> None:
        def vectors(queries: list[str]) -> NDArray[np.float32]:
            return F.normalize(means_of(table, sentence_ids(tokenizer, queries))).numpy()

        found = documents.found_by(vectors, by_meaning)
        print_row(name, *(scores["meaning"] for scores in found))

    print_heading(["target", *documents.headings])
    row("before", start)
    for name, loss in losses.items():
        row(name, trained(start, queries, tokenizer, loss, arguments.steps))


def span_of(words: list[str], rng: np.random.Generator) -> str:
    """Two to six neighbouring words."""
    length = int(rng.integers(2, 7))
    first = int(rng.integers(max(1, len(words) - length + 1)))
    return " ".join(words[first : first + length])


if __name__ == "__main__":
    main()
