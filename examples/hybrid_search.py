"""Search a folder's documents by their meaning and by their words.

    python examples/hybrid_search.py FOLDER QUERY [QUERY ...] [--model MODEL]

Prints the three best documents for each query, with the cosine (model) and the score of BM25
(words). `st-static search` reads tables.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from st_static import FastEncoder, SearchIndex
from st_static.cli import run_command


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="each .txt and .md file in it is a document")
    parser.add_argument("queries", nargs="+", metavar="QUERY", help="what to search")
    parser.add_argument(
        "--model",
        default="st-static/minilm-256",
        help="its name, folder or Hub id (default: st-static/minilm-256)",
    )
    options = parser.parse_args(arguments)
    files = sorted(f for f in options.folder.rglob("*") if f.suffix in (".txt", ".md"))
    if not files:
        raise ValueError(f"There are no .txt or .md files in {options.folder}.")
    encoder = FastEncoder.from_pretrained(options.model)
    texts = [file.read_text("utf-8", errors="replace") for file in files]
    index = SearchIndex.build(encoder, texts, columns={"file": [str(file) for file in files]})
    for query, hits in zip(options.queries, index.search(options.queries, top=3), strict=True):
        print(query)
        for hit in hits:
            meaning = "none" if hit.meaning is None else f"{hit.meaning:.2f}"
            print(f"  {hit.score:.2f} {hit.row['file']} (model {meaning}, words {hit.words:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
