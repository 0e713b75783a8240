"""Search documents by their words and by a static model at once.

    pip install -c constraints.txt -e ".[search]"
    python examples/hybrid_search.py MODEL DOCUMENTS [QUERY ...]
    python examples/hybrid_search.py MODEL --beir FOLDER

DOCUMENTS is a folder, where each .txt and .md file is a document, or a .jsonl file whose objects
have `text` and perhaps `title` and `_id`. Without a QUERY, each line of standard input is one.

BM25 finds documents with the words of the query, rare ones such as names above all; the model
finds those that mean the same. For each query, both scores are scaled to 0 to 1 over all documents,
and half of each is added. BM25's words are runs of letters and digits: for languages without
spaces, put a tokenizer of theirs into `words_of`.

FOLDER holds corpus.parquet, queries.parquet and qrels.parquet, with the columns that BEIR's
datasets have. It prints nDCG@10 x 100, as mteb computes it, of each ranking alone and of both.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from st_static import FastEncoder
from st_static.cli import run_command

try:
    import bm25s
    import pytrec_eval
except ModuleNotFoundError as error:
    sys.exit(f'This example needs {error.name}: pip install -c constraints.txt -e ".[search]".')


def words_of(texts: list[str]) -> list[list[str]]:
    """The words of each text, [B lists]; words that are frequent everywhere hardly count."""
    return bm25s.tokenize(texts, stopwords=None, return_ids=False, show_progress=False)


def scaled(scores: np.ndarray) -> np.ndarray:
    """Scores [N] from 0 for the lowest to 1 for the highest."""
    spread = np.ptp(scores)
    return (scores - scores.min()) / spread if spread else (scores > 0).astype(scores.dtype)


class HybridSearch:
    """Scores documents by a model, by BM25 and by both.

    Args:
        encoder: The model.
        documents: N texts.

    Raises:
        ValueError: They have no words.
    """

    def __init__(self, encoder: FastEncoder, documents: list[str]) -> None:
        words = words_of(documents)
        if not any(words):
            raise ValueError("The documents have no words of two or more letters to search for.")
        self.encoder = encoder
        self.vectors = encoder.encode(documents, normalize_embeddings=True)  # [N, D]
        self.bm25 = bm25s.BM25()
        self.bm25.index(words, show_progress=False)

    def scores(self, query: str) -> dict[str, np.ndarray]:
        """The scores of all documents by the name of the ranking, [N] each."""
        cosines = self.vectors @ self.encoder.encode(query, normalize_embeddings=True)
        [words] = words_of([query])
        lexical = self.bm25.get_scores(words) if words else np.zeros_like(cosines)
        both = (scaled(cosines) + scaled(lexical)) / 2
        return {"model": cosines, "BM25": lexical, "both": both}


def best(scores: np.ndarray, n: int) -> np.ndarray:
    """The n documents with the highest scores above 0, the highest first."""
    order = np.argsort(-scores, kind="stable")[:n]
    return order[scores[order] > 0]


def text_of(row: dict[str, Any]) -> str:
    """A document's title, if it has one, and its text."""
    return f"{row.get('title') or ''} {row['text'] or ''}".strip()


def read_folder(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".txt", ".md") and file.is_file():
            try:
                yield file.relative_to(folder).as_posix(), file.read_text("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{file} is not text in UTF-8. Convert it.") from error


