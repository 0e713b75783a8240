"""Read and write the files and modules of a static model's folder.

| model | modules |
|---|---|
| a table | StaticEmbedding, Normalize |
| with a head | StaticEmbedding in a folder of its own, Dense, Dense, Normalize |
| a fused ensemble | StaticEmbedding in a folder of its own, SegmentNormalize, which is code |

The last Normalize is optional. Model2Vec reads tables in the model's own folder, and knows neither
heads nor segments: so a table that is not the whole model is where Model2Vec does not find it.

Other clients ask for files of their own, see docs/use_it_from.md: Model2Vec before 0.8, txtai,
transformers.js and text-embeddings-inference for config.json; transformers' AutoTokenizer,
transformers.js and fastembed for tokenizer_config.json. Beside a config.json, Model2Vec expects the
table to be called `embeddings`, as its own are; so does sentence-transformers from 3.4.1 on. A
model with a head, or a fused ensemble, has these files for ONNX only: then they do not name a
Model2Vec model, and Model2Vec finds no table beside them. Users may have files of these names, too:
ours are recognised by their content.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from st_static.files import write_arrays, write_json
from st_static.foreign_files import check_regular, read_as, read_object
from st_static.model import records
from st_static.model.head import DenseLayer, Head
from st_static.model.table import stored_arrays
from st_static.model.tokenizer import PADDING_TOKEN, UNKNOWN_TOKEN
from st_static.tokens.foreign import check_tokenizer_file

MODULES_FILE = "modules.json"
CONFIG_FILE = "config_sentence_transformers.json"
TABLE_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
# The record of how the model was made, its card, and the fitted PCA to add words with.
RECORD_FILE = "st_static.json"
CARD_FILE = "README.md"
PCA_FILE = "sentence_pca.safetensors"
CLIENT_CONFIG = "config.json"
CLIENT_FILES = (CLIENT_CONFIG, "tokenizer_config.json")
ONNX_FOLDER = "onnx"
# The exact model, and one with its table in int8, under the names that transformers.js asks for.
ONNX_FILES = (f"{ONNX_FOLDER}/model.onnx", f"{ONNX_FOLDER}/model_quantized.onnx")
# The files by transformers.js' name of the table's format.
ONNX_FILE_OF_DTYPE = dict(zip(("fp32", "q8"), ONNX_FILES, strict=True))
# The older spelling of the modules' types: it loads in old and new sentence-transformers.
_BUILT_IN = "sentence_transformers.models"
_CODE_FILE = "segment_normalize.py"
# Not 0_StaticEmbedding, where Model2Vec would look.
TABLE_FOLDER = "word_table"
_DENSE_FOLDERS = ("1_Dense", "2_Dense")
_SEGMENTS_FOLDER = "1_SegmentNormalize"
# The files of a model in any form: of sentence-transformers' modules, and with ours.
BUILT_IN_FILES = (
    TABLE_FILE,
    TOKENIZER_FILE,
    MODULES_FILE,
    CONFIG_FILE,
    *(f"{TABLE_FOLDER}/{file}" for file in (TABLE_FILE, TOKENIZER_FILE)),
    *(f"{folder}/{file}" for folder in _DENSE_FOLDERS for file in ("config.json", TABLE_FILE)),
)
CODE_FILES = (_CODE_FILE, f"{_SEGMENTS_FOLDER}/config.json")
OWN_FILES = (*BUILT_IN_FILES, *CLIENT_FILES, *CODE_FILES, RECORD_FILE, PCA_FILE)
MODEL_FOLDERS = ("1_Normalize", _SEGMENTS_FOLDER, TABLE_FOLDER, *_DENSE_FOLDERS, "3_Normalize")
# The kinds of modules that a static model has, in order.
STATIC_FORMS = (
    ["StaticEmbedding"],
    ["StaticEmbedding", "Normalize"],
    ["StaticEmbedding", "SegmentNormalize"],
    ["StaticEmbedding", "Dense", "Dense"],
    ["StaticEmbedding", "Dense", "Dense", "Normalize"],
)
_FORMS_IN_WORDS = "StaticEmbedding, then Normalize, SegmentNormalize, or Dense, Dense and Normalize"
# The table's name in model.safetensors.
PLAIN_TABLE = "embeddings"
# text-embeddings-inference refuses longer texts, or cuts them with --auto-truncate.
_MAX_TOKENS_OF_A_SERVER = 8192
_TOKENIZER_FACTS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    # Otherwise transformers would read "[PAD]" in a text as the padding token.
    "split_special_tokens": True,
    "clean_up_tokenization_spaces": False,
    # fastembed and transformers.js cut longer texts; no text is this long.
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


class Segment(NamedTuple):
    """Neighbouring dimensions of a fused ensemble that are scaled separately."""

    width: int
    weight: float


class Modules(NamedTuple):
    """The modules of a static model, by what they do; `home` has the table and the tokenizer."""

    home: Path
    normalize: bool = True  # whether vectors are scaled to length 1 at the end
    segments: tuple[Segment, ...] = ()
    head: Head | None = None


def read_module_list(folder: Path) -> list[records.ModuleEntry]:
    """Read the list of a folder's modules, whose paths must not leave the folder."""
    file = folder / MODULES_FILE
    modules = read_as(file, list[records.ModuleEntry])
    for number, module in enumerate(modules):
        path = Path(module.path)
        if path.anchor or ".." in path.parts:
            raise ValueError(
                f"{file} names the folder {module.path!r} at `[{number}].path`, which is not "
                "inside the model's. Copy the model again."
            )
    return modules


