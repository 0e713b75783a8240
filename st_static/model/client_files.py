"""Write the files that clients other than sentence-transformers need.

| file | clients that ask for it |
|---|---|
| config.json | Model2Vec before 0.8, txtai, transformers.js, text-embeddings-inference |
| tokenizer_config.json | transformers' AutoTokenizer, transformers.js, fastembed |
| onnx/model.onnx, onnx/model_quantized.onnx | whatever runs ONNX files |

Beside a config.json, Model2Vec expects the table to be called `embeddings`, as its own are; so does
sentence-transformers from 3.4.1 on. The JSON files say that the table is the model. A model with a
head, or a fused ensemble, has them for ONNX only: then they do not name a Model2Vec model, and
Model2Vec finds no table beside them. docs/use_it_from.md says what was tried.

Users may have files of these names, too: ours are recognised by their content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from st_static.dependencies import needed_by, require_packages
from st_static.files import write_json
from st_static.foreign_files import read_object
from st_static.model.modules import CLIENT_CONFIG, CLIENT_FILES, ONNX_FILES, ONNX_FOLDER
from st_static.model.tokenizer import PADDING_TOKEN, UNKNOWN_TOKEN

# The table's name in model.safetensors.
PLAIN_TABLE = "embeddings"
# text-embeddings-inference refuses longer texts, or cuts them with --auto-truncate.
_MAX_TOKENS_OF_A_SERVER = 8192
_TOKENIZER_FACTS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    # Otherwise transformers would read "[PAD]" in a text as the padding token.
    "split_special_tokens": True,
    "clean_up_tokenization_spaces": False,
    # fastembed and transformers.js cut longer texts; no text is so long.
    "model_max_length": 1_000_000_000,
}
_SPECIAL_TOKENS = {"pad_token": PADDING_TOKEN, "unk_token": UNKNOWN_TOKEN}
# The keys of our config.json, by its model_type.
_SHARED = {"model_type", "architectures", "vocab_size", "pad_token_id", "max_position_embeddings"}
_KEYS = {
    "model2vec": _SHARED | {"normalize", "max_length", "hidden_dim"},
    "st_static": _SHARED | {"hidden_size"},
}
ONNX_PRODUCER = "st_static"


def write_client_files(
    folder: Path, tokenizer: Tokenizer, dimension: int, normalize: bool | None
) -> None:
    """Write config.json and tokenizer_config.json, unless they exist.

    `normalize` is None if the table is not the whole model, so that only clients of ONNX files can
    use it.
    """
    config: dict[str, Any] = {"model_type": "st_static", "architectures": ["StaticModel"]}
    if normalize is None:
        config |= {"hidden_size": dimension}
    else:  # Model2Vec cuts texts at 512 tokens if max_length is left out.
        config |= {"model_type": "model2vec", "normalize": normalize, "max_length": None}
        config |= {"hidden_dim": dimension}
    config["vocab_size"] = tokenizer.get_vocab_size()
    config["pad_token_id"] = tokenizer.token_to_id(PADDING_TOKEN) or 0
    config["max_position_embeddings"] = _MAX_TOKENS_OF_A_SERVER
    special = _SPECIAL_TOKENS.items()
    known = {name: token for name, token in special if tokenizer.token_to_id(token) is not None}
    for name, content in zip(CLIENT_FILES, (config, known | _TOKENIZER_FACTS), strict=True):
        if not (folder / name).exists():
            write_json(folder / name, content)


def is_ours(file: Path) -> bool:
    """Tell whether st_static wrote one of these files; its values may have been changed."""
    if file.suffix == ".onnx":
        if not file.is_file():
            return False
        with file.open("rb") as stream:  # which begins with its version and its producer
            return bytes([len(ONNX_PRODUCER), *ONNX_PRODUCER.encode()]) in stream.read(64)
    content = _read(file)
    if content is None:
        return False
    if file.name == CLIENT_CONFIG:
        return content.keys() == _KEYS.get(str(content.get("model_type")))
    facts = {key: value for key, value in content.items() if key not in _SPECIAL_TOKENS}
    return facts == _TOKENIZER_FACTS


def problems_of_client_files(folder: Path) -> Iterator[str]:
    """Say what keeps clients from reading the existing JSON files, whoever wrote them."""
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


def check_onnx(folder: Path, onnx: bool | Literal["int8"]) -> None:
    """Check that ONNX files can be written into a folder, which need not exist, if they are wanted.

    A ValueError if a package is missing, a file of the user is in the way, or `onnx` is invalid.
    """
    if onnx not in (True, False, "int8"):
        raise ValueError(f"Expected onnx to be true, false or int8, but got {onnx!r}.")
    if not onnx:
        return
    with needed_by("The option onnx", "onnx"):
        require_packages("onnx")
    for name in (ONNX_FOLDER, *ONNX_FILES[: 1 + (onnx == "int8")]):
        file = folder / name
        is_right = file.is_dir() if name == ONNX_FOLDER else is_ours(file)
        if os.path.lexists(file) and not is_right:
            raise ValueError(f"{file} was not written by st_static. Move it away.")


def _read(file: Path) -> dict[str, Any] | None:
    """Read a file's content; None if it is not a JSON object."""
    try:
        return read_object(file, dict)
    except (OSError, ValueError):
        return None
