"""Open a static model's folder of any origin: in bounded memory, and without running code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from msgspec import Raw, Struct, to_builtins
from tokenizers import Tokenizer

from st_static.arguments import as_path, check_model_name
from st_static.files import hash_files
from st_static.foreign_files import MOST_BYTES, check_regular, read_as, read_object
from st_static.hub import downloading, packaged, require_model, tell_hidden
from st_static.languages import languages_of_record
from st_static.model import modules as layout
from st_static.model.card_file import header_of, read_card, training_of
from st_static.model.modules import Modules
from st_static.model.records import (
    Made,
    ModelConfig,
    PartialRecord,
    Record,
    license_of_recipe,
)
from st_static.model.replacement import steady
from st_static.model.static_model import StatedFacts, StaticModel
from st_static.model.table import StoredArray, TableForm, read_table, stored_arrays
from st_static.model.tokenizer import unknown_id
from st_static.threads import made_once
from st_static.tokens.foreign import check_tokenizer_file, without_sampling
from st_static.tokens.panics import TellingPanics, named

STATING_FILES = (layout.RECORD_FILE, layout.CARD_FILE)
"""The files that state a model's licence and languages."""

_DOWNLOADED = ("*.json", "*.safetensors", "README.md")
# A tokenizer.json has a few dozen bytes per token, and less than a megabyte besides.
_BYTES_OF_A_TOKEN = 1_000
_LANGUAGE = re.compile("([a-z]{2,3}|code|multilingual)([-_].*)?")


class _Vocabulary(Struct):
    vocab: dict[str, int] | list[Raw]  # ids by token; a Unigram model has them in order
    unk_token: str | None = None
    unk_id: int | None = None
    byte_fallback: bool | None = None


class _TokenizerFile(Struct):
    model: _Vocabulary


class ModelFile(NamedTuple):
    """A file of a folder: its path inside, with slashes, and its size in bytes."""

    path: str
    size: int


