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
from hybrid_fusion import EncodedTexts, Scores, sorts_of
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
    encoders = {"the teacher": teacher} | {
        name: FastEncoder.from_pretrained(name)
        for name in (*arguments.symmetric, *arguments.queries)
    }

    def row(name: str, queries_by: str, documents: EncodedTexts) -> None:
        encode = encoders[queries_by].encode_query
        found = documents.found_by(lambda texts: encode(texts, normalize_embeddings=True), ways)
        cells = [scores[way] for scores in found for way in ("meaning", "both")]
        print_row(name, *cells, f"{microseconds(encode, sorts['judged'].queries):,.0f}")

    def documents_by(name: str) -> EncodedTexts:
        encode = encoders[name].encode_document
        return EncodedTexts(sorts, lambda texts: encode(texts, normalize_embeddings=True))

    print_heading(
        ["queries by", *(f"{s}{end}" for s in sorts for end in ("", " + BM25")), "us a query"]
    )

    def no_vectors(texts: list[str]) -> Scores:
        return np.zeros((len(texts), 1), np.float32)

    alone = EncodedTexts(sorts, no_vectors).found_by(no_vectors, ways)
    print_row("BM25 alone", *(cell for scores in alone for cell in (scores["BM25"], "")), "")
    for name in arguments.symmetric:
        row(name, name, documents_by(name))
    by_teacher = documents_by("the teacher")
    for name in arguments.queries:
        row(f"{name}, documents by the teacher", name, by_teacher)
    row("the teacher", "the teacher", by_teacher)


if __name__ == "__main__":
    main()
