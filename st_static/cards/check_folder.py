"""Check a model's folder before it is published."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from st_static.cards.check_card import check_card, check_card_of_model, check_eval_results
from st_static.dependencies import DependencyError, add_on, needed_by
from st_static.foreign_files import read_as
from st_static.model.model_folder import ModelFile, ModelFolder
from st_static.model.modules import (
    BUILT_IN_FILES,
    CARD_FILE,
    CLIENT_CONFIG,
    CLIENT_FILES,
    CODE_FILES,
    CONFIG_FILE,
    MODULES_FILE,
    ONNX_FILES,
    PCA_FILE,
    PLAIN_TABLE,
    RECORD_FILE,
    TABLE_FILE,
    TOKENIZER_FILE,
    problems_of_client_files,
    read_module_list,
)
from st_static.model.records import Model2VecConfig, ModuleEntry
from st_static.model.static_model import StaticModel
from st_static.model.table import stored_arrays
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.panics import TellingPanics

# The paths that export and the card write.
_EXPECTED = re.compile(
    "|".join(
        [
            *map(re.escape, (CARD_FILE, *BUILT_IN_FILES, *CLIENT_FILES, RECORD_FILE, PCA_FILE)),
            *map(re.escape, ONNX_FILES),
            r"[13]_Normalize/[^/]+\.json",
            r"\.eval_results/[^/]+\.ya?ml",
            r"figures/([^/.][^/]*/)*[^/.][^/]*\.(svg|png)",
        ]
    )
)
# Further paths, if a repository may have its own modules and code.
_EXPECTED_OF_MODULES = re.compile(r"([^/.][^/]*/)*[^/.][^/]*\.(py|json|txt|model|safetensors)")
_BINARY = (".safetensors", ".onnx", ".png")
# The Hub's limit for downloads over HTTP, and its recommended limit of entries in a folder.
_MAX_BYTES = 50_000_000_000
# Ten times the tokenizers of the largest vocabularies.
_MAX_TEXT_BYTES = 1_000_000_000
_MAX_ENTRIES = 10_000
_BUILT_IN = "sentence_transformers."
_BEHIND_A_TABLE = {"Normalize", "SegmentNormalize", "Dense"}
# Patterns of secrets, from their providers' documentation.
_SECRETS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "a token of the Hugging Face Hub": rb"\b(?:hf|api_org)_[A-Za-z0-9]{30,}\b",
        "a token of GitHub": rb"\bgh[opsru]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{22,}\b",
        "a key of AWS": rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        "a key of Google": rb"\bAIza[A-Za-z0-9_-]{35}",
        "a key of OpenAI or Anthropic": rb"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}",
        "a token of Slack": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        "a private key": rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    }.items()
}
# Texts as users have them, and odder ones.
_ODD_TEXTS = [
    *("", " ", "\n", "\t \r\n", "\x00", "\x07", "\x85", "\xa0", "\u200b", "\u2028", "\ufeff"),
    *("\ufffd", "\ue000", "\U000e0001", "\U0010ffff", "e\u0301", "か\u3099", "a\u0323\u0302"),
    *("\u0301", "😀", "👩‍👩‍👧", "🇯🇵", "İstanbul", "Straße", "ﬁne ﷺ ½ Ⅷ", "ǅ Σ ς", "A\u00adB"),
    *("東京タワーへ行く。", "한국어 문장", "العربية", "हिन्दी में", "עברית", "ภาษาไทย"),
    *("Привет, мир!", "[PAD] [UNK] [CLS] [SEP] [MASK]", "<s> </s> <unk> <pad>", "##s ▁a Ġb"),
    *("don't can't I'm", "https://example.com/a?b=c&d=e#f", "someone@example.com", "C++ a_b a-b"),
    *("3.5% of $1,234.56", "é" * 500, "\u0301" * 200, "東" * 1_000, "😀" * 200, "\u200d" * 100),
    *("a b c d e f g h", "word " * 2_000, " " * 2_000, "\n" * 500, "." * 500, "?!" * 200),
    *("x" * 40, "x" * 40 + "y", "a" * 2_000, "ab" * 500, "a " * 500, "aA1-" * 100, "1" * 500),
    "\x00" * 100,
]


class UnfitFolderError(ValueError):
    """The folder is not fit to be published; the message lists all problems, one line each."""


def check_folder(
    folder: ModelFolder, repo_id: str | None = None, *, allow_remote_code: bool = False
) -> list[ModelFile]:
    """Check that a folder is fit for others, and its card loads `repo_id`; return its files."""
    files = folder.files
    most = {f: _MAX_BYTES if f.path.endswith(_BINARY) else _MAX_TEXT_BYTES for f in files}
    too_large = [
        f"{file.path} has {file.size:,} bytes, but such a file may have up to {most[file]:,}. Make "
        "it smaller: float16, or fewer words."
        for file in files
        if file.size > most[file]
    ]
    problems = [*_check_names(folder, allow_remote_code), *too_large]
    if not too_large:  # otherwise reading them would take long
        problems += [
            *_check_modules(folder, allow_remote_code),
            *_check_texts(folder),
            *check_card_of_model(folder, repo_id),
        ]
    if problems:
        heading = f"{folder.path} cannot be published as it is. Fix these problems:"
        raise UnfitFolderError("\n- ".join([heading, *problems]))
    return files


def is_written_here(path: str) -> bool:
    """Tell whether a path in a repository is one that st_static writes."""
    return path in CODE_FILES or _EXPECTED.fullmatch(path) is not None


def _check_names(folder: ModelFolder, allow_remote_code: bool) -> Iterator[str]:
    names = [file.path for file in folder.files]
    needed = {CARD_FILE, MODULES_FILE}
    if not allow_remote_code:
        home = folder.home.relative_to(folder.path)
        inside = [(home / name).as_posix() for name in (TABLE_FILE, TOKENIZER_FILE)]
        needed |= {CONFIG_FILE, *inside}
    for name in sorted(needed - set(names)):
        hint = " Write it with st-static card." if name == CARD_FILE else ""
        yield f"There is no {name}.{hint}"
    patterns = [_EXPECTED, *([_EXPECTED_OF_MODULES] if allow_remote_code else [])]
    for name in names:
        if any(pattern.fullmatch(name) for pattern in patterns):
            continue
        if name in CODE_FILES:
            yield f"{name} belongs to a module with code of its own: give --allow_remote_code."
        else:
            yield f"{name} is not part of a model. Move it elsewhere."
    for parent, n_files in Counter(name.rpartition("/")[0] for name in names).items():
        if n_files > _MAX_ENTRIES:
            location = parent or "The folder"
            yield f"{location} holds {n_files:,} files, but the Hub takes up to {_MAX_ENTRIES:,}."


def _check_modules(folder: ModelFolder, allow_remote_code: bool) -> Iterator[str]:
    """Find problems of the modules and their tables and, if these are whole, of the model."""
    names = {file.path for file in folder.files}
    needed = (folder.path / CONFIG_FILE, folder.home / TABLE_FILE, folder.home / TOKENIZER_FILE)
    is_whole = all(file.is_file() for file in needed)
    modules: list[ModuleEntry] = []
    try:
        modules = read_module_list(folder.path)
        if not modules:
            yield f"{MODULES_FILE} names no module."
    except FileNotFoundError:
        pass  # reported elsewhere
    except ValueError as error:
        yield str(error)
    for module in modules:
        if not (allow_remote_code or module.type.startswith(_BUILT_IN)):
            yield (
                f"{MODULES_FILE} names the module {module.type}, which is not in "
                "sentence-transformers: it would run code of yours on the machines of others. "
                "Export the model, or give --allow_remote_code if its users are to trust it."
            )
    for name in sorted(names):
        if not name.endswith(".safetensors"):
            continue
        try:
            for array in stored_arrays(folder.path / name).values():
                _ = array[:]  # which refuses numbers that are not finite
        except ValueError as error:
            is_whole = False
            yield str(error)
    kinds = [module.kind for module in modules]
    is_static = kinds[:1] == ["StaticEmbedding"] and _BEHIND_A_TABLE.issuperset(kinds[1:])
    try:
        if is_whole and is_static:
            yield from _check_model(folder)
            del folder.model  # it need not stay in memory
    except ValueError as error:
        yield str(error)


def _check_model(folder: ModelFolder) -> Iterator[str]:
    """Find where tokenizer, table, and the files of clients and for ONNX do not fit together."""
    model = folder.model
    yield from _check_tokens(model)
    broken = list(problems_of_client_files(folder.path))
    yield from (f"{problem}. Remove it, and export the model again." for problem in broken)
    is_plain, config = PLAIN_TABLE in folder.arrays, folder.path / CLIENT_CONFIG
    if folder.home != folder.path or broken:
        pass  # Model2Vec reads no table there
    elif not config.is_file():
        if is_plain:
            yield (
                f"There is no {CLIENT_CONFIG}, without which Model2Vec does not find a table "
                f"called {PLAIN_TABLE}. Export the model again."
            )
    elif not is_plain:
        yield (
            f"{CLIENT_CONFIG} makes Model2Vec look for a table called {PLAIN_TABLE}, but in "
            f"{TABLE_FILE} it has another name. Remove the file, or export the model again."
        )
    elif bool(read_as(config, Model2VecConfig).normalize) != model.normalize:
        yield (
            f"{CLIENT_CONFIG} and {MODULES_FILE} differ in whether vectors are scaled to length 1. "
            "Export the model again."
        )
    names = {file.path for file in folder.files}
    if names.isdisjoint(ONNX_FILES):
        return
    try:
        with needed_by("The check of ONNX files", "onnx"):
            outdated = add_on("onnx").outdated
    except DependencyError as error:
        yield str(error)
        return
    quantize = " --quantize int8" if ONNX_FILES[1] in names else ""
    for problem in outdated(folder):
        yield f"{problem}. Write it again: st-static export {folder.path} --onnx{quantize}."


def _check_tokens(model: StaticModel) -> Iterator[str]:
    """Find out whether a table lacks rows, or the tokenizer breaks down on a text, or has other
    tokens than FastEncoder."""
    tokenizer, shape = model.tokenizer, model.table.shape
    if shape[0] != (n_tokens := tokenizer.get_vocab_size()):
        yield (
            f"tokenizer.json has {n_tokens:,} tokens, but the table in {TABLE_FILE} has the shape "
            f"{tuple(shape)}; it should have a row for each. They are not of the same model."
        )
    expected: list[list[int]] = []
    for text in _ODD_TEXTS:
        try:
            with TellingPanics(tokenizer):
                expected.append(tokenizer.encode(text, add_special_tokens=False).ids)
        except Exception as error:  # tokenizers raises no subclass
            yield f"{TOKENIZER_FILE}: on the text {_shown(text)}: {error}"
            return
    fast = FastTokenizer(tokenizer)
    try:
        fast.prepare()  # else so few texts go to the tokenizer, which would be compared with itself
        ids_found = fast(_ODD_TEXTS)
    except Exception as error:
        yield f"{TOKENIZER_FILE}: FastEncoder breaks down: {error}"
        return
    rows = np.split(ids_found.values, ids_found.offsets[1:-1])
    for text, row, ids in zip(_ODD_TEXTS, rows, expected, strict=True):
        if row.tolist() != ids:
            yield f"{TOKENIZER_FILE}: {_shown(text)} has other tokens in FastEncoder. Report it."
            return


def _shown(text: str) -> str:
    return repr(text[:40]) + ("…" if len(text) > 40 else "")


def _check_texts(folder: ModelFolder) -> Iterator[str]:
    """Find problems of card and results, and lines with secrets, without repeating them."""
    for name in (file.path for file in folder.files):
        if name == CARD_FILE:
            try:
                yield from (f"{CARD_FILE}: {problem}" for problem in check_card(folder.card))
            except ValueError as error:
                yield str(error)
        file = folder.path / name
        if name.startswith(".eval_results/") and (problem := check_eval_results(file)):
            yield f"{name} is not a list of results as the Hub reads them: {problem}."
        if name.endswith(_BINARY):
            continue
        content = file.read_bytes()
        secrets = {
            (1 + content.count(b"\n", 0, match.start()), kind)
            for kind, pattern in _SECRETS.items()
            for match in pattern.finditer(content)
        }
        for line, kind in sorted(secrets):
            yield f"{name}: line {line} looks like {kind}. Remove it."
