"""A small model with a card, as the tests publish it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from st_static.model.export import export_model
from st_static.model.tokenizer import build_tokenizer

WORDS = ["read", "rows", "from", "a", "file", "parse", "csv", "it", "rains", "today"]
DIMENSION = 4
CARD = """---
language: en
license: apache-2.0
library_name: sentence-transformers
pipeline_tag: sentence-similarity
model-index:
- name: ours-256
  results:
  - task:
      type: STS
    dataset:
      type: mteb/sts12-sts
      name: MTEB STS12
      split: test
    metrics:
    - type: cosine_spearman
      value: 70.5
---
# ours-256

![Scores](figures/scores.svg)
"""
RESULTS = """- dataset:
    id: mteb/sts12-sts
    task_id: default
  value: 70.5
"""


def write_model(folder: Path, dtype: str = "float32", seed: int = 0) -> Path:
    """Write a whole folder: table, tokenizer, card, a figure and results."""
    tokenizer = build_tokenizer(WORDS, [*"abcdefgh", "##s"])
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(tokenizer.get_vocab_size(), DIMENSION)).astype(np.float32)
    table[:2] = 0  # [PAD] and [UNK]
    export_model(folder, table, tokenizer, {"recipe": {"seed": seed}}, dtype=dtype)
    write_card(folder)
    (folder / ".eval_results").mkdir()
    (folder / ".eval_results" / "sts12.yaml").write_text(RESULTS, "utf-8")
    return folder


def write_card(folder: Path) -> None:
    """Write a card with its figure."""
    (folder / "README.md").write_text(CARD, "utf-8")
    (folder / "figures").mkdir()
    (folder / "figures" / "scores.svg").write_text("<svg/>\n", "utf-8")
