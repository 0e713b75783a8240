"""Keep an index that changes: LanceDB, with a static model as its embedding function.

    python examples/changing_index.py [FOLDER] [--model MODEL]

Makes a table of tickets in FOLDER, or replaces the one there, searches it by meaning and by words,
adds, replaces and deletes tickets, filters them, and opens the table again. LanceDB encodes the
texts that change, and no others. It needs the package lancedb; nothing leaves the machine.
"""

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import lancedb
import pyarrow as pa
from lancedb.embeddings import EmbeddingFunctionConfig, TextEmbeddingFunction, register
from lancedb.index import FTS
from lancedb.query import MatchQuery
from lancedb.rerankers import MRRReranker
from lancedb.table import Table

from st_static import FastEncoder
from st_static.cli import run_command

# LanceDB makes its functions anew for each call: they share a model.
encoder_of = functools.cache(FastEncoder.from_pretrained)


@register("st-static")  # the name that is kept in tables
class StaticModel(TextEmbeddingFunction):
    """Encode texts and queries; a text without a known word has no vector."""

    model: str

    def ndims(self):
        return encoder_of(self.model).dimension

    def compute_query_embeddings(self, query, *args, **kwargs):
        return [encoder_of(self.model).encode_query(query)]

    def generate_embeddings(self, texts):
        vectors = encoder_of(self.model).encode_document(texts)
        return [vector if vector.any() else None for vector in vectors]


def make_table(folder: Path, model: str) -> Table:
    function = StaticModel.create(model=model)
    columns = {
        "id": pa.int64(),
        "status": pa.string(),
        "text": pa.string(),
        "vector": pa.list_(pa.float32(), function.ndims()),
    }
    config = EmbeddingFunctionConfig(
        vector_column="vector", source_column="text", function=function
    )
    table = lancedb.connect(folder).create_table(
        "tickets", schema=pa.schema(columns), embedding_functions=[config], mode="overwrite"
    )
    # FTS(stem=False, remove_stop_words=False) is for languages whose stems it does not know.
    table.create_index("text", config=FTS(language="English"))
    return table


def search(table: Table, query: str, where: str | None = None, top: int = 3) -> list[dict]:
    """Find the best rows: those with the highest sums of weights over ranks in two rankings."""
    # As a string, a query in quotation marks would ask for a phrase.
    found = table.search(query_type="hybrid").vector(query).text(MatchQuery(query, "text"))
    found = found.distance_type("cosine").where(where)
    # The weights of meaning and words, for the 100 best of each, were chosen on judged queries.
    return found.rerank(MRRReranker(0.3, 0.7)).limit(100).to_list()[:top]


def show(table: Table, query: str, where: str | None = None) -> None:
    print(f"{query}, where {where}" if where else query)
    for row in search(table, query, where):
        print(f"  {row['_relevance_score']:.2f}  {row['id']}  {row['status']}  {row['text']}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default="data/changing", help="default: data/changing"
    )
    parser.add_argument(
        "--model",
        default="st-static/english-384",
        help="its name, folder or Hub id (default: st-static/english-384)",
    )
    options = parser.parse_args(arguments)

    table = make_table(options.folder, options.model)
    tickets = [
        {"id": 1, "status": "open", "text": "Reset your password"},
        {"id": 2, "status": "closed", "text": "Opening hours in December"},
        {"id": 3, "status": "open", "text": "Error X7 in the module"},
    ]
    table.add(tickets, on_bad_vectors="null")
    show(table, "my account is locked")

    table.add([{"id": 4, "status": "open", "text": "Error X8 after the update"}])
    show(table, "x8")

    replaced = [
        {"id": 2, "status": "open", "text": "Are you closed on Christmas Eve?"},
        {"id": 5, "status": "closed", "text": "The invoice is wrong"},
    ]
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(replaced, on_bad_vectors="null")
    show(table, "holidays")

    table.delete("id = 3")
    show(table, "error in the module", where="status = 'open'")

    table.optimize()  # brings new rows into the index of words, which finds them before, too
    table = lancedb.connect(options.folder).open_table("tickets")
    print(f"{table.count_rows()} tickets after opening the table again")
    show(table, "wrong invoice")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
