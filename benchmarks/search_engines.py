"""Search by engines whose tables change, beside `SearchIndex`.

    python benchmarks/search_engines.py MODEL FOLDER [FOLDER ...] [--engines NAME ...]
        [--texts TEXTS.txt]

prints nDCG@10 x 100 of the judged queries of each FOLDER, which holds the files that
`hybrid_fusion.py` reads, and the median milliseconds of a query; then, of up to 50 words that one
text alone has, in how many per cent of the cases that text is found first.

LanceDB is used as `examples/changing_index.py` does. All engines take the 100 best texts by the
meaning and by the words. The fusion is that of the example, in which each text gets 0.3 divided by
its rank by the meaning and 0.7 divided by that by the words, unless the row says another one.

With --texts, a file of a text a line, it prints what an index of these texts takes in LanceDB and
here: seconds to make it, megabytes of its files; milliseconds of a query, the median of 100, and of
one that is filtered to 1 % of the texts; milliseconds until 1,000 texts are added,
replaced and deleted, for which `SearchIndex` is made again; with the peaks of memory of the process
that makes it, and of one that opens it and searches.

DuckDB needs its packages `duckdb-extensions`, `duckdb-extension-fts` and `duckdb-extension-vss`,
and Qdrant, which runs in the local mode of its client, `qdrant-client`. Linux and macOS only.
"""

import importlib
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hybrid_fusion import Sort, sorts_of_documents
from lancedb.index import FTS
from lancedb.query import MatchQuery
from lancedb.rerankers import LinearCombinationReranker, MRRReranker, RRFReranker
from measuring import parser_of, print_heading, print_row, seconds_of

from st_static import FastEncoder, SearchIndex
from st_static.search.word_index import split_texts
from st_static.texts import arrow

EXAMPLES = Path(__file__).parents[1] / "examples"
BEST, TOP, CHANGED, WORDS = 100, 10, 1_000, 50
MEANING, BY_WORDS = 0.3, 0.7
Search = Callable[[str], list[int]]  # the positions of the best texts, the best first


def example() -> Any:
    """The module of the example, which registers the model with LanceDB."""
    sys.path.append(str(EXAMPLES))
    return importlib.import_module("changing_index")


def here(model: str, texts: list[str], folder: Path) -> Iterator[tuple[str, Search]]:
    """`SearchIndex`."""
    index = SearchIndex.build(FastEncoder.from_pretrained(model), texts)
    for by in ("both", "meaning", "words"):
        yield by, lambda query, by=by: [hit.position for hit in index.search(query, TOP, by)]


def rows_of(texts: list[str], first: int = 0) -> pa.Table:
    """The columns of the example's table, except vectors; one in 100 is open."""
    ids = range(first, first + len(texts))
    status = ["closed" if i % 100 else "open" for i in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "status": status, "text": texts})


def in_lancedb(model: str, texts: list[str], folder: Path) -> Iterator[tuple[str, Search]]:
    """LanceDB, without an index of vectors: it compares the query with all texts."""
    module = example()
    table = module.make_table(folder, model)
    table.add(rows_of(texts), on_bad_vectors="null")
    table.optimize()

    def both(reranker: Any) -> Search:
        def search(query: str) -> list[int]:
            found = table.search(query_type="hybrid").vector(query).text(MatchQuery(query, "text"))
            rows = found.distance_type("cosine").rerank(reranker).limit(BEST).to_arrow()
            return rows["id"][:TOP].to_pylist()

        return search

    def alone(kind: str) -> Search:
        def search(query: str) -> list[int]:
            if kind == "vector":
                found = table.search(query, query_type=kind).distance_type("cosine")
            else:
                found = table.search(MatchQuery(query, "text"), query_type=kind)
            return found.limit(TOP).to_arrow()["id"].to_pylist()

        return search

    yield "both", lambda query: [row["id"] for row in module.search(table, query, top=TOP)]
    yield "both, scores 0.3 to 0.7", both(LinearCombinationReranker(MEANING))
    yield "both, RRF", both(RRFReranker())
    yield "meaning", alone("vector")
    yield "words", alone("fts")
    table.create_index("text", config=FTS(stem=False, remove_stop_words=False), replace=True)
    yield "words, no stems, all words", alone("fts")
    yield "both, no stems, all words", both(MRRReranker(MEANING, BY_WORDS))


