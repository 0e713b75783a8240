"""Extraction on a GPU: a random BERT-base teacher in bfloat16, sentences of 16 tokens.

    python benchmarks/gpu_extraction.py [--sentences 200000] [--batch-tokens 262144]

Weights do not change speed, so that no download is needed. Prints sentences/s of the bare model
and of the whole of extraction, the share of the chip's measured bfloat16 matrix rate that each
reaches, and how long 150k words x 100 sentences would take at the build's share of distinct
sentences (0.55 a pair).
"""

import argparse
import tempfile
import time

import numpy as np
import pyarrow as pa
import torch
from extraction_speed import run_bare, run_extraction
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from st_static.distill.teacher import Teacher
from st_static.distill.work_directory import Selected
from st_static.tokens.ragged import Ragged, offsets_of
from st_static.tokens.tokenizer import SPECIAL_TOKENS, build_tokenizer

WORDS = [
    f"{a}{b}{c}" for a in "bcdfgklm" for b in "aeiou" for c in ("n", "r", "s", "t", "nd", "st")
]
TOKENS_OF_TEXT = 14  # and two special tokens
NEEDED = 150_000 * 100 * 0.55


def make_teacher(device: str, batch_tokens: int) -> Teacher:
    """BERT-base with random weights, and a vocabulary of made-up words."""
    vocabulary = ["[CLS]", "[SEP]", *WORDS]
    backend: Tokenizer = build_tokenizer(vocabulary)
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(t, backend.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
    )
    with tempfile.TemporaryDirectory() as folder:
        BertModel(BertConfig(vocab_size=backend.get_vocab_size())).save_pretrained(folder)
        PreTrainedTokenizerFast(
            tokenizer_object=backend,
            unk_token="[UNK]",
            pad_token="[PAD]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            model_max_length=512,
        ).save_pretrained(folder)
        transformer = Transformer(folder)
    modules = [transformer, Pooling(transformer.get_embedding_dimension(), "mean")]
    model = SentenceTransformer(modules=modules, device=device)
    return Teacher(model.to(torch.bfloat16), batch_tokens=batch_tokens)


def make_sentences(n: int) -> Selected:
    """Sentences of made-up words, each selected for two of them."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, len(WORDS), (n, TOKENS_OF_TEXT))
    texts = pa.array([" ".join(WORDS[i] for i in row) for row in words])
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=200_000)
    parser.add_argument("--batch-tokens", type=int, default=262_144)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    teacher = make_teacher(arguments.device, arguments.batch_tokens)
    tokenizer = build_tokenizer(WORDS)
    selected = make_sentences(arguments.sentences)
    warm_up = selected.rows(slice(max(1, arguments.sentences // 20)))
    run_bare(teacher, warm_up)
    run_extraction(teacher, tokenizer, warm_up)
    flops = flops_per_sentence(teacher, TOKENS_OF_TEXT + 2)
    rate = matrix_rate(arguments.device) if arguments.device == "cuda" else None
    for name, seconds in (
        ("bare model", run_bare(teacher, selected)),
        ("extraction", run_extraction(teacher, tokenizer, selected)),
    ):
        speed = arguments.sentences / seconds
        share = f", {100 * flops * speed / rate:.0f} % of the matrix rate" if rate else ""
        minutes = NEEDED / speed / 60
        print(f"{name}: {speed:,.0f} sentences/s{share}; 150k words x 100: {minutes:.1f} min")


if __name__ == "__main__":
    main()
