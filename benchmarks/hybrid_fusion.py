"""Which way of adding BM25 to a model's cosines finds best.

    python benchmarks/hybrid_fusion.py MODEL --beir FOLDER [FOLDER ...] [--texts 'corpus/*.txt.xz']

prints nDCG@10 x 100 of each ranking alone and of both in several ways, for four sorts of queries:

- a sentence of a paragraph, and two to six neighbouring words of it, which are to find the rest of
  the paragraph among 40,000 others; a line of the texts is a paragraph if it has three sentences
- a document's title, which is to find its text
- the judged queries of each FOLDER, which holds corpus.parquet, queries.parquet and qrels.parquet
  with the columns of BEIR's datasets, and their mean over the folders

The first three need `--texts`. Choose by them; the judgements are a test, unless the data set is
for development. Behind a value stands the 95 % interval of its difference from `SearchIndex`, by a
bootstrap over the queries, the same for both.

The ways are: `SearchIndex`; the cosine scaled from the lowest to the highest of all texts; the same
with BM25 divided by its best score; both scaled by mean and three standard deviations of the
hundred best (distribution-based score fusion); both scaled from the lowest to the highest of the
hundred best; and reciprocal ranks of the hundred best (Cormack, Clarke and Buettcher, 2009, with
their constant 60). The last three add nothing for a text that is not among the hundred best of a
ranking.

BM25 counts stems where `SearchIndex` does. Then the last rows are of whole words, alone and in
`SearchIndex`, with differences from those of stems.
"""

import random
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from measuring import parser_of, print_heading, print_row
from numpy.typing import NDArray

from st_static import FastEncoder
from st_static.distill.corpus.sentences import split_sentences
from st_static.search.search_index import fuse
from st_static.search.word_index import Stemmer, WordIndex, split_texts, stemmer_for
from st_static.texts import arrow
from st_static.texts.text_files import opened

BEST = 100
RESAMPLES = 10_000
PARAGRAPHS, QUERIES = 40_000, 2_000
WHOLE = ", whole words"
Scores = NDArray[np.floating]  # of all texts, [N]
Judged = dict[int, float]  # the relevance of texts by position
ByWay = dict[str, NDArray[np.float64]]  # nDCG@10 x 100 of each query by the name of the way, [Q]


class Sort(NamedTuple):
    """Texts, queries, and what each of these is to find."""

    texts: list[str]
    queries: list[str]
    judged: list[Judged]


def best(scores: Scores, n: int = BEST) -> NDArray[np.int64]:
    """Positions of the n highest scores above 0, the highest first."""
    order = np.argsort(-scores, kind="stable")[:n]
    return order[scores[order] > 0]


def of_best(scale: Callable[[Scores], Scores], scores: Scores) -> Scores:
    """Scale the scores of the best texts; all others get 0."""
    scaled, found = np.zeros_like(scores), best(scores)
    if len(found):
        scaled[found] = scale(scores[found])
    return scaled


def by_range(scores: Scores) -> Scores:
    return (scores - scores.min()) / (np.ptp(scores) or 1)


def by_distribution(scores: Scores) -> Scores:
    deviation = scores.std() or 1
    return (scores - scores.mean() + 3 * deviation) / (6 * deviation)


def by_rank(scores: Scores) -> Scores:  # which are sorted
    return 1 / (61 + np.arange(len(scores), dtype=np.float32))


def rankings(cosines: Scores, words: Scores, complete: float) -> dict[str, Scores]:
    """Scores by the name of the way."""
    both = {"distributions": by_distribution, "ranges": by_range, "ranks": by_rank}
    return {
        "meaning": cosines,
        **with_words(cosines, words, complete),
        "whole range": by_range(cosines) + words / (complete or 1),
        "best score": by_range(cosines) + words / (words.max() or 1),
        **{name: of_best(way, cosines) + of_best(way, words) for name, way in both.items()},
    }