def in_duckdb(model: str, texts: list[str], folder: Path) -> Iterator[tuple[str, Search]]:
    """DuckDB, with HNSW over vectors."""
    import duckdb
    from duckdb_extensions import import_extension

    encoder = FastEncoder.from_pretrained(model)
    config = {"extension_directory": str(folder)}
    connection = duckdb.connect(folder / "texts.duckdb", config=config)
    for extension in ("fts", "vss"):
        import_extension(extension, con=connection)
        connection.load_extension(extension)
    connection.execute("SET hnsw_enable_experimental_persistence = true")
    vectors = encoder.encode_document(texts)
    vector = f"FLOAT[{encoder.dimension}]"
    rows = rows_of(texts).append_column("vector", pa.array(list(vectors)))
    connection.register("given", rows)
    connection.execute(
        f"CREATE TABLE texts AS SELECT id, text, vector::{vector} AS vector FROM given"
    )
    connection.execute("CREATE INDEX near ON texts USING HNSW (vector) WITH (metric = 'cosine')")
    connection.execute("PRAGMA create_fts_index('texts', 'id', 'text')")
    distance = f"array_cosine_distance(vector, $vector::{vector})"
    by_words = "SELECT id, fts_main_texts.match_bm25(id, $text) AS score FROM texts"
    meaning, words = (
        f"(SELECT id, row_number() OVER () AS rank FROM ({query} LIMIT {BEST}))"
        for query in (
            f"SELECT id FROM texts ORDER BY {distance}",
            f"SELECT id FROM ({by_words}) WHERE score > 0 ORDER BY score DESC, id",
        )
    )
    both = (
        f"SELECT id FROM {meaning} AS m FULL JOIN {words} AS w USING (id) ORDER BY"
        f" coalesce({MEANING} / m.rank, 0) + coalesce({BY_WORDS} / w.rank, 0) DESC LIMIT {TOP}"
    )

    def search(query: str) -> list[int]:
        given = {"vector": encoder.encode_query(query).tolist(), "text": query}
        return [row for (row,) in connection.execute(both, given).fetchall()]

    yield "both", search


def in_qdrant(model: str, texts: list[str], folder: Path) -> Iterator[tuple[str, Search]]:
    """Qdrant's client alone, which compares the query with all texts, in Python."""
    from qdrant_client import QdrantClient, models

    encoder = FastEncoder.from_pretrained(model)
    client = QdrantClient(path=str(folder))
    cosine = models.VectorParams(size=encoder.dimension, distance=models.Distance.COSINE)
    client.create_collection("texts", vectors_config=cosine)
    scoring = models.TextScoringParams(type=models.TextScoringType.BM25)
    words = models.TextIndexParams(type=models.TextIndexType.TEXT, scoring=scoring)
    client.create_payload_index("texts", "text", words)
    vectors = encoder.encode_document(texts)
    given = [{"text": text} for text in texts]
    client.upload_collection("texts", vectors, given, list(range(len(texts))))

    # With k=1: the weight divided by the rank.
    fusion = models.RrfQuery(rrf=models.Rrf(k=1, weights=[MEANING, BY_WORDS]))

    def search(query: str) -> list[int]:
        halves = [
            models.Prefetch(query=encoder.encode_query(query).tolist(), limit=BEST),
            models.Prefetch(query=models.TextQuery(text=query), using="text", limit=BEST),
        ]
        found = client.query_points("texts", query=fusion, prefetch=halves, limit=TOP)
        return [int(point.id) for point in found.points]

    yield "both", search


ENGINES = {"SearchIndex": here, "LanceDB": in_lancedb, "DuckDB": in_duckdb, "Qdrant": in_qdrant}


def ndcg_and_milliseconds(search: Search, sort: Sort) -> tuple[float, float]:
    """The mean nDCG@10 x 100, and the median milliseconds of a query."""
    discounts = 1 / np.log2(np.arange(2, TOP + 2))
    values, seconds = [], []
    for query, relevant in zip(sort.queries, sort.judged, strict=True):
        start = time.perf_counter()
        found = search(query)
        seconds.append(time.perf_counter() - start)
        gains = np.array([relevant.get(text, 0.0) for text in found])
        ideal = np.array(sorted(relevant.values(), reverse=True)[:TOP])
        values.append(gains @ discounts[: len(gains)] / (ideal @ discounts[: len(ideal)]))
    return 100 * float(np.mean(values)), 1e3 * statistics.median(seconds)


