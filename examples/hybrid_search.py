"""Search a folder's documents by their meaning and by their words.

    python examples/hybrid_search.py FOLDER QUERY [QUERY ...] [--model MODEL]

Prints the three best passages for each query, with the cosine (model) and the score of BM25
(words). `st-static search` does so on the command line.
"""

import argparse
import sys
from collections.abc import Sequence

from st_static import FastEncoder, SearchIndex, read_folder
from st_static.cli import run_command


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="its .txt, .md, .rst and .html files are the documents")
    parser.add_argument("queries", nargs="+", metavar="QUERY", help="what to search")
    parser.add_argument(
        "--model",
        default="st-static/english-384",
        help="its name, folder or Hub id (default: st-static/english-384)",
    )
    options = parser.parse_args(arguments)
    passages = read_folder(options.folder)
    encoder = FastEncoder.from_pretrained(options.model)
    index = SearchIndex.build(encoder, passages["text"], columns=passages)
    for query, hits in zip(options.queries, index.search(options.queries, top=3), strict=True):
        print(query)
        for hit in hits:
            meaning = "none" if hit.meaning is None else f"{hit.meaning:.2f}"
            place = f"{hit.row['file']}:{hit.row['line']}"
            print(f"  {hit.score:.2f} {place} (model {meaning}, words {hit.words:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
