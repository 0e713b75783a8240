"""How fast static models and their teacher encode, against each other in one run.

Static models on many texts, on models with random tables of 30,000 and 150,000 words x 256::

    python benchmarks/encode_speed.py --corpus 'corpus/*.txt.xz' [--tagged brown.txt.xz]

takes sentences from each file, 100,000 in all by default (and half of those in a file of
`word/TAG` tokens), and prints the median of five turns, in which the encoders take part one after
the other: sentences a second, the times of the steps inside, the latency of one short sentence, and
how close vectors of a table in int8 are.
"New" is text that is read for the first time, by an encoder that has read as many other sentences
before ("stream") or none ("cold"); all else was read before.
`--model FOLDER` takes that model instead, and `--whole` lines as they are, for text of a language
that is not split here: both for Japanese.
`--lines 10000000` also measures the memory of `st-static encode` on so many sentences of the
corpus, all of them and then from the first again; with `--whole` on its lines, and then on pieces
of them, each time others, cut as in `compare_ids.py --cut`.

Table 2 of the paper (Wada et al., 2025), on a task's sentences, three independent processes each::

    python benchmarks/encode_speed.py --data DIR [--task STS15] --models SPEC [SPEC ...]

prints Spearman's correlation x 100 and the mean and spread of the seconds, on the processor and,
where there is one, on the GPU. A SPEC is `sentence-transformers:MODEL`, `fast:MODEL`,
`model2vec:MODEL` or `wordllama:256`; DIR holds a folder a task, with `test.parquet`.
"""

import argparse
import functools
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from compare_ids import cut_at_random
from measuring import parser_of, print_heading, print_row, seconds_of
from numpy.typing import NDArray
from sts import StsPairs, read_pairs, score_pairs

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus, find_files
from st_static.distill.corpus.sentences import split_sentences
from st_static.encode.fast_encoder import FastEncoder
from st_static.encode.row_sums import sum_rows, used_rows
from st_static.model.export import export_model
from st_static.model.table import Int8Table
from st_static.model.tokenizer import build_tokenizer, split_words
from st_static.model.vectors import unit_rows

Encode = Callable[[list[str]], NDArray[np.floating]]

DIMENSION = 256
TURNS = 5
BATCH = 1024
SHORT = "A dog runs quickly across the wide green field today."
WORDLLAMA_SHARE = 10
"""WordLlama gets one text in so many: it is slow, and its speed does not depend on their number."""


# -- encoders --------------------------------------------------------------------------


def make_encoder(spec: str) -> Encode:
    """An encoder by its SPEC, see above."""
    kind, _, name = spec.partition(":")
    if kind == "fast":
        return FastEncoder.from_pretrained(name).encode
    if kind == "model2vec":
        from model2vec import StaticModel

        return StaticModel.from_pretrained(name).encode
    if kind == "wordllama":
        return _wordllama(name)
    from sentence_transformers import SentenceTransformer

    if kind != "sentence-transformers":
        raise SystemExit(f"There is no kind of encoder {kind!r}: see --help.")
    model = SentenceTransformer(name)
    static = type(model[0]).__name__ == "StaticEmbedding"
    return functools.partial(
        model.encode, batch_size=BATCH if static else 32, show_progress_bar=False
    )