def rare_words(texts: list[str]) -> list[tuple[str, int]]:
    """Words of five letters or more that one text alone has, and the text."""
    words, counts = split_texts(arrow.strings(texts))
    holders: dict[str, set[int]] = {}
    of_text = np.repeat(np.arange(len(texts)), counts).tolist()
    for word, text in zip(words.to_pylist(), of_text, strict=True):
        holders.setdefault(word, set()).add(text)
    alone = sorted((w, min(t)) for w, t in holders.items() if len(t) == 1 and len(w) >= 5)
    return alone[:: max(1, len(alone) // WORDS)][:WORDS]


def print_quality(model: str, folders: list[Path], engines: list[str]) -> None:
    """Print the first table."""
    found: dict[tuple[str, str], list[float | str]] = {}
    for path in folders:
        sort = sorts_of_documents(path)["judged"]
        words = rare_words(sort.texts)
        for engine in engines:
            with tempfile.TemporaryDirectory() as folder:
                for way, search in ENGINES[engine](model, sort.texts, Path(folder)):
                    cells = found.setdefault((engine, way), [])
                    cells += ndcg_and_milliseconds(search, sort)
                    first = statistics.mean(search(word)[:1] == [text] for word, text in words)
                    cells.append(f"{100 * first:.0f} %")
    of_folder = [(path.name, "ms", "words of one text") for path in folders]
    print_heading(["engine", "ranking", *chain.from_iterable(of_folder)])
    for ranking, cells in found.items():
        print_row(*ranking, *cells)


def peak() -> float:
    """The peak of this process's memory in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def made(engine: str, model: str, file: Path, folder: Path) -> dict[str, float]:
    """Make an index of a file's texts."""
    texts = file.read_text("utf-8").splitlines()
    start = time.perf_counter()
    if engine == "SearchIndex":
        SearchIndex.build(FastEncoder.from_pretrained(model), texts, rows_of(texts)).save(folder)
    else:
        table = example().make_table(folder, model)
        table.add(rows_of(texts), on_bad_vectors="null")
        table.optimize()
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    return {"s to make": seconds, "MB of files": size, "peak MB": peak()}


def searched(engine: str, model: str, file: Path, folder: Path) -> dict[str, float]:
    """Open the index, and search."""
    texts = file.read_text("utf-8").splitlines()
    queries = [" ".join(text.split()[:8]) for text in texts[:: max(1, len(texts) // 100)]]
    del texts
    if engine == "SearchIndex":
        index = SearchIndex.open(folder, FastEncoder.from_pretrained(model))
        is_open = pc.field("status") == "open"
        ways = {
            "ms a query": lambda query: index.search(query, TOP),
            "filtered": lambda query: index.search(query, TOP, where=is_open),
        }
    else:
        module, table = example(), lancedb.connect(folder).open_table("tickets")
        ways = {
            "ms a query": lambda query: module.search(table, query, None, TOP),
            "filtered": lambda query: module.search(table, query, "status = 'open'", TOP),
        }
    taken = {}
    for name, search in ways.items():
        search(queries[0])
        taken[name] = 1e3 * statistics.median(seconds_of(search, query) for query in queries)
    return {**taken, "peak MB then": peak()}


def changed(engine: str, model: str, file: Path, folder: Path) -> dict[str, float]:
    """Change 1,000 texts."""
    texts = file.read_text("utf-8").splitlines()
    if engine == "SearchIndex":
        again = 1e3 * made(engine, model, file, folder)["s to make"]
        return {"ms to add": again, "to replace": again, "to delete": again}
    example()
    table = lancedb.connect(folder).open_table("tickets")
    new, others = (rows_of(texts[-CHANGED:], first) for first in (len(texts), 0))
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    calls: dict[str, Callable[[], object]] = {
        "ms to add": lambda: table.add(new, on_bad_vectors="null"),
        "to replace": lambda: upsert.execute(others, on_bad_vectors="null"),
        "to delete": lambda: table.delete(f"id >= {len(texts)}"),
    }
    return {name: 1e3 * seconds_of(call) for name, call in calls.items()}


def print_costs(model: str, file: Path) -> None:
    """Print the second table."""
    for i, engine in enumerate(("SearchIndex", "LanceDB")):
        costs = {}
        with tempfile.TemporaryDirectory() as folder:
            for step in (made, searched, changed):
                spawn = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(1, spawn) as process:
                    arguments = engine, model, file, Path(folder) / "index"
                    costs |= process.submit(step, *arguments).result()
        if not i:
            print_heading(["engine", *costs])
        print_row(engine, *costs.values())


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["SearchIndex", "LanceDB"])
    parser.add_argument("--texts", type=Path, metavar="TEXTS.txt")
    arguments = parser.parse_args()
    print_quality(arguments.model, arguments.folders, arguments.engines)
    if arguments.texts:
        print()
        print_costs(arguments.model, arguments.texts)


if __name__ == "__main__":
    main()