def read_config(folder: Path) -> records.ModelConfig:
    """Read the configuration of a folder's model, if there is one."""
    file = folder / CONFIG_FILE
    return read_as(file, records.ModelConfig) if file.exists() else records.ModelConfig()


def check_for_others(model: str) -> None:
    """Check a model's files before another library loads it, whose errors do not name them; a
    ValueError if JSON has another shape, or a tokenizer makes texts too long. An id on the Hub is
    not checked."""
    folder = Path(model)
    folders = {folder}
    if (folder / MODULES_FILE).exists():
        folders |= {folder / module.path for module in read_module_list(folder)}
    for inner in filter(Path.is_dir, folders):
        for file in inner.iterdir():
            if file.exists() and not file.is_dir():
                check_regular(file)
        if (tokenizer := inner / TOKENIZER_FILE).exists():
            check_tokenizer_file(tokenizer)
        if (config := inner / "config.json").exists():
            read_object(config, dict)
    read_config(folder)


def read_modules(folder: Path) -> Modules:
    """Read a folder's modules; a ValueError if they are not those of a static model."""
    if not (folder / MODULES_FILE).exists():  # a model for Model2Vec only
        file = folder / CLIENT_CONFIG
        shape = records.Model2VecConfig
        config = read_as(file, shape) if file.exists() else shape()
        return Modules(folder, bool(config.normalize))
    modules = read_module_list(folder)
    kinds = [module.kind for module in modules]
    home, *others = (folder / module.path for module in modules) if modules else [folder]
    if kinds not in STATIC_FORMS:
        raise ValueError(
            f"{folder} is not a static model: expected the modules {_FORMS_IN_WORDS}, but it has "
            f"{', '.join(kinds)}."
        )
    segments: tuple[Segment, ...] = ()
    head = None
    if "SegmentNormalize" in kinds:
        file = others[0] / "config.json"
        scaling = read_as(file, records.SegmentsConfig)
        if len(scaling.widths) != len(scaling.weights):
            raise ValueError(
                f"{file} has {len(scaling.widths)} widths, but {len(scaling.weights)} weights. "
                "Expected one of each for every segment."
            )
        segments = tuple(map(Segment, scaling.widths, scaling.weights))
    if "Dense" in kinds:
        layers = [_read_dense(inner) for inner in others[:2]]
        try:
            head = Head.of_dense(layers)
        except ValueError as error:
            raise ValueError(f"The head in {others[0]} cannot be read: {error}") from error
    return Modules(home, kinds[-1] == "Normalize", segments, head)


