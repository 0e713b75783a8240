"""Models to evaluate, by name: ours, other static ones, transformers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from st_static.evaluate.evaluated_model import EvaluatedModel, local_name, revision_of
from st_static.evaluate.peers.registry import PEERS, require_peer
from st_static.hub import downloading, require_model, whole_path
from st_static.model.model_name import ModelName, require_modules
from st_static.model.modules import check_for_others
from st_static.tokens.panics import TellingPanics

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_KINDS = ", ".join(f"{kind}:…" for kind in PEERS)


def require_named(spec: str) -> None:
    """Make sure that a model to evaluate can be had, without loading it or torch.

    Args:
        spec: As for `load_model`.

    Raises:
        ValueError: There is no such model.
    """
    name = _parse(spec)
    if name.kind in PEERS:
        require_peer(name)
    else:
        name.require()
        require_modules(name.folder_or_id())


def _parse(spec: str) -> ModelName:
    name = ModelName.parse(spec)
    if name.kind not in PEERS and not name.is_folder_or_id:
        raise ValueError(
            f"{spec!r} is not a folder. Expected a folder, a Hub id, or a peer: {_KINDS}."
        )
    return name


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
    name = _parse(spec)
    if name.kind in PEERS:
        return PEERS[name.kind](name.rest)
    place = name.folder_or_id()
    with downloading("model", place, revision), TellingPanics(place):
        return _load_sentence_transformer(place, trust_remote_code, revision)


def _load_sentence_transformer(
    name: str, trust_remote_code: bool, revision: str | None
) -> EvaluatedModel:
    copy = require_model(name, revision)
    require_modules(name)
    check_for_others(name)
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(
            whole_path(name),
            trust_remote_code=trust_remote_code,
            revision=revision,
            local_files_only=copy is not None,
        )
    except Exception as error:  # of the libraries, for what is wrong with files
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{name!r} brings code of its own. If you trust it, give --trust_remote_code "
                "(in Python: trust_remote_code=True)."
            ) from error
        raise ValueError(
            f"{name!r} cannot be loaded ({error}). Expected a folder, a Hub id, or a peer: "
            f"{_KINDS}."
        ) from error
    return as_evaluated(model, name, revision)


def as_evaluated(
    model: SentenceTransformer, name: str, revision: str | None = None
) -> EvaluatedModel:
    """A loaded SentenceTransformer as a model to evaluate.

    Args:
        model: The model.
        name: Its folder or Hub id.
        revision: Branch, tag or commit of that id.
    """
    encode = functools.partial(model.encode, batch_size=1024)
    dimension = int(model.get_embedding_dimension() or 0)
    return EvaluatedModel(local_name(name), revision_of(name, revision), encode, dimension, model)