def with_words(cosines: Scores, words: Scores, complete: float) -> dict[str, Scores]:
    """BM25 alone, and as `SearchIndex` adds it."""
    return {"BM25": words, "SearchIndex": fuse(cosines, words, complete)}


def by_meaning(cosines: Scores, *_: Any) -> dict[str, Scores]:
    """The cosines alone."""
    return {"meaning": cosines}


def ndcg(
    sort: Sort,
    documents: Scores,
    queries: Scores,
    ways: Callable[..., dict[str, Scores]],
    stemmer: Stemmer | None = None,
) -> ByWay:
    """The nDCG@10 x 100 of each query, from unit vectors [texts, D], [queries, D]."""
    index = WordIndex.of([split_texts(arrow.strings(sort.texts))], stemmer)
    discounts = 1 / np.log2(np.arange(2, 12))
    found: dict[str, list[float]] = {}
    for query, vector, relevant in zip(sort.queries, queries, sort.judged, strict=True):
        ideal = sorted(relevant.values(), reverse=True)[:10] @ discounts[: len(relevant)]
        for name, scores in ways(documents @ vector, *index.scores(query)).items():
            gains = [relevant.get(int(text), 0.0) for text in best(scores, 10)]
            found.setdefault(name, []).append(gains @ discounts[: len(gains)] / ideal)
    return {name: 100 * np.array(values) for name, values in found.items()}


def all_ways(sort: Sort, encoder: FastEncoder) -> ByWay:
    """The nDCG@10 x 100 of each query in all ways."""
    documents = encoder.encode_document(sort.texts, normalize_embeddings=True)
    queries = encoder.encode_query(sort.queries, normalize_embeddings=True)
    stemmer = stemmer_for(encoder.model.languages)
    found = ndcg(sort, documents, queries, rankings, stemmer)
    if stemmer:
        whole = ndcg(sort, documents, queries, with_words)
        found |= {f"{name}{WHOLE}": values for name, values in whole.items()}
    return found


