"""Publish a model's folder on the Hugging Face Hub."""

from __future__ import annotations

import json
import logging
import os
import string
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from huggingface_hub import get_token
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.cards import load_alone
from st_static.cards.check_folder import check_folder
from st_static.cards.repository import LOGIN, MAIN, Repository
from st_static.files import temporary_folder
from st_static.hub import check_repo_id
from st_static.model.model_folder import ModelFile, ModelFolder
from st_static.model.modules import TOKENIZER_FILE

logger = logging.getLogger(__name__)

# Texts to compare vectors of, with tokens from all over the vocabulary.
_SENTENCES = [
    "Read rows from a file.",
    "Parse a CSV file, and count the lines!",
    "It rains today; tomorrow it won't.",
    "Wörter, die ein Modell nicht kennt: 数えきれない 😀",
    "",
]
_N_TOKENS = 256


@dataclass(frozen=True)
class Published:
    """A published model or page, or a dry run, which has neither address nor commit."""

    repo_id: str
    files: list[ModelFile]
    url: str | None = None  # of the repository, or of the pull request
    commit: str | None = None  # the one that holds the files
    is_new: bool = False  # whether it was made now; otherwise the files were there already
    tag: str | None = None


def publish(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    allow_remote_code: bool = False,
) -> Published:
    """Upload a model, if its folder is fit, to ORG/NAME in one commit, and check that others can
    load it: its files, and its vectors in a new process with sentence-transformers alone; then tag
    it. ValueError if something does not fit, OSError if the Hub refuses."""
    model = ModelFolder.local(folder)
    check_repo_id(repo_id)
    if create_pr and (tag or revision not in (None, MAIN)):
        raise ValueError(
            "A pull request is made to main, and has no tag. Leave out --revision and --tag, and "
            "tag the commit when it has been merged."
        )
    check_folder(model, repo_id, allow_remote_code=allow_remote_code)
    token = None if dry_run else find_token()
    logger.info("Loading %s with sentence-transformers alone", model.path)
    texts, path = texts_to_compare(model), str(model.path.absolute())
    vectors = load_fresh(path, texts, trust_remote_code=allow_remote_code)
    if dry_run:
        return Published(repo_id, model.files)
    logger.info("Uploading %d files to %s", len(model.files), repo_id)
    repository, message = Repository(repo_id, token), f"Upload {model.name}"
    branch = revision or MAIN
    done = repository.upload(
        model.path, message, private=private, branch=branch, create_pr=create_pr, tag=tag
    )
    logger.info("Downloading %s at %s, and comparing it", repo_id, done.commit[:12])
    try:
        with temporary_folder() as cache:
            files = [file.path for file in model.files]
            repository.check_published(model.path, files, done.commit, cache)
            downloaded = load_fresh(
                *(repo_id, texts),
                revision=done.commit,
                token=token,
                trust_remote_code=allow_remote_code,
                cache_folder=cache,
            )
        check_equal(vectors, downloaded, repo_id)
    except ValueError as error:
        raise ValueError(
            f"{error} The files were uploaded, but do not rely on them. Publish again to check "
            "them once more; if that does not help, look at what else is in the repository."
        ) from error
    if tag:
        repository.tag(tag, done.commit)
    return Published(repo_id, model.files, *done, tag)


def find_token() -> str:
    """Find the token, and check that it can be sent; messages do not repeat it."""
    token = get_token()
    if not token:
        raise ValueError(f"Publishing needs a token of the Hugging Face Hub. {LOGIN}")
    # Libraries would repeat a header that cannot be sent in their messages.
    if set(token) - set(string.ascii_letters + string.digits + string.punctuation):
        raise ValueError(
            f"The token holds white space or letters beyond a-z, which no token has. {LOGIN}"
        )
    return token


def texts_to_compare(folder: ModelFolder) -> list[str]:
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
    *,
    revision: str | None = None,
    token: str | None = None,
    trust_remote_code: bool = False,
    cache_folder: Path | None = None,
) -> NDArray[np.floating]:
    """Encode texts [B] into vectors [B, D] in a new process without st_static and caches."""
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
        # As in float32, whose steps grow with a vector's length.
        finite = np.where(np.isfinite(local), np.abs(local), 0)
        within = 1e-6 * finite.max(axis=1, keepdims=True, initial=1)
        same = np.isclose(local, published, rtol=0, atol=within, equal_nan=True).all(axis=1)
        if same.all():
            return
        difference = f"{int((~same).sum())} of {len(local)} texts differ."
    raise ValueError(f"{repo_id} gives other vectors than the folder here: {difference}")