def _wordllama(dimension: str) -> Encode:
    """The package's own encoder; its loader would look for the tokenizer in another folder."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    package = Path(str(resources.files("wordllama")))
    table = load_file(package / f"weights/l2_supercat_{dimension}.safetensors")["embedding.weight"]
    file = package / "tokenizers/l2_supercat_tokenizer_config.json"
    model = WordLlamaInference(table, Tokenizer.from_file(str(file)))
    return functools.partial(model.embed, norm=True)


# -- the paper's table -----------------------------------------------------------------


def measure_once(spec: str, pairs: StsPairs) -> dict[str, float]:
    """Score and seconds of one encoder, in this process, after a warm-up."""
    encode = make_encoder(spec)
    texts = [*pairs.sentences1, *pairs.sentences2]
    encode(texts[:100])
    seconds = seconds_of(encode, texts)
    return {"seconds": seconds, "spearman": score_pairs(SimpleNamespace(encode=encode), pairs)}


def print_paper_table(specs: list[str], task: str, data: Path) -> None:
    """Table 2 of the paper for this machine."""
    devices = {"CPU": ""}
    if torch.cuda.is_available():
        devices["GPU"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    print_heading(["model", task, *(f"{name}, seconds" for name in devices)])
    for spec in specs:
        cells = []
        for visible in devices.values():
            runs = [_in_process(spec, task, data, visible) for _ in range(3)]
            seconds = [run["seconds"] for run in runs]
            cells.append(f"{statistics.mean(seconds):.3f} ± {statistics.stdev(seconds):.3f}")
        print_row(spec, runs[0]["spearman"], *cells)


def _in_process(spec: str, task: str, data: Path, visible_gpus: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--data", str(data), "--task", task, "--one", spec]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible_gpus}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{spec} failed: {result.stderr[-2000:]}")
    values: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return values


# -- many texts ------------------------------------------------------------------------


def read_sentences(patterns: list[str], n: int, whole: bool) -> list[str]:
    """`n` sentences or whole lines, as many from each file, in random order."""
    files = find_files(patterns)
    sentences = [s for file in files for s in _some_sentences(file, -(-n // len(files)), whole)]
    np.random.default_rng(0).shuffle(sentences)
    return sentences[:n]


def _some_sentences(file: Path, n: int, whole: bool) -> list[str]:
    """The first `n` sentences of a file, or its lines."""
    found: list[str] = []
    for paragraph in Corpus(CorpusConfig(files=str(file))):
        found += [s for s in ([paragraph] if whole else split_sentences([paragraph])) if s.strip()]
        if len(found) >= n:
            break
    return found[:n]


def read_tagged(file: Path) -> list[str]:
    """Sentences of a file of `word/TAG` tokens."""
    lines = Corpus(CorpusConfig(files=str(file)))
    return [" ".join(t.rpartition("/")[0] for t in line.split()) for line in lines]


def make_model(folder: Path, sentences: list[str], n_words: int) -> Path:
    """A model with a random table for the most frequent words, and all single characters."""
    tokenizer = build_tokenizer([])
    chunks = Counter(chunk for sentence in sentences for chunk in sentence.split())
    counts: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in split_words(tokenizer, chunk):
            counts[word] += count
    words = [word for word, _ in counts.most_common(n_words)]
    words += [f"unused{i}" for i in range(n_words - len(words))]
    characters = sorted({c for word in counts for c in word})
    pieces = [*characters, *(f"##{c}" for c in characters)]
    tokenizer = build_tokenizer(words, pieces)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((tokenizer.get_vocab_size(), DIMENSION), dtype=np.float32)
    table[:2] = 0
    export_model(folder, table, tokenizer, {})
    return folder


def measure_throughput(model: Path, texts: list[str], before: list[str]) -> dict[str, float]:
    """Sentences a second of each encoder, median of several turns; `before` are other texts."""
    some = texts[::WORDLLAMA_SHARE]
    warm = FastEncoder.from_pretrained(model)
    half = FastEncoder.from_pretrained(model, dtype="float16")
    small = FastEncoder.from_pretrained(model, dtype="int8")
    encoders = {
        "Model2Vec": make_encoder(f"model2vec:{model}"),
        "StaticEmbedding": make_encoder(f"sentence-transformers:{model}"),
        "FastEncoder": warm.encode,
        "FastEncoder, float16": half.encode,
        "FastEncoder, int8": small.encode,
    }
    wordllama = make_encoder("wordllama:256")
    for encode in (*encoders.values(), wordllama):
        encode(texts[: len(some)])
    ours = {
        "FastEncoder, stream": ("float32", before),
        "FastEncoder, stream, float16": ("float16", before),
        "FastEncoder, stream, int8": ("int8", before),
        "FastEncoder, cold": ("float32", []),
    }
    times: dict[str, list[float]] = {name: [] for name in [*encoders, *ours]}
    times["WordLlama"] = []
    for encode in (warm.encode, half.encode, small.encode):
        encode(texts)
    for _ in range(TURNS):
        for name, encode in encoders.items():
            times[name].append(seconds_of(encode, texts))
        for name, (dtype, earlier) in ours.items():
            encoder = FastEncoder.from_pretrained(model, dtype=dtype)
            encoder.tokenize.prepare()  # a part of loading
            encoder.encode(earlier)
            times[name].append(seconds_of(encoder.encode, texts))
        seconds = seconds_of(wordllama, some)
        times["WordLlama"].append(seconds * len(texts) / len(some))
    return {name: len(texts) / statistics.median(values) for name, values in times.items()}


def measure_latency(model: Path) -> dict[str, float]:
    """Microseconds for one short sentence, median."""
    encoders = {name: make_encoder(f"{name}:{model}") for name in ("model2vec", "fast")}
    calls = {"Model2Vec": lambda: encoders["model2vec"]([SHORT])}
    calls["FastEncoder"] = lambda: encoders["fast"](SHORT)
    small = FastEncoder.from_pretrained(model, dtype="int8")
    calls["FastEncoder, int8"] = lambda: small.encode(SHORT)
    found = {}
    for name, call in calls.items():
        times = [seconds_of(call) for _ in range(5000)]
        found[name] = 1e6 * statistics.median(times[1000:])
    return found


def measure_steps(model: Path, texts: list[str]) -> dict[str, float]:
    """Seconds of the steps of encoding, each alone, of texts read before; and of a bare copy."""
    encoder = FastEncoder.from_pretrained(model, threads=1)
    ids, table = encoder.tokenize(texts), np.asarray(encoder.model.table)
    half, small = table.astype(np.float16), Int8Table.of(table)
    source, target = np.zeros((2, len(ids.values), DIMENSION), np.float32)
    steps: dict[str, Callable[[], object]] = {
        "seconds from texts to ids, one thread": lambda: encoder.tokenize(texts),
        "seconds to gather and add, float32": lambda: sum_rows(table, ids),
        "seconds to gather and add, float16": lambda: sum_rows(*used_rows(half, ids)),
        "seconds to gather and add, int8": lambda: sum_rows(*used_rows(small, ids)),
        "seconds to copy as many bytes": lambda: np.copyto(target, source),
    }
    found = {}
    for name, step in steps.items():
        step()
        found[name] = statistics.median(seconds_of(step) for _ in range(TURNS))
    found["gigabytes gathered"] = len(ids.values) * DIMENSION * 4 / 1e9
    return found


def measure_rounding(model: Path, texts: list[str]) -> dict[str, float]:
    """Cosines of vectors from the table in int8 and in float32, of texts with a known word."""
    exact, rounded = (
        unit_rows(FastEncoder.from_pretrained(model, dtype=dtype).encode(texts))
        for dtype in ("float32", "int8")
    )
    cosines = (exact * rounded).sum(axis=1)[exact.any(axis=1)]
    return {"mean": float(cosines.mean()), "least": float(cosines.min())}


def measure_memory(
    model: Path, patterns: list[str], n_lines: int, whole: bool, folder: Path
) -> dict[str, float]:
    """Peak memory in MB of `st-static encode` on a file of `n_lines` lines."""
    lines = folder / "lines.txt"
    _write_lines(lines, patterns, n_lines, whole)
    module = "import st_static.encode.fast_encoder"
    start = time.perf_counter()
    peak = _peak_of([sys.executable, "-m", "st_static.cli", "encode", str(model)], lines)
    seconds = time.perf_counter() - start
    return {
        "MB of the table": (model / "model.safetensors").stat().st_size / 1e6,
        "MB of Python and its libraries": _peak_of([sys.executable, "-c", module], lines) / 1e6,
        "MB at most": peak / 1e6,
        "sentences a second": n_lines / seconds,
    }


def _write_lines(file: Path, patterns: list[str], n: int, whole: bool) -> None:
    """All sentences or lines of a corpus, and from the first one again, until there are `n`."""
    distinct = file.with_suffix(".distinct")
    with distinct.open("w", encoding="utf-8") as stream:
        for path in find_files(patterns):
            lines = Corpus(CorpusConfig(files=str(path)))
            sentences = lines if whole else split_sentences(lines)
            stream.writelines(f"{sentence}\n" for sentence in sentences)
    if not distinct.stat().st_size:
        raise SystemExit("There is no sentence in the corpus.")
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{text}\n" for text in itertools.islice(_forever(distinct, whole), n))


def _forever(file: Path, in_pieces: bool) -> Iterator[str]:
    """The lines of a file again and again; if asked, from the second time on pieces of them."""
    for seed in itertools.count():
        rng = np.random.default_rng(seed)
        with file.open(encoding="utf-8") as lines:
            for line in (line.removesuffix("\n") for line in lines):
                yield from cut_at_random(line, rng) if in_pieces and seed else [line]


def _peak_of(command: list[str], source: Path) -> int:
    """The largest memory in bytes that a command ever takes; it reads a file."""
    with source.open("rb") as stdin, open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(command, stdin=stdin, stdout=nowhere, stderr=subprocess.DEVNULL)
        peak = 0
        while child.poll() is None:
            status = Path(f"/proc/{child.pid}/status").read_text()  # stays until polled again
            found = re.search(r"VmHWM:\s+(\d+) kB", status)  # the peak until now
            peak = max(peak, int(found[1]) * 1024 if found else 0)
            time.sleep(0.02)
    if child.returncode:
        raise SystemExit(f"{command} failed with the status {child.returncode}.")
    return peak


def print_throughput(texts: list[str], name: str, model: Path) -> None:
    """The tables of one model, on one half of the texts; the others are read before."""
    before, texts = texts[len(texts) // 2 :], texts[: len(texts) // 2]
    print(f"\n## {len(texts):,} sentences of {name}, {model.name} x {DIMENSION}\n")
    print_heading(["encoder", "sentences/s", "x Model2Vec", "x StaticEmbedding"])
    speeds = measure_throughput(model, texts, before)
    for encoder, speed in speeds.items():
        ratios = [speed / speeds[peer] for peer in ("Model2Vec", "StaticEmbedding")]
        print_row(encoder, f"{speed:,.0f}", *(f"{ratio:.1f}" for ratio in ratios))
    for encoder, microseconds in measure_latency(model).items():
        print(f"\nOne short sentence, {encoder}: {microseconds:.1f} µs")
    for step, value in measure_steps(model, texts).items():
        print(f"\n{step}: {value:.3f}")
    for which, cosine in measure_rounding(model, texts).items():
        print(f"\ncosine of int8 and float32, {which}: {cosine:.5f}")


def _models(options: argparse.Namespace, folder: Path, texts: list[str]) -> list[Path]:
    """The model that the options name, else those with random tables."""
    if options.model:
        return [options.model]
    return [make_model(folder / f"words-{n}", texts, n) for n in options.words]


def main() -> None:
    """Measure what the options ask for."""
    parser = parser_of(__doc__)
    parser.add_argument("--corpus", nargs="+", help="text files, a paragraph a line")
    parser.add_argument("--tagged", type=Path, help="file of word/TAG tokens")
    parser.add_argument("--sentences", type=int, default=100_000, help="how many")
    parser.add_argument(
        "--words", nargs="+", type=int, default=[30_000, 150_000], help="table sizes"
    )
    parser.add_argument("--model", type=Path, help="a model's folder, for tables of random words")
    parser.add_argument("--whole", action="store_true", help="lines of the corpus as they are")
    parser.add_argument("--lines", type=int, default=0, help="measure memory on so many lines")
    parser.add_argument("--data", type=Path, help="folder of STS tasks")
    parser.add_argument("--task", default="STS15", help="of DIR")
    parser.add_argument("--models", nargs="+", default=[], help="SPECs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.corpus or options.tagged or options.data):
        parser.error("name texts with --corpus or --tagged, or tasks with --data")
    if options.lines and not options.corpus:
        parser.error("--lines takes them from --corpus")
    if options.data:
        pairs = read_pairs(options.data / options.task / "test.parquet")
        if options.one:
            print(json.dumps(measure_once(options.one, pairs)))
            return
        print_paper_table(options.models, options.task, options.data)
    corpora = {}
    if options.corpus:
        n_read = 2 * options.sentences
        corpora["the corpus"] = read_sentences(options.corpus, n_read, options.whole)
    if options.tagged:
        corpora["tagged text"] = read_tagged(options.tagged)
    with tempfile.TemporaryDirectory() as temporary:
        for name, texts in corpora.items():
            for model in _models(options, Path(temporary) / name, texts):
                print_throughput(texts, name, model)
        if options.lines:
            model = options.model or Path(temporary) / "the corpus" / f"words-{options.words[0]}"
            memory = measure_memory(
                model, options.corpus, options.lines, options.whole, Path(temporary)
            )
            for what, value in memory.items():
                print(f"\nst-static encode on {options.lines:,} lines, {what}: {value:,.0f}")


if __name__ == "__main__":
    main()
