"""What a head costs in encoding: FastEncoder on one table, without a head and with heads of sizes.

    python benchmarks/head_speed.py --corpus 'corpus/*.txt.xz' [--words 60000] [--units 128 512 ...]

takes 100,000 sentences and a random table as `encode_speed.py` does, and prints sentences a second
of texts seen before, median of seven turns in which the models take part one after the other, and
their share of the speed without a head: of FastEncoder, and of sentence-transformers itself; then
the microseconds of one short sentence.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from encode_speed import DIMENSION, SHORT, make_encoder, make_model, read_sentences
from measuring import print_heading, print_row, seconds_of

from st_static.encode.fast_encoder import FastEncoder
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model

TURNS = 7
SENTENCES = 100_000
CALLS = 4000


def with_head(folder: Path, plain: Path, units: int) -> Path:
    """A model as another one, with a random head."""
    model = read_static_model(plain)
    rng = np.random.default_rng(0)
    first = rng.normal(size=(units, DIMENSION)).astype(np.float32) / 16
    head = Head(first, rng.normal(size=(DIMENSION, units)).astype(np.float32) / 16)
    export_model(folder, model.table, model.tokenizer, {}, head=head)
    return folder


def speeds(
    encoders: dict[str, Callable[[list[str]], object]], texts: list[str]
) -> dict[str, float]:
    """Sentences a second of each, median, after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in encoders}
    for encode in encoders.values():
        encode(texts)
    for _ in range(TURNS):
        for name, encode in encoders.items():
            times[name].append(seconds_of(encode, texts))
    return {name: len(texts) / statistics.median(found) for name, found in times.items()}


def latency(encode: Callable[[str], object]) -> float:
    """Microseconds of one short sentence, median."""
    times = [seconds_of(encode, SHORT) for _ in range(CALLS)]
    return 1e6 * statistics.median(times[CALLS // 4 :])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", nargs="+", required=True, help="files of text, or patterns")
    parser.add_argument("--words", type=int, default=60_000)
    parser.add_argument("--units", type=int, nargs="+", default=[64, 128, 256, 512])
    arguments = parser.parse_args()
    texts = read_sentences(arguments.corpus, SENTENCES, whole=False)
    with tempfile.TemporaryDirectory() as temporary:
        plain = make_model(Path(temporary) / "plain", texts, arguments.words)
        folders = {"no head": plain}
        for units in arguments.units:
            folders[f"{units} units"] = with_head(Path(temporary) / f"{units}", plain, units)
        fast = {name: FastEncoder.from_pretrained(folder) for name, folder in folders.items()}
        found = speeds({name: encoder.encode for name, encoder in fast.items()}, texts)
        slow = speeds(
            {name: make_encoder(f"sentence-transformers:{f}") for name, f in folders.items()}, texts
        )
        columns = ["sentences/s", "share", "in sentence-transformers", "share", "one text, µs"]
        print_heading(["head", *columns])
        for name in folders:
            cells = [f"{found[name]:,.0f}", f"{found[name] / found['no head']:.2f}"]
            cells += [f"{slow[name]:,.0f}", f"{slow[name] / slow['no head']:.2f}"]
            print_row(name, *cells, f"{latency(fast[name].encode):.1f}")


if __name__ == "__main__":
    main()