def _read_dense(folder: Path) -> DenseLayer:
    file = folder / TABLE_FILE
    activation = read_as(folder / "config.json", records.DenseConfig).activation_function
    arrays = stored_arrays(file)
    weight = arrays.get("linear.weight")
    if weight is None or len(weight.shape) != 2:
        raise ValueError(f"Expected an array linear.weight with two axes in {file}.")
    if "linear.bias" in arrays and np.any(arrays["linear.bias"][:]):
        raise ValueError(f"The Dense layer in {file} has a bias, which no head has.")
    return DenseLayer(weight[:], activation)


def write_modules(
    folder: Path, normalize: bool, segments: Sequence[Segment], head: Head | None
) -> Path:
    """Write the list of modules and all files but the table's; return the table's folder."""
    if segments and head:
        raise ValueError("A model with segments cannot have a head: distil the ensemble.")
    # "." is the model's own folder. Before 5.0 an empty path means a transformer and does not load.
    home = TABLE_FOLDER if head or segments else "."
    modules = [(home, f"{_BUILT_IN}.StaticEmbedding")]
    (folder / home).mkdir(exist_ok=True)
    if segments:
        shutil.copyfile(Path(__file__).with_name(_CODE_FILE), folder / _CODE_FILE)
        (folder / _SEGMENTS_FOLDER).mkdir()
        widths, weights = zip(*segments, strict=True)
        scaling = records.SegmentsConfig(list(widths), list(weights))
        write_json(folder / _SEGMENTS_FOLDER / "config.json", scaling)
        modules.append((_SEGMENTS_FOLDER, "segment_normalize.SegmentNormalize"))
    for path, layer in zip(_DENSE_FOLDERS, head.as_dense() if head else (), strict=False):
        (folder / path).mkdir()
        outputs, inputs = layer.weight.shape
        config = records.DenseConfig(inputs, outputs, False, layer.activation)
        write_json(folder / path / "config.json", config)
        write_weights(folder / path / TABLE_FILE, {"linear.weight": layer.weight})
        modules.append((path, f"{_BUILT_IN}.Dense"))
    if normalize and not segments:
        path = f"{len(modules)}_Normalize"
        (folder / path).mkdir()
        modules.append((path, f"{_BUILT_IN}.Normalize"))
    entries = [
        records.ModuleEntry(idx=i, name=str(i), path=path, type=kind)
        for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / MODULES_FILE, entries)
    return folder / home


def write_weights(path: Path, weights: dict[str, Any]) -> None:
    """Write a module's arrays as safetensors in PyTorch's format."""
    write_arrays(path, weights, {"format": "pt"})


# -- the files of other clients --------------------------------------------------------


def write_client_files(
    folder: Path, tokenizer: Tokenizer, dimension: int, normalize: bool | None
) -> None:
    """Write config.json and tokenizer_config.json, unless they exist; `normalize` is None if only
    clients of ONNX files can use the model, as the table is not the whole."""
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
    present = {name: token for name, token in special if tokenizer.token_to_id(token) is not None}
    for name, content in zip(CLIENT_FILES, (config, present | _TOKENIZER_FACTS), strict=True):
        if not (folder / name).exists():
            write_json(folder / name, content)


def is_ours(file: Path) -> bool:
    """Tell whether st_static wrote one of these files; its values may have been changed."""
    if file.suffix == ".onnx":
        if not file.is_file():
            return False
        with file.open("rb") as stream:  # which begins with its version and its producer
            return bytes([len(ONNX_PRODUCER), *ONNX_PRODUCER.encode()]) in stream.read(64)
    try:
        content = read_object(file, dict)
    except (OSError, ValueError):
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
        try:
            kind = read_object(file, dict).get("model_type")
        except (OSError, ValueError):
            yield f"{file.name} is not JSON, as clients expect it"
            continue
        if file.name == CLIENT_CONFIG and str(kind) not in _KEYS:
            types = " or ".join(_KEYS)
            yield f"{file.name} has the model_type {kind!r}, but the model is one of {types}"