class ModelFolder:
    """A folder with a static model. Each file is read when first needed; a ValueError if it is not
    as expected. A download is named by its id on the Hub."""

    def __init__(self, path: str | Path, hub_id: str | None = None) -> None:
        self.path, self.hub_id = Path(path), hub_id
        self.name = hub_id or self.path.resolve().name
        self._shown = hub_id or str(path)

    @classmethod
    def local(cls, path: str | Path) -> ModelFolder:
        """Open an existing folder that the user names; a ValueError if there is none."""
        path = as_path(path, "the model's folder")
        if packaged(path):
            raise ValueError(
                f"{path} comes inside the package st_static. Write it into a folder of yours "
                f"first: st-static export {path} --output DIR."
            )
        if not path.is_dir():
            raise ValueError(f"There is no folder {path}. Build a model first: st-static build.")
        return cls(path)

    @classmethod
    def of(
        cls,
        model: str | Path,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_folder: str | Path | None = None,
        wanted: Sequence[str] = _DOWNLOADED,
    ) -> ModelFolder:
        """Open a folder, or download a model's files; for arguments see `read_static_model`."""
        check_model_name(model)
        if Path(model).is_dir():
            tell_hidden(model)
            return cls(model)
        if in_package := packaged(model, revision):
            opened = cls(in_package)
            opened.name = str(model)
            return opened
        from huggingface_hub import snapshot_download

        copy = require_model(str(model), revision, token, cache_folder)
        with downloading("model", str(model), revision):
            folder = snapshot_download(
                str(model),
                revision=revision,
                token=token,
                cache_dir=cache_folder,
                allow_patterns=list(wanted),
                local_files_only=copy is not None,
            )
        return cls(folder, str(model))

    # -- the files ---------------------------------------------------------------------

    @made_once
    def files(self) -> list[ModelFile]:
        """All files, including those of subfolders, by path; a ValueError if one is not regular."""
        files = sorted(path for path in self.path.rglob("*") if not path.is_dir())
        return [ModelFile(f.relative_to(self.path).as_posix(), check_regular(f)) for f in files]

    @property
    def home(self) -> Path:
        """The folder of the table and its tokenizer: this one, if they are the whole model."""
        inner = self.path / layout.TABLE_FOLDER
        return inner if (inner / layout.TABLE_FILE).is_file() else self.path

    @property
    def record_file(self) -> Path:
        """The record of how the model was made, if it is there."""
        return self.path / layout.RECORD_FILE

    def is_own(self, name: str) -> bool:
        """Tell whether a file is part of the model; clients' copies do not count."""
        is_copy = self.home != self.path and name in (layout.TOKENIZER_FILE, *layout.CLIENT_FILES)
        return name.partition("/")[0] in (*layout.OWN_FILES, *layout.MODEL_FOLDERS) and not is_copy

    @property
    def own_files(self) -> list[Path]:
        """The files of the model, without its card, those for ONNX and those of the user."""
        names = filter(self.is_own, layout.OWN_FILES)
        return [self.path / name for name in names if (self.path / name).is_file()]

    @made_once
    def fingerprint(self) -> str:
        """A hash of weights, tokenizer and record: all that a card describes."""
        described = (layout.TABLE_FILE, layout.TOKENIZER_FILE, layout.RECORD_FILE)
        return hash_files([file for file in self.own_files if file.name in described])

    # -- what they say -----------------------------------------------------------------

    @made_once
    def modules(self) -> Modules:
        """The modules, which process the mean; a ValueError if it is not a static model."""
        return layout.read_modules(self.path)

    @made_once
    def config(self) -> ModelConfig:
        """The model's prompts, similarity and dimensions, if it states any."""
        return layout.read_config(self.path)

    @made_once
    def arrays(self) -> dict[str, StoredArray]:
        """The arrays in the table's file, by name; see `stored_arrays`."""
        return stored_arrays(self.home / layout.TABLE_FILE)

    @property
    def dimension(self) -> int | None:
        """The dimension of the model's table; None if it cannot be read."""
        try:
            shapes = [array.shape for array in self.arrays.values()]
        except (OSError, ValueError):
            return None
        tables = [shape for shape in shapes if len(shape) == 2]
        return tables[0][1] if len(tables) == 1 else None

    @made_once
    def record(self) -> dict[str, Any]:
        """The stated part of the record of how the model was made; empty without one. What
        sentence-transformers saves after a training has it in its card."""
        if self.record_file.exists():
            return read_object(self.record_file, PartialRecord)
        training = training_of(self.header)
        return {"fine_tuning": to_builtins(training)} if training else {}

    def whole_record(self) -> dict[str, Any]:
        """Read all of the record that a card needs; a ValueError if it is not of st_static."""
        file = self.record_file
        if not file.exists():
            if self.record:
                return self.record
            raise ValueError(
                f"{self.path} is not a model that st_static built: there is no {file.name}, and no "
                "card that sentence-transformers wrote after a training."
            )
        record = read_object(file, Record)
        if not any(map(record.get, get_args(Made))):
            raise ValueError(
                f"{file} names no recipe, ensemble, training or file of text vectors that the "
                "model was made from. Write its card by hand."
            )
        return record

    @property
    def card(self) -> str:
        """The text of the card; empty without one."""
        file = self.path / layout.CARD_FILE
        return read_card(file) if file.is_file() else ""

    @property
    def header(self) -> dict[str, Any]:
        """The YAML of the card; empty if it has none or is broken."""
        try:
            return header_of(self.card) or {}
        except (OSError, ValueError):
            return {}

    def stated(self) -> StatedFacts:
        """Find the licence and languages in the card or the record; broken files state nothing."""
        header = self.header
        try:
            record = self.record if self.record_file.exists() else {}
        except (OSError, ValueError):
            record = {}
        recipe = record.get("recipe")
        made = record.get("conversion") or record.get("fine_tuning") or {}
        license_id = header.get("license")
        if not isinstance(license_id, str) or license_id == "unknown":
            license_id = license_of_recipe(recipe or {}) or made.get("license")
        languages = languages_of_record(record)
        if not languages:
            stated = header.get("language")
            stated = stated if isinstance(stated, list) else [stated]
            # YAML reads the tag of Norwegian as false.
            tags = ["no" if tag is False else str(tag).lower() for tag in stated]
            bases = [match[1] for tag in tags if (match := _LANGUAGE.fullmatch(tag))]
            languages = list(dict.fromkeys(bases))
        return StatedFacts(license_id, tuple(languages), recipe is not None)

    # -- the model ---------------------------------------------------------------------

    @property
    def tokenizer_file(self) -> Path:
        """The tokenizer's file, without which it is not a static model."""
        file = self.modules.home / layout.TOKENIZER_FILE
        if not file.exists():
            raise ValueError(f"{self._shown} is not a static model: there is no {file}.")
        return file

    @made_once
    def model(self) -> StaticModel:
        """The model, cached; for the errors see `read`."""
        return self.read()

    def read(self, mmap: bool = False, form: TableForm = "restored") -> StaticModel:
        """Read the model; for the arguments and errors see `read_static_model`."""
        tokenizer_file, modules = self.tokenizer_file, self.modules
        file = modules.home / layout.TABLE_FILE
        if not file.exists():
            raise ValueError(
                f"Expected the table in {file}, which is not there. Tables in other formats are "
                "not read: they may run code."
            )
        table = read_table(file, mmap, form, [segment.width for segment in modules.segments])
        _check_vocabulary(tokenizer_file, len(table))
        tokenizer = named(read_tokenizer(tokenizer_file), self._shown)
        # The ids of added tokens may differ from those in the file.
        _check_ids(max(tokenizer.get_added_tokens_decoder(), default=-1), len(table))
        # Model2Vec leaves the unknown token out; sentence-transformers adds its row.
        is_model2vec = not (self.path / layout.MODULES_FILE).exists()
        if is_model2vec and (unknown := unknown_id(tokenizer)) is not None:
            table[unknown] = 0
        prompts = {name: prompt or "" for name, prompt in (self.config.prompts or {}).items()}
        default, truncate_dim = self.config.default_prompt_name, self.config.truncate_dim
        if default and default not in prompts:
            raise ValueError(f"The model's default prompt {default!r} is not among its prompts.")
        return StaticModel(
            tokenizer,
            table,
            modules.normalize,
            prompt=prompts[default] if default else "",
            truncate_dim=truncate_dim if truncate_dim and truncate_dim < table.shape[-1] else None,
            segments=modules.segments,
            head=modules.head,
            name=self.name,
            prompts=prompts,
            similarity_fn_name=self.config.similarity_fn_name or "cosine",
            state=ModelFolder(self.path).stated,
        )


