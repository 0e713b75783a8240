"""Files by which clients other than sentence-transformers know a model that is a word table.

| file | clients that ask for it |
|---|---|
| config.json | Model2Vec before 0.8, txtai, transformers.js, text-embeddings-inference |
| tokenizer_config.json | transformers' AutoTokenizer, transformers.js, fastembed |

Where config.json is, Model2Vec wants the table to be called `embeddings`, as its own are; so does
sentence-transformers from 3.4.1 on. These files say that the table is the model. One with a head,
or a fused ensemble, has no such files, but for ONNX: they name no model of Model2Vec then, which
finds no table beside them either. docs/use_it_from.md says what was tried.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from st_static.files import write_json

CLIENT_CONFIG = "config.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
CLIENT_FILES = (CLIENT_CONFIG, _TOKENIZER_CONFIG)
# The table's name in model.safetensors.
PLAIN_TABLE = "embeddings"
# text-embeddings-inference refuses longer texts, or cuts them with --auto-truncate.
_MAX_TOKENS_OF_A_SERVER = 8192
# fastembed and transformers.js cut texts at some length; no text is so long.
_NEVER_CUT = 1_000_000_000


def write_client_files(folder: Path, tokenizer: Tokenizer, dimension: int, normalize: bool) -> None:
    """Write what a folder needs beside a plain table, its tokenizer and its modules.

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
    for name, content in _contents(tokenizer, of_model2vec).items():
        write_json(folder / name, content)


def write_client_files_beside(folder: Path, tokenizer: Tokenizer, dimension: int) -> None:
    """Write what is missing for clients of ONNX files, where the table lies in another folder.

    Args:
        folder: The model's folder.
        tokenizer: The student's tokenizer.
        dimension: Of the vectors.
    """
    config = {"model_type": "st_static", "architectures": ["StaticModel"], "hidden_size": dimension}
    for name, content in _contents(tokenizer, config).items():
        if not (folder / name).exists():
            write_json(folder / name, content)


def _contents(tokenizer: Tokenizer, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Both files by name, with what all clients ask for."""
    # It loads pyarrow, which reading a model does not need.
    from st_static.tokens.tokenizer import PADDING_TOKEN, UNKNOWN_TOKEN

    special = {"pad_token": PADDING_TOKEN, "unk_token": UNKNOWN_TOKEN}
    ids = {name: tokenizer.token_to_id(token) for name, token in special.items()}
    known = {name: token for name, token in special.items() if ids[name] is not None}
    of_tokens = {
        "vocab_size": tokenizer.get_vocab_size(),
        "pad_token_id": ids["pad_token"] or 0,
        "max_position_embeddings": _MAX_TOKENS_OF_A_SERVER,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **known,
        # transformers would take "[PAD]" in a text for the padding itself.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": _NEVER_CUT,
    }
    return {CLIENT_CONFIG: config | of_tokens, _TOKENIZER_CONFIG: tokenizer_config}