def resampled_means(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The means of values [Q] in bootstraps, [RESAMPLES]."""
    rng, n = np.random.default_rng(seed), len(values)
    return np.array([values[rng.integers(n, size=n)].mean() for _ in range(RESAMPLES)])


def print_ways(found: dict[str, ByWay], judged: list[str]) -> None:
    """Print a row for each way, with the mean over the judged queries if they are of several."""
    ways_of_all = list(next(iter(found.values())))
    sizes = [f"{len(ways[ways_of_all[0]]):,} {name}" for name, ways in found.items()]
    print_heading(["", *sizes, *(["mean"] if len(judged) > 1 else [])])
    for way in ways_of_all:
        other = way.removesuffix(WHOLE) if way.endswith(WHOLE) else "SearchIndex"
        value = {name: ways[way].mean() for name, ways in found.items()}
        above = {
            name: resampled_means(ways[way] - ways[other], seed)
            for seed, (name, ways) in enumerate(found.items())
        }
        if len(judged) > 1:
            value["mean"] = np.mean([value[name] for name in judged])
            above["mean"] = np.mean([above[name] for name in judged], axis=0)
        cells = []
        for name in value:
            low, high = np.percentile(above[name], [2.5, 97.5])
            interval = f" ({low:+.2f} to {high:+.2f})" if way != other else ""
            cells.append(f"{value[name]:.2f}{interval}")
        print_row(way, *cells)


def paragraphs_of(pattern: str, most: int) -> list[list[str]]:
    """Draw paragraphs as sentences, as many from each file as the smallest allows."""
    rng, found = random.Random(0), []
    files = sorted(glob(pattern))
    for file in files:
        with opened(Path(file)) as lines:
            long = [line.decode() for line in lines if len(line) > 300]
        sentences = [split_sentences([line]) for line in rng.sample(long, min(len(long), 8_000))]
        found += [paragraph for paragraph in sentences if len(paragraph) >= 3]
    rng.shuffle(found)
    return found[:most]


def sorts_of(pattern: str, beir: Path, most: int = PARAGRAPHS) -> dict[str, Sort]:
    """The four sorts of queries; the first two from at most so many paragraphs."""
    return sorts_of_paragraphs(pattern, most) | sorts_of_documents(beir)


def sorts_of_paragraphs(pattern: str, most: int) -> dict[str, Sort]:
    """Sentences and runs of words that are to find the rest of their paragraph."""
    rng = random.Random(1)
    sentences, spans, rests = [], [], []
    for paragraph in paragraphs_of(pattern, most):
        query = paragraph.pop(rng.randrange(len(paragraph)))
        words, length = query.split(), rng.randint(2, 6)
        start = rng.randrange(max(1, len(words) - length + 1))
        sentences.append(query)
        spans.append(" ".join(words[start : start + length]))
        rests.append(" ".join(paragraph))
    own: list[Judged] = [{i: 1.0} for i in range(len(rests))]
    return {
        "sentences": Sort(rests, sentences[:QUERIES], own[:QUERIES]),
        "words": Sort(rests, spans[:QUERIES], own[:QUERIES]),
    }


def sorts_of_documents(beir: Path) -> dict[str, Sort]:
    """The titles of documents, and judged queries."""
    documents = pq.read_table(beir / "corpus.parquet").to_pylist()
    titled = [row for row in documents if row["title"].strip() and row["text"].strip()]
    titles, bodies = ([row[column] for row in titled] for column in ("title", "text"))
    position = {row["_id"]: i for i, row in enumerate(documents)}
    judged: dict[str, Judged] = {}
    for row in pq.read_table(beir / "qrels.parquet").to_pylist():
        judged.setdefault(row["query-id"], {})[position[row["corpus-id"]]] = float(row["score"])
    queries = pq.read_table(beir / "queries.parquet").to_pylist()
    of_beir = {row["_id"]: row["text"] for row in queries if row["_id"] in judged}
    whole = [f"{row['title']} {row['text']}".strip() for row in documents]
    return {
        "titles": Sort(bodies, titles, [{i: 1.0} for i in range(len(bodies))]),
        "judged": Sort(whole, list(of_beir.values()), [judged[name] for name in of_beir]),
    }


class EncodedTexts:
    """The texts of all sorts as one model encodes them, for queries by others."""

    def __init__(self, sorts: dict[str, Sort], encode: Callable[[list[str]], Scores]) -> None:
        self.sorts = sorts
        self.headings = [f"{len(sort.queries):,} {name}" for name, sort in sorts.items()]
        # "sentences" and "words" have the same texts.
        texts = {id(sort.texts): sort.texts for sort in sorts.values()}
        self._vectors = {key: encode(of_sort) for key, of_sort in texts.items()}

    def found_by(
        self, encode: Callable[[list[str]], Scores], ways: Callable[..., dict[str, Scores]]
    ) -> list[dict[str, float]]:
        """The nDCG@10 x 100 of each sort's queries by the name of the way, from unit vectors."""
        found = (
            ndcg(sort, self._vectors[id(sort.texts)], encode(sort.queries), ways)
            for sort in self.sorts.values()
        )
        return [{way: float(of.mean()) for way, of in by_way.items()} for by_way in found]


def main() -> None:
    """Evaluate and print."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("--texts")
    parser.add_argument("--beir", type=Path, required=True, nargs="+", metavar="FOLDER")
    arguments = parser.parse_args()
    encoder = FastEncoder.from_pretrained(arguments.model)
    sorts = sorts_of_paragraphs(arguments.texts, PARAGRAPHS) if arguments.texts else {}
    for folder in arguments.beir:
        titles, judged = sorts_of_documents(folder).values()
        if arguments.texts and titles.texts:
            sorts[f"titles of {folder.name}"] = titles
        sorts[folder.name] = judged
    found = {name: all_ways(sort, encoder) for name, sort in sorts.items()}
    print_ways(found, [folder.name for folder in arguments.beir])


if __name__ == "__main__":
    main()
