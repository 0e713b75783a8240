"""Encode as a new user would: in a new process, with sentence-transformers alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.files import temporary_folder
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import TOKENIZER_FILE
from st_static.publish.hub import load_alone

_SENTENCES = [
    "Read rows from a file.",
    "Parse a CSV file, and count the lines!",
    "It rains today; tomorrow it won't.",
    "Wörter, die ein Modell nicht kennt: 数えきれない 😀",
    "",
]
_N_TOKENS = 256


def sample_texts(folder: ModelFolder) -> list[str]:
    """Choose texts to compare vectors of: a few sentences, and tokens from all the vocabulary."""
    file = folder.home / TOKENIZER_FILE
    if not file.is_file():
        return list(_SENTENCES)
    tokens = sorted(Tokenizer.from_file(str(file)).get_vocab())
    chosen = tokens[:: max(1, len(tokens) // _N_TOKENS)]
    return [*_SENTENCES, *chosen, " ".join(chosen)]


def load_fresh(
    model: str,
    texts: list[str],
    revision: str | None = None,
    token: str | None = None,
    trust_remote_code: bool = False,
    cache_folder: Path | None = None,
) -> NDArray[np.floating]:
    """Encode texts [B] into vectors [B, D] in a new process that cannot import st_static.

    The model is a folder or an id on the Hub; downloads go by default into an empty cache.

    Raises:
        ValueError: It does not load there.
    """
    with temporary_folder() as empty:
        output = empty / "vectors.npy"
        options = {"token": token, "revision": revision, "trust_remote_code": trust_remote_code}
        options["cache_folder"] = str(cache_folder or empty / "hub")
        request = {"model": model, "texts": texts, "output": str(output), "options": options}
        environment = {**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        environment |= {name: str(empty / name) for name in ("HF_HUB_CACHE", "HF_XET_CACHE")}
        if Path(model).is_dir() and not trust_remote_code:
            environment["HF_HUB_OFFLINE"] = "1"  # a folder needs the Hub only for its own code
        # -P, to keep the program's folder off the path. The token goes through stdin, since other
        # users can read arguments.
        process = subprocess.run(
            [sys.executable, "-P", load_alone.__file__],
            input=json.dumps(request),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            [*_, reason] = process.stderr.strip().splitlines() or [f"status {process.returncode}"]
            reason = reason.replace(token, "***") if token else reason
            raise ValueError(
                f"{model} does not load with sentence-transformers alone: {reason.rstrip('.')}."
            )
        vectors: NDArray[np.floating] = np.load(output, allow_pickle=False)
        return vectors


def check_equal(local: NDArray[np.floating], published: NDArray[np.floating], repo_id: str) -> None:
    """Check that the published model gives the vectors of the local one, [B, D] each."""
    if local.shape != published.shape:
        difference = f"expected the shape {local.shape}, but got {published.shape}."
    else:
        same = np.isclose(local, published, rtol=0, atol=1e-6, equal_nan=True).all(axis=1)
        if same.all():
            return
        difference = f"{int((~same).sum())} of {len(local)} texts differ."
    raise ValueError(f"{repo_id} gives other vectors than the folder here: {difference}")
