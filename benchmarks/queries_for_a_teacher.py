"""How well a static model's queries find documents that its teacher encoded.

    python benchmarks/queries_for_a_teacher.py TEACHER --symmetric MODEL --queries MODEL \\
        --texts 'held_out/*.txt.xz' --beir FOLDER

prints nDCG@10 x 100, by meaning and together with BM25 as `SearchIndex` adds it, for the four sorts
of queries of `hybrid_fusion.py`, with 10,000 paragraphs; BM25 alone; and the median microseconds of
encoding one judged query. Models after `--symmetric` encode the documents, too. For models after
`--queries`, and for itself, the teacher does.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hybrid_fusion import Scores, Sort, ndcg, sorts_of
from measuring import parser_of, print_heading, print_row, seconds_of
from sentence_transformers import SentenceTransformer

from st_static import FastEncoder
from st_static.model.model_name import locate
from st_static.search.search_index import fuse

PARAGRAPHS, TIMED = 10_000, 300


def ways(cosines: Scores, words: Scores, complete: float) -> dict[str, Scores]:
    """Scores by the name of the ranking."""
    return {"meaning": cosines, "both": fuse(cosines, words, complete), "BM25": words}


def microseconds(encode: Callable[[str], Any], queries: list[str]) -> float:
    """The median time of one query, after a warm-up."""
    for query in queries[:50]:
        encode(query)
    return 1e6 * statistics.median(seconds_of(encode, query) for query in queries[:TIMED])


def main() -> None:
    """Encode each text once by each model, and print a row for each pair of models."""
    parser = parser_of(__doc__)
    parser.add_argument("teacher", help="A folder, a Hub id or package:NAME/FOLDER.")
    parser.add_argument("--symmetric", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--queries", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    sorts = sorts_of(arguments.texts, arguments.beir, PARAGRAPHS)
    teacher = SentenceTransformer(locate(arguments.teacher), device="cpu")
    models: dict[str, Any] = {
        name: FastEncoder.from_pretrained(name)
        for name in (*arguments.symmetric, *arguments.queries)
    }
    of_texts: dict[tuple[Any, int], Scores] = {}  # "sentences" and "words" have the same texts

    def documents(model: Any, sort: Sort) -> Scores:
        """The vectors of a sort's texts, encoded once."""
        key = model, id(sort.texts)
        if key not in of_texts:
            vectors = model.encode_document(sort.texts, normalize_embeddings=True)
            of_texts[key] = np.asarray(vectors)
        return of_texts[key]

    def row(name: str, queries_by: Any, documents_by: Any) -> None:
        cells = []
        for sort in sorts.values():
            queries = np.asarray(queries_by.encode_query(sort.queries, normalize_embeddings=True))
            scores = ndcg(sort, documents(documents_by, sort), queries, ways)
            cells += [scores["meaning"], scores["both"]]
        time_of_one = microseconds(queries_by.encode_query, sorts["judged"].queries)
        print_row(name, *cells, f"{time_of_one:,.0f}")

    print_heading(
        ["queries by", *(f"{s}{end}" for s in sorts for end in ("", " + BM25")), "us a query"]
    )
    words = []
    for sort in sorts.values():
        nothing = np.zeros((1, 1), np.float32)
        empty = nothing.repeat(len(sort.texts), 0), nothing.repeat(len(sort.queries), 0)
        words += [ndcg(sort, *empty, ways)["BM25"], ""]
    print_row("BM25 alone", *words, "")
    for name in arguments.symmetric:
        row(name, models[name], models[name])
    for name in arguments.queries:
        row(f"{name}, documents by the teacher", models[name], teacher)
    row("the teacher", teacher, teacher)


if __name__ == "__main__":
    main()