def read_static_model(
    model: str | Path,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_folder: str | Path | None = None,
    mmap: bool = False,
    form: TableForm = "restored",
) -> StaticModel:
    """Read a static model of sentence-transformers or Model2Vec: a folder, or an id on the Hub.
    For `mmap` and `form` see `read_table`. A ValueError if it is not a static model, its parts do
    not fit, or it cannot be mapped."""
    check_model_name(model)

    def read(model: str | Path) -> StaticModel:
        return ModelFolder.of(model, revision, token, cache_folder).read(mmap, form)

    return steady(read)(model)


def read_tokenizer(file: Path) -> Tokenizer:
    """Read a tokenizer, without padding and sampling; a ValueError if it is broken, or makes texts
    too long."""
    check_tokenizer_file(file)
    try:
        with TellingPanics(str(file)):
            tokenizer = without_sampling(Tokenizer.from_file(str(file)))
    except Exception as error:  # tokenizers raises no subclass
        raise ValueError(f"{file} is not a tokenizer: {error}.") from error
    tokenizer.no_padding()
    truncation = tokenizer.truncation
    if truncation and 0 < truncation["max_length"] <= truncation["stride"]:
        raise ValueError(
            f"{file}: truncation.stride ({truncation['stride']}) must be less than "
            f"truncation.max_length ({truncation['max_length']})."
        )
    return tokenizer


def _check_vocabulary(file: Path, n_rows: int) -> None:
    """Check that every token has a row, and that unknown characters have a token."""
    # In the file: a tokenizer makes lists as long as its largest id, which could take all memory.
    model = read_as(file, _TokenizerFile, MOST_BYTES + _BYTES_OF_A_TOKEN * n_rows).model
    vocabulary = model.vocab
    if isinstance(vocabulary, dict):
        _check_ids(max(vocabulary.values(), default=-1), n_rows)
        unknown: str | None = model.unk_token
        has_token = unknown is None or unknown in vocabulary
    else:
        _check_ids(len(vocabulary) - 1, n_rows)
        has_token, unknown = model.unk_id is not None or bool(model.byte_fallback), "unk_id"
    if not has_token:
        raise ValueError(
            f"The tokenizer's unknown token {unknown!r} is not among the {len(vocabulary)} "
            f"tokens of its model (the table has {n_rows} rows). Add it to tokenizer.json."
        )


def _check_ids(largest: int, n_rows: int) -> None:
    if largest >= n_rows:
        raise ValueError(
            f"The tokenizer has ids up to {largest}, for {largest + 1} rows, but the table has "
            f"{n_rows} rows. Tokenizer and table are not of the same model."
        )
