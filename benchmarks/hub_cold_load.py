"""How long the first `SentenceTransformer("org/ours-256")` takes, and how much it downloads.

    python benchmarks/hub_cold_load.py [--rows 150000] [--dimension 256] [--turns 5]

writes a float16 model with random rows, publishes it with `st-static publish` to a Hub on the
loopback, and loads it by its name in new processes with empty caches. Prints the seconds of
publishing with all its checks; for each load the seconds of the import of sentence-transformers, of
loading (download included) and of a load from the cache after it; their medians; and the megabytes
downloaded. A real Hub adds the time that the network takes for them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from st_static.model.export import export_model
from st_static.tokens.tokenizer import SPECIAL_TOKENS, build_tokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "publish"))

from hub_server import TOKEN, Hub
from small_model import write_card

REPO = "org/ours-256"
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
LOAD = f"""
import json, time
start = time.perf_counter()
from sentence_transformers import SentenceTransformer
imported = time.perf_counter()
SentenceTransformer("{REPO}", device="cpu").encode("Read rows from a file.")
loaded = time.perf_counter()
SentenceTransformer("{REPO}", device="cpu").encode("Read rows from a file.")
again = time.perf_counter()
print(json.dumps([imported - start, loaded - imported, again - loaded]))
"""


def write_model(folder: Path, rows: int, dimension: int) -> None:
    """A model with random words, of the lengths that words have, and random rows."""
    rng = np.random.default_rng(0)
    words: dict[str, None] = {}
    while len(words) < rows - len(SPECIAL_TOKENS):
        length = int(rng.integers(3, 12))
        words["".join(LETTERS[i] for i in rng.integers(0, len(LETTERS), length))] = None
    tokenizer = build_tokenizer(list(words))
    table = rng.standard_normal((rows, dimension), dtype=np.float32)
    export_model(folder, table, tokenizer, {}, dtype="float16")
    write_card(folder)


def run(arguments: list[str], hub: Hub, home: Path) -> str:
    """What a new Python process prints that knows only this Hub, with caches in `home`."""
    settings = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    settings |= {"HF_HOME": str(home), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, *arguments]
    environment = {**os.environ, **settings}
    for cache in ("HF_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME"):
        environment.pop(cache, None)
    process = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return process.stdout


def main() -> None:
    """Publish, load, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Hub().running() as hub:
        folder = Path(name) / "ours-256"
        write_model(folder, options.rows, options.dimension)
        start = time.perf_counter()
        command = ["-m", "st_static.cli", "publish", str(folder), REPO]
        print(run(command, hub, Path(name) / "publishing").strip())
        print(f"publish: {time.perf_counter() - start:.1f} s")
        turns = []
        for turn in range(options.turns):
            sent = hub.sent_bytes
            turns.append(json.loads(run(["-c", LOAD], hub, Path(name) / f"home_{turn}")))
            megabytes = (hub.sent_bytes - sent) / 1e6
            print("import {:.2f} s, load {:.2f} s, load from the cache {:.2f} s".format(*turns[-1]))
        medians = [statistics.median(column) for column in zip(*turns, strict=True)]
        print(
            "median: import {:.2f} s, load {:.2f} s, load from the cache {:.2f} s".format(*medians)
        )
        print(f"downloaded: {megabytes:.1f} MB")


if __name__ == "__main__":
    main()