def read_json_lines(file: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            fits = isinstance(row["text"], str)
        except (ValueError, KeyError, TypeError):
            fits = False
        if not fits:
            raise ValueError(
                f'{file}, line {number}: expected a JSON object with a string "text", but got '
                f"{line[:80]!r}."
            )
        yield str(row.get("_id", number)), text_of(row)


def read_documents(path: Path) -> tuple[list[str], list[str]]:
    """Names and texts of the documents of a folder or of a file of JSON lines.

    Raises:
        ValueError: There are none, one has no text, or the file is of another kind.
    """
    if not path.exists():
        raise ValueError(f"There is no folder or file {path}.")
    if not path.is_dir() and path.suffix != ".jsonl":
        raise ValueError(f"{path}: expected a folder, or a file with a name that ends with .jsonl.")
    documents = list(read_folder(path) if path.is_dir() else read_json_lines(path))
    if not documents:
        what = ".txt or .md files" if path.is_dir() else "lines"
        raise ValueError(f"{path} has no documents: expected {what} with text.")
    for name, text in documents:
        if not text.strip():
            raise ValueError(f"The document {name} in {path} is empty: remove it, or fill it.")
    return [name for name, _ in documents], [text for _, text in documents]


def answer(search: HybridSearch, names: list[str], texts: list[str], query: str) -> None:
    """Print the three best documents with their scores."""
    scores = search.scores(query)
    found = best(scores["both"], 3)
    print(f"\n{query}" if len(found) else f"\n{query}\n  nothing found")
    for i in found:
        each = ", ".join(f"{name} {values[i]:.2f}" for name, values in scores.items())
        print(f"  {names[i]} ({each}): {' '.join(texts[i].split())[:80]}")


def read_table(file: Path, *columns: str) -> list[dict[str, Any]]:
    """The rows of a Parquet file.

    Raises:
        ValueError: It is none, or lacks one of the columns.
        OSError: There is no such file.
    """
    with file.open("rb") as stream:
        table = pq.read_table(stream)
    if not set(columns) <= set(table.column_names):
        raise ValueError(
            f"{file}: expected the columns {', '.join(columns)}, but it has "
            f"{', '.join(table.column_names)}."
        )
    return table.to_pylist()


def read_beir(folder: Path) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    """Documents by id, the queries that are judged by id, and their judgements."""
    corpus = read_table(folder / "corpus.parquet", "_id", "text")
    queries = read_table(folder / "queries.parquet", "_id", "text")
    judgements: dict[str, dict[str, int]] = {}
    for row in read_table(folder / "qrels.parquet", "query-id", "corpus-id", "score"):
        judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    judged = {row["_id"]: row["text"] for row in queries if row["_id"] in judgements}
    if not corpus or not judged:
        raise ValueError(f"{folder} has no documents, or no query that is judged in qrels.parquet.")
    return {row["_id"]: text_of(row) for row in corpus}, judged, judgements


def evaluate(
    search: HybridSearch,
    ids: list[str],
    queries: dict[str, str],
    judgements: dict[str, dict[str, int]],
) -> dict[str, float]:
    """The mean nDCG@10 x 100 over queries, by the name of the ranking."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for query_id, query in queries.items():
        for name, scores in search.scores(query).items():
            top = {ids[i]: float(scores[i]) for i in best(scores, 1000)}
            found.setdefault(name, {})[query_id] = top
    evaluator = pytrec_eval.RelevanceEvaluator(judgements, {"ndcg_cut.10"})
    return {
        name: 100
        * float(np.mean([each["ndcg_cut_10"] for each in evaluator.evaluate(run).values()]))
        for name, run in found.items()
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("documents", nargs="?", type=Path)
    parser.add_argument("queries", nargs="*", metavar="query")
    parser.add_argument("--beir", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    if (options.documents is None) == (options.beir is None):
        parser.error("Expected either DOCUMENTS to search, or --beir FOLDER.")

    if options.beir:
        documents, queries, judgements = read_beir(options.beir)
        names, texts = list(documents), list(documents.values())
    else:
        names, texts = read_documents(options.documents)
    search = HybridSearch(FastEncoder.from_pretrained(options.model), texts)
    print(f"{len(texts):,} documents")
    if options.beir:
        for ranking, score in evaluate(search, names, queries, judgements).items():
            print(f"{ranking}: {score:.2f}")
        return 0
    for query in options.queries or map(str.strip, sys.stdin):
        if query:
            answer(search, names, texts, query)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
