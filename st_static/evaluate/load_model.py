"""Models to evaluate, by name: ours, other static ones, transformers."""

from __future__ import annotations

import functools
from pathlib import Path

from st_static.evaluate.evaluated_model import EvaluatedModel, local_name, revision_of
from st_static.evaluate.peers.registry import PEERS
from st_static.hub_access import require_model, whole_path

_KINDS = ", ".join(f"{kind}:…" for kind in PEERS)


def load_model(
    spec: str, trust_remote_code: bool = False, revision: str | None = None
) -> EvaluatedModel:
    """Load a model to evaluate.

    Args:
        spec: A folder or Hub id of a SentenceTransformer, also as `sentence-transformers:ID`; or a
            peer, `KIND:…`, see `st_static.evaluate.peers.registry`.
        trust_remote_code: Run code that a SentenceTransformer's repository brings.
        revision: Branch, tag or commit of a SentenceTransformer on the Hub.

    Raises:
        ValueError: There is no such model, or its package is not installed.
    """
    kind, separator, name = spec.partition(":")
    if separator and kind in PEERS:
        return PEERS[kind](name)
    if separator and kind == "sentence-transformers":
        spec = name
    return _load_sentence_transformer(spec, trust_remote_code, revision)


def _load_sentence_transformer(
    name: str, trust_remote_code: bool, revision: str | None
) -> EvaluatedModel:
    from st_static.distill.sources import locate

    path = locate(name)
    if ":" in path and not Path(path).exists():
        raise ValueError(
            f"{name!r} is not a folder. Expected a folder, a Hub id, or a peer: {_KINDS}."
        )
    copy = require_model(path, revision)
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(
            whole_path(path),
            trust_remote_code=trust_remote_code,
            revision=revision,
            local_files_only=copy is not None,
        )
    # RuntimeError: weights of a kind that sentence-transformers cannot use, such as int8.
    except (OSError, ValueError, RuntimeError) as error:
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{name!r} brings code of its own. If you trust it, pass trust_remote_code=True, "
                "on the command line --trust_remote_code."
            ) from error
        raise ValueError(
            f"{name!r} cannot be loaded ({error}). Expected a folder, a Hub id, or a peer: "
            f"{_KINDS}."
        ) from error
    encode = functools.partial(model.encode, batch_size=1024)
    dimension = int(model.get_embedding_dimension() or 0)
    return EvaluatedModel(local_name(path), revision_of(path), encode, dimension, model)
