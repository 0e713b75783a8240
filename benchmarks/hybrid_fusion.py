"""What hybrid search gains by the lexical ranking and by the way that it is added to the model's.

    python benchmarks/hybrid_fusion.py MODEL [MODEL ...] --beir FOLDER

prints nDCG@10 x 100 of each ranking alone and of the model's with each lexical one, for two sorts
of queries: each document's title, which is to find the rest of the document, and the queries of
FOLDER, which is as for examples/hybrid_search.py and whose documents have titles. Choose by the
titles: the judgements are a test.

Lexical rankings are BM25, and the cosines of sentence-transformers' `SparseStaticEmbedding` over
the model's own tokens, with the weight log((N + 1) / (n + 0.5)) for a token that n of N documents
have. A sum is that of the example; RRF adds 1 / (60 + rank) over each ranking's first thousand.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding
from transformers import PreTrainedTokenizerFast

from st_static import FastEncoder
from st_static.evaluate.tables import as_markdown
from st_static.model.model_folder import ModelFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from hybrid_search import HybridSearch, best, evaluate, read_beir, read_table, scaled

RRF_CONSTANT = 60  # that of the paper of Cormack, Clarke and Büttcher (2009)


def idf_encoder(model: str, documents: list[str]) -> SparseEncoder:
    """An encoder of texts as the IDF of their tokens, [B, V]."""
    file = ModelFolder(model).tokenizer_file
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), pad_token="[PAD]")
    module = SparseStaticEmbedding(tokenizer, frozen=True)
    encoder = SparseEncoder(modules=[module], device="cpu")
    n_with = torch.sparse.sum(encoder.encode(documents), dim=0).to_dense()
    module.weight.data = torch.log((len(documents) + 1) / (n_with + 0.5))
    return encoder


def by_rank(*rankings: np.ndarray) -> np.ndarray:
    """Scores [N] by reciprocal rank fusion."""
    fused = np.zeros_like(rankings[0])
    for scores in rankings:
        found = best(scores, 1000)
        fused[found] += 1 / (RRF_CONSTANT + 1 + np.arange(len(found)))
    return fused


class AllWays(HybridSearch):
    """Scores by each ranking, and by the model's with each of the others in both ways."""

    def __init__(self, model: str, documents: list[str]) -> None:
        super().__init__(FastEncoder.from_pretrained(model), documents)
        self.idf = idf_encoder(model, documents)
        sparse = self.idf.encode(documents)  # [N, V]
        self.lengths = torch.sparse.sum(sparse * sparse, dim=1).to_dense().sqrt()
        self.sparse = sparse.to_sparse_csr()

    def scores(self, query: str) -> dict[str, np.ndarray]:
        """Each document's scores [N], by the name of the way."""
        alone = super().scores(query)
        del alone["both"]
        # Cosines but for the query's length, which changes no ranking.
        products = self.sparse @ self.idf.encode(query).to_dense()
        alone["IDF"] = (products / self.lengths.clamp(min=1e-9)).numpy()
        both = {}
        for name in ("BM25", "IDF"):
            pair = alone["model"], alone[name]
            both[f"{name}, sum"] = (scaled(pair[0]) + scaled(pair[1])) / 2
            both[f"{name}, RRF"] = by_rank(*pair)
        return {**alone, **both}


def with_titles(model: str, folder: Path) -> dict[str, float]:
    """Scores where a document's title is the query for its text."""
    corpus = read_table(folder / "corpus.parquet", "_id", "title", "text")
    rows = {row["_id"]: row for row in corpus if row["title"].strip() and row["text"].strip()}
    titles = {name: row["title"] for name, row in rows.items()}
    search = AllWays(model, [row["text"] for row in rows.values()])
    return evaluate(search, list(rows), titles, {name: {name: 1} for name in rows})


def with_judgements(model: str, folder: Path) -> dict[str, float]:
    """Scores of the folder's queries."""
    documents, queries, judgements = read_beir(folder)
    search = AllWays(model, list(documents.values()))
    return evaluate(search, list(documents), queries, judgements)


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="folders of static models")
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        for queries, scored in (("titles", with_titles), ("judged", with_judgements)):
            scores = scored(model, arguments.beir)
            rows.append({"model of": Path(model).name, "queries": queries, **scores})
    print(as_markdown(pl.DataFrame(rows)))


if __name__ == "__main__":
    main()
