"""A static model with a random table, for tests to which its vectors are no matter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from st_static.model.export import export_model


def write_random_model(
    folder: Path,
    tokenizer: Tokenizer,
    dimension: int,
    seed: int = 0,
    record: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Write a model; [PAD] and [UNK] have zeros. Gives its folder."""
    table = np.random.default_rng(seed).normal(size=(tokenizer.get_vocab_size(), dimension))
    table[:2] = 0
    export_model(folder, table.astype(np.float32), tokenizer, record or {}, **options)
    return folder
