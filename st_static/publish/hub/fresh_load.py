"""Vectors as a user gets them: a new process, sentence-transformers alone, nothing downloaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """Texts to compare vectors with: a few sentences, and tokens from all over the vocabulary.

    Args:
        folder: The model; its tokens are taken from tokenizer.json, where there is one.
    """
    from tokenizers import Tokenizer

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
    """Encode texts in a new process that has sentence-transformers but not st_static.

    Args:
        model: A folder, or an id on the Hub.
        texts: What to encode, [B].
        revision: Commit on the Hub.
        token: The Hub's token.
        trust_remote_code: Whether the model's own code may run.
        cache_folder: Where the model is looked for and downloaded to; by default an empty cache.

    Returns:
        Vectors [B, D].

    Raises:
        ValueError: It does not load there.
    """
    with temporary_folder() as empty:
        output = empty / "vectors.npy"
        cache_folder = cache_folder or empty / "hub"
        options: dict[str, Any] = {"cache_folder": str(cache_folder), "token": token}
        options |= {"revision": revision, "trust_remote_code": trust_remote_code}
        request = {"model": model, "texts": texts, "output": str(output), "options": options}
        # Nothing is asked of the Hub for a folder, except by code of its own.
        is_offline = Path(model).is_dir() and not trust_remote_code
        # -P, since the program's folder holds modules that are none for everybody. The token
        # goes through stdin: arguments can be read by all.
        process = subprocess.run(
            [sys.executable, "-P", load_alone.__file__],
            input=json.dumps(request),
            env=_environment(empty, is_offline),
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            reason = _last_line(process, token)
            raise ValueError(f"{model} does not load with sentence-transformers alone: {reason}.")
        vectors: NDArray[np.floating] = np.load(output, allow_pickle=False)
        return vectors


def _environment(empty: Path, is_offline: bool) -> dict[str, str]:
    """The environment of a process whose caches are in an empty folder."""
    caches = {name: str(empty / name) for name in ("HF_HUB_CACHE", "HF_XET_CACHE")}
    offline = {"HF_HUB_OFFLINE": "1"} if is_offline else {}
    return {**os.environ, **caches, **offline, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def _last_line(process: subprocess.CompletedProcess[str], token: str | None) -> str:
    """The last line that a process wrote to stderr, which names the error; never the token."""
    lines = process.stderr.strip().splitlines() or [f"status {process.returncode}"]
    return (lines[-1].replace(token, "***") if token else lines[-1]).rstrip(".")


def check_equal(local: NDArray[np.floating], published: NDArray[np.floating], repo_id: str) -> None:
    """Check that the published model gives the vectors of the local one, [B, D] each.

    Raises:
        ValueError: It does not.
    """
    if local.shape == published.shape and np.allclose(
        local, published, rtol=0, atol=1e-6, equal_nan=True
    ):
        return
    raise ValueError(
        f"{repo_id} gives other vectors than the folder here: {_difference(local, published)}"
    )


def _difference(local: NDArray[np.floating], published: NDArray[np.floating]) -> str:
    if local.shape != published.shape:
        return f"expected the shape {local.shape}, but got {published.shape}."
    differ = ~np.isclose(local, published, rtol=0, atol=1e-6, equal_nan=True).all(axis=1)
    return f"{int(differ.sum())} of {len(local)} texts differ."
