"""Files by which clients other than sentence-transformers know a model that is a word table.

| file | clients that ask for it |
|---|---|
| config.json | Model2Vec before 0.8, txtai, transformers.js, text-embeddings-inference |
| tokenizer_config.json | transformers' AutoTokenizer, transformers.js, fastembed |

Where config.json is, Model2Vec wants the table to be called `embeddings`, as its own are; so does
sentence-transformers from 3.4.1 on. These files say that the table is the model. One with a head,
or a fused ensemble, has no such files, but for ONNX: they name no model of Model2Vec then, which
finds no table beside them either. docs/use_it_from.md says what was tried.

A user may have files of these names, too: ours are known by their content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from st_static.files import write_json
from st_static.foreign_files import read_object
from st_static.model.modules import TABLE_FILE
from st_static.model.table_file import stored_arrays

CLIENT_CONFIG = "config.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
CLIENT_FILES = (CLIENT_CONFIG, _TOKENIZER_CONFIG)
# The table's name in model.safetensors.
PLAIN_TABLE = "embeddings"
# text-embeddings-inference refuses longer texts, or cuts them with --auto-truncate.
_MAX_TOKENS_OF_A_SERVER = 8192
# fastembed and transformers.js cut texts at some length; no text is so long.
_NEVER_CUT = 1_000_000_000
_TOKENIZER_FACTS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    # transformers would take "[PAD]" in a text for the padding itself.
    "split_special_tokens": True,
    "clean_up_tokenization_spaces": False,
    "model_max_length": _NEVER_CUT,
}
_SPECIAL_TOKENS = ("pad_token", "unk_token")
# What our config.json tells, by its model_type.
_OF_TOKENS = {
    "model_type",
    "architectures",
    "vocab_size",
    "pad_token_id",
    "max_position_embeddings",
}
_KEYS = {
    "model2vec": _OF_TOKENS | {"normalize", "max_length", "hidden_dim"},
    "st_static": _OF_TOKENS | {"hidden_size"},
}


def is_our_client_file(file: Path) -> bool:
    """Whether st_static wrote a file, and nobody has changed it but for its values."""
    content = _read(file)
    if content is None:
        return False
    if file.name == CLIENT_CONFIG:
        return content.keys() == _KEYS.get(str(content.get("model_type")))
    facts = {key: value for key, value in content.items() if key not in _SPECIAL_TOKENS}
    return facts == _TOKENIZER_FACTS


def problems_of_client_files(folder: Path) -> Iterator[str]:
    """What keeps clients from reading the files that are there, whoever wrote them."""
    for file in (folder / name for name in CLIENT_FILES):
        if not file.is_file():
            continue
        content = _read(file)
        if content is None:
            yield f"{file.name} is not JSON, as clients expect it"
        elif file.name == CLIENT_CONFIG and str(content.get("model_type")) not in _KEYS:
            yield (
                f"{file.name} has the model_type {content.get('model_type')!r}, but the model is "
                f"one of {' or '.join(_KEYS)}"
            )


def _read(file: Path) -> dict[str, Any] | None:
    """What a file tells; None if it is no JSON object."""
    try:
        return read_object(file, dict)
    except (OSError, ValueError):
        return None


def is_plain_table(folder: Path) -> bool:
    """Whether a folder's table has the name that clients look for."""
    return PLAIN_TABLE in stored_arrays(folder / TABLE_FILE)


def write_client_files(folder: Path, tokenizer: Tokenizer, dimension: int, normalize: bool) -> None:
    """Write what is missing beside a plain table, its tokenizer and its modules.

    Args:
        folder: The model's folder.
        tokenizer: The student's tokenizer.
        dimension: Of the vectors.
        normalize: Whether they are scaled to length 1.
    """
    of_model2vec = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "normalize": normalize,
        "max_length": None,  # in Model2Vec, which cuts at 512 tokens if it is left out
        "hidden_dim": dimension,
    }
    _write_missing(folder, tokenizer, of_model2vec)


def write_client_files_for_onnx(folder: Path, tokenizer: Tokenizer, dimension: int) -> None:
    """Write what is missing for clients of ONNX files, where the table is not all of the model.

    Args:
        folder: The model's folder.
        tokenizer: The student's tokenizer.
        dimension: Of the vectors.
    """
    config = {"model_type": "st_static", "architectures": ["StaticModel"], "hidden_size": dimension}
    _write_missing(folder, tokenizer, config)


def _write_missing(folder: Path, tokenizer: Tokenizer, config: dict[str, Any]) -> None:
    for name, content in _contents(tokenizer, config).items():
        if not (folder / name).exists():
            write_json(folder / name, content)


def _contents(tokenizer: Tokenizer, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Both files by name, with what all clients ask for."""
    # It loads pyarrow, which reading a model does not need.
    from st_static.model.tokenizer import PADDING_TOKEN, UNKNOWN_TOKEN

    special = dict(zip(_SPECIAL_TOKENS, (PADDING_TOKEN, UNKNOWN_TOKEN), strict=True))
    ids = {name: tokenizer.token_to_id(token) for name, token in special.items()}
    known = {name: token for name, token in special.items() if ids[name] is not None}
    of_tokens = {
        "vocab_size": tokenizer.get_vocab_size(),
        "pad_token_id": ids["pad_token"] or 0,
        "max_position_embeddings": _MAX_TOKENS_OF_A_SERVER,
    }
    return {CLIENT_CONFIG: config | of_tokens, _TOKENIZER_CONFIG: known | _TOKENIZER_FACTS}
