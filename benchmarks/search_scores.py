"""What a score of search means: how often chance reaches it, and how often texts that are relevant.

    python benchmarks/search_scores.py MODEL FOLDER FOLDER … [--pairs PAIRS.parquet]

A folder holds corpus.parquet, queries.parquet and qrels.parquet with columns as in BEIR's datasets;
each is to be of another field. The pairs are of sentences, in the columns sentence1, sentence2 and
score: those with at least four fifths of the highest score count as relevant. For the rankings
`both` and `meaning`, a table prints, for each of several scores, which share in percent reaches it:

- of all pairs of a query and a text of another collection
- of the pairs that nobody judged as relevant in a query's own collection
- of the relevant ones, by collection
- of queries, with the best text of another collection: where nothing fits, something is found

The shares are the means of the collections, or of the pairs of them. A last table prints what
`SearchIndex.chance` gives for each collection, and which share of hits is not above it: of relevant
texts among the ten best, and of the best texts for queries of the other collections.
"""

from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from measuring import parser_of, print_heading, print_row
from numpy.typing import NDArray

from st_static import FastEncoder, SearchIndex
from st_static.evaluate.own_data import AnsweredQueries
from st_static.search.search_index import By, fuse

GRID = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7)
RANKINGS: tuple[By, ...] = ("both", "meaning")
Scores = NDArray[np.float32]


class Collection(NamedTuple):
    """Texts and queries, and which texts are relevant to which query, [Q, N]."""

    name: str
    texts: list[str]
    queries: list[str]
    is_relevant: NDArray[np.bool_]


def beir(folder: Path) -> Collection:
    """Read a collection of judged queries."""
    files = (folder / f"{name}.parquet" for name in ("queries", "corpus", "qrels"))
    data = AnsweredQueries(*files)
    titles = pq.read_table(folder / "corpus.parquet")["title"].to_pylist()
    texts = [
        f"{title} {text}".strip()
        for title, text in zip(titles, data.documents.values(), strict=True)
    ]
    place = {name: i for i, name in enumerate(data.documents)}
    is_relevant = np.zeros((len(data), len(texts)), bool)
    for row, name in zip(is_relevant, data.queries, strict=True):
        row[[place[text] for text, grade in data.relevant[name].items() if grade > 0]] = True
    return Collection(folder.name, texts, list(data.queries.values()), is_relevant)


def pairs(file: Path) -> Collection:
    """Read scored pairs of sentences, as queries and texts."""
    table = pq.read_table(file)
    scores = table["score"].to_numpy()
    rows = np.flatnonzero(scores >= 0.8 * scores.max())
    texts = table["sentence2"].to_pylist()
    is_relevant = np.zeros((len(rows), len(texts)), bool)
    is_relevant[np.arange(len(rows)), rows] = True
    return Collection(
        file.parent.name, texts, table["sentence1"].take(rows).to_pylist(), is_relevant
    )


def scores_of(queries: list[str], index: SearchIndex, documents: Scores) -> dict[By, Scores]:
    """Score all texts for queries, [Q, N] for each ranking; without vectors, cosines are 0."""
    cosines = index.encoder.encode_query(queries, normalize_embeddings=True) @ documents.T
    fused = [
        fuse(row, *index.words.scores(query)) for row, query in zip(cosines, queries, strict=True)
    ]
    return {"both": np.stack(fused), "meaning": cosines}


def reaching(scores: Scores) -> NDArray[np.float64]:
    """Which share in percent reaches each of the scores that are printed."""
    return np.array([100 * np.mean(scores >= np.float32(least)) for least in GRID])


def print_scores(
    by: By, collections: list[Collection], found: dict[tuple[int, int], Scores]
) -> None:
    """Print the table of a ranking, from the scores of one's queries for another's texts."""
    own = [(found[i, i], some.is_relevant) for i, some in enumerate(collections)]
    others = [scores for (queries, texts), scores in found.items() if queries != texts]
    of_others = np.mean([reaching(scores) for scores in others], axis=0)
    not_judged = np.mean([reaching(scores[~relevant]) for scores, relevant in own], axis=0)
    judged = [reaching(scores[relevant]) for scores, relevant in own]
    of_best = np.mean([reaching(scores.max(axis=1)) for scores in others], axis=0)
    names = [f"relevant: {some.name}" for some in collections]
    print(f"\n{by}\n")
    print_heading(["at least", "other fields", "same field", *names, "best of another field"])
    for least, *shares in zip(GRID, of_others, not_judged, *judged, of_best, strict=True):
        print_row(least, *(f"{share:.2g}" if share < 1 else f"{share:.0f}" for share in shares))


def main() -> None:
    """Score, count and print."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--pairs", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    encoder = FastEncoder.from_pretrained(arguments.model)
    collections = [beir(folder) for folder in arguments.folders]
    collections += [pairs(arguments.pairs)] if arguments.pairs else []
    found: dict[By, dict[tuple[int, int], Scores]] = {by: {} for by in RANKINGS}
    chances = []
    for j, some in enumerate(collections):
        index = SearchIndex.build(encoder, some.texts)
        documents = encoder.encode_document(some.texts, normalize_embeddings=True)
        chances.append({by: index.chance(by) for by in RANKINGS})
        for i, asking in enumerate(collections):
            for by, scores in scores_of(asking.queries, index, documents).items():
                found[by][i, j] = scores
    for by in RANKINGS:
        print_scores(by, collections, found[by])
    print()
    print_heading(
        ["texts", "by", "chance", "relevant of ten not above", "best of others not above"]
    )
    for (j, some), by in product(enumerate(collections), RANKINGS):
        scores, chance = found[by][j, j], chances[j][by]
        best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        relevant = np.take_along_axis(scores, best, 1)[
            np.take_along_axis(some.is_relevant, best, 1)
        ]
        others = [found[by][i, j].max(axis=1) for i in range(len(collections)) if i != j]
        shares = [f"{100 * np.mean(of <= chance):.0f}" for of in (relevant, np.concatenate(others))]
        print_row(some.name, by, chance, *shares)


if __name__ == "__main__":
    main()
