"""The teacher: a SentenceTransformer with a fast tokenizer, tried on a few sentences before use."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from sentence_transformers.util import cos_sim, is_sentence_transformer_model
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PretrainedConfig

from st_static.distill.sources import require_teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.hub import downloading, whole_path
from st_static.languages import primary_of
from st_static.model.model_name import locate, no_model
from st_static.model.modules import check_for_others
from st_static.tokens.foreign import without_sampling
from st_static.tokens.panics import TellingPanics, named

_POOLINGS = ("mean", "cls", "lasttoken")
# Models whose own repositories need code that fails with transformers 5, and that others have put
# into a format of transformers itself.
_IN_NEW_FORMAT = ("gte-base-en-v1.5", "gte-large-en-v1.5", "gte-multilingual-base")
# This many of a dozen sentences must be nearest to their paraphrase. Three real teachers reach 11
# or 12 in the languages that they know; with random weights in all layers, at most 9.
_FEWEST_NEAREST = 10
# A pooling that tells paraphrases from other sentences this much better was the trained one.
_MUCH_BETTER = 1.5
_TOLERANCE = 0.01  # of a value in `expect`, as a part of the largest

Floats = NDArray[np.floating]


class TokenBatch(NamedTuple):
    """Sentences as the teacher's tokens, padded to the longest, [B, T]."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    starts: NDArray[np.int64]  # of each token's characters in its sentence; 0 for special tokens
    ends: NDArray[np.int64]
    is_text: NDArray[np.bool_]  # neither special, nor padding, nor of the prompt


class Teacher:
    """A SentenceTransformer that also gives token vectors; a ValueError says why a model cannot. By
    default, `prompt` is the model's own. A batch has `batch_tokens` tokens, padding included."""

    def __init__(
        self, model: SentenceTransformer, prompt: str | None = None, batch_tokens: int = 4096
    ) -> None:
        self.model = model.eval()
        self.loaded_by: TeacherConfig | None = None
        self.runs_on = model.device.type  # or, where other processes run it, what theirs is
        default = model.prompts.get(model.default_prompt_name or "") or ""
        self.prompt = default if prompt is None else prompt
        self.batch_tokens = batch_tokens
        first: Any = model[0] if len(model) else None
        if not isinstance(first, Transformer):
            raise ValueError(
                "Expected a teacher whose first module is a transformer, which reads words in "
                f"context, but it is {type(first).__name__}."
            )
        self.transformer: Transformer = first
        self.dense = _dense_layers_of(model)
        hugging_face: Any = self.transformer.tokenizer
        backend = getattr(hugging_face, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise ValueError(
                f"The teacher's tokenizer is a slow one ({type(hugging_face).__name__}). Save the "
                "teacher with a fast tokenizer (tokenizer.json), which tells word positions."
            )
        rows = self.transformer.model.get_input_embeddings().weight.shape[0]
        # A folder without tokenizer files loads with an almost empty one; padded tables are common.
        if not rows / 2 <= backend.get_vocab_size() <= rows:
            raise ValueError(
                f"The teacher's tokenizer has {backend.get_vocab_size()} tokens, but its "
                f"transformer {rows} token vectors: check the teacher's tokenizer.json."
            )
        self.pad_id = int(hugging_face.pad_token_id or 0)
        self.tokenizer = Tokenizer.from_str(without_sampling(backend).to_str())
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self._of_batches = Tokenizer.from_str(self.tokenizer.to_str())
        self._of_batches.enable_padding(pad_id=self.pad_id)
        if self.max_tokens is not None:
            self._of_batches.enable_truncation(self.max_tokens)

    @classmethod
    def load(
        cls,
        config: TeacherConfig,
        languages: Sequence[str] | None = None,
        workers_on: str | None = None,
    ) -> Teacher:
        """Load a teacher as a recipe describes it, and try it on paraphrases in the languages; an
        empty list is English, None leaves them out. It may be sent to other processes, which load
        the same weights; `workers_on` is the kind of their device, if only they run it."""
        local = config if workers_on is None else replace(config, device="cpu")
        with TellingPanics(config.model):
            teacher = cls(load_modules(local), config.prompt, config.batch_tokens)
            named(teacher.tokenizer, config.model)
            check_weights_are_there(teacher.transformer, config.model)
            _check_finite(teacher)
            _check_expected(teacher, config.expect or {})
            if config.expect is None and languages is not None:
                codes = set(map(primary_of, languages or ["en"]))
                for language, texts in paraphrases().items():
                    if language in codes:
                        _check_language(teacher, texts, language)
        device = torch.device(workers_on) if workers_on else teacher.model.device
        teacher.runs_on = device.type
        teacher.model.to(dtype=choose_dtype(config.dtype, device))
        _check_finite(teacher)
        name: Any = str(teacher.dtype).removeprefix("torch.")
        # A process with a GPU finds it; on a cluster, others see none.
        remote_device = None if workers_on == "cuda" else config.device
        teacher.loaded_by = replace(config, dtype=name, device=remote_device, expect=None)
        return teacher

    def __reduce__(self) -> Any:
        if self.loaded_by is None:
            raise TypeError("Only a teacher that Teacher.load gave can be sent to other processes.")
        return _load_again, (self.loaded_by, self.fingerprint())

    @property
    def dimension(self) -> int:
        """The dimension d of its sentence vectors, and of the word vectors taken from it."""
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def token_dimension(self) -> int:
        """The dimension h of its token vectors; d unless a Dense layer follows the pooling."""
        return int(self.transformer.get_embedding_dimension())

    @property
    def dtype(self) -> torch.dtype:
        """The number format that it runs in."""
        return next(self.model.parameters()).dtype

    def fingerprint(self) -> str:
        """Hash its weights, its modules' settings and its limit of tokens."""
        hasher = xxhash.xxh3_128(f"{self.model!r} {self.max_tokens}".encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            hasher.update(name.encode())
            hasher.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy())
        return str(hasher.hexdigest())

    @property
    def max_tokens(self) -> int | None:
        """Tokens beyond which it cuts a text, special tokens included."""
        limit = self.transformer.max_seq_length
        # Tokenizers without a limit say so with a huge number.
        return None if limit is None or limit > 1_000_000 else int(limit)

    def tokenize(self, sentences: list[str]) -> TokenBatch:
        """Turn sentences [B] into padded tokens with their character positions."""
        with TellingPanics(self.tokenizer):
            encodings = self._of_batches.encode_batch([self.prompt + s for s in sentences])
        starts, ends = np.moveaxis(np.array([e.offsets for e in encodings], dtype=np.int64), 2, 0)
        special = np.array([e.special_tokens_mask for e in encodings], dtype=np.bool_)
        prompt = len(self.prompt)
        return TokenBatch(
            input_ids=np.array([e.ids for e in encodings], dtype=np.int64),
            attention_mask=np.array([e.attention_mask for e in encodings], dtype=np.int64),
            starts=np.maximum(starts - prompt, 0),
            ends=np.maximum(ends - prompt, 0),
            is_text=~special & (ends > prompt),
        )

    @torch.inference_mode()
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Run on tokens [B, T]: vectors of the last layer, [B, T, h], and of sentences, [B, d]."""
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        features = {name: tensor.to(self.model.device) for name, tensor in features.items()}
        if self.prompt and not all(m.include_prompt for m in self.model if isinstance(m, Pooling)):
            prompt = self.tokenizer.encode(self.prompt)
            # The special tokens before it count as the prompt's, and the one behind it, such as
            # [SEP], does not, as in sentence-transformers.
            features["prompt_length"] = len(prompt) - int(prompt.special_tokens_mask[-1])
        features = self.transformer(features)
        tokens = features["token_embeddings"]
        for module in list(self.model)[1:]:
            features = module(features)
        return tokens, features["sentence_embedding"]

    def surroundings(self) -> tuple[list[int], list[int]]:
        """Token ids that stand before (prompt included) and after every sentence."""
        mark = self.tokenizer.encode(self.prompt + "a")
        inside = [i for i, special in enumerate(mark.special_tokens_mask) if not special]
        if self.prompt:
            inside = inside[-1:]
        return mark.ids[: inside[0]], mark.ids[inside[-1] + 1 :]

    def to_sentence_space(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply the Dense layers to mean token vectors, [n, h] -> [n, d]."""
        for dense in self.dense:
            weight = dense.linear.weight.detach().float().cpu().numpy()
            vectors = vectors @ weight.T
            if dense.linear.bias is not None:
                vectors = vectors + dense.linear.bias.detach().float().cpu().numpy()
        return vectors


def fingerprint_of(teachers: Sequence[Teacher]) -> str:
    """Join the hashes of several teachers."""
    return " ".join(teacher.fingerprint() for teacher in teachers)


@functools.lru_cache(maxsize=1)
def _load_again(config: TeacherConfig, fingerprint: str) -> Teacher:
    """Load a teacher that another process has loaded and tried, once in this process."""
    teacher = Teacher(load_modules(config), config.prompt, config.batch_tokens)
    teacher.model.to(dtype=choose_dtype(config.dtype, teacher.model.device))
    if teacher.fingerprint() != fingerprint:
        raise ValueError(
            f"The teacher {config.model!r} has other weights here than where the build was started."
        )
    return teacher


# Loading: a SentenceTransformer, or a transformer with a pooling.


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Choose the number format; `auto` is bfloat16 where the processor computes it fast."""
    if name == "auto":
        capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
        fast = capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")
        return torch.bfloat16 if fast or device.type == "cuda" else torch.float32
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def load_modules(config: TeacherConfig) -> SentenceTransformer:
    """Load a teacher's modules as a recipe describes them, in float32."""
    folder = locate(config.model)
    from_cache = require_teacher(config) is not None
    check_for_others(folder)
    origin: dict[str, Any] = {"revision": config.revision, "local_files_only": from_cache}
    source = origin | {"trust_remote_code": config.trust_remote_code}
    with downloading("model", config.model, config.revision):
        description = _description(config, folder, origin)
        is_whole = is_sentence_transformer_model(folder, **origin)
        if not is_whole and "model_type" not in description:
            raise no_model(config.model)
        if not is_whole and config.pooling is None:
            raise ValueError(
                f"The teacher {config.model!r} is not a SentenceTransformer, whose modules.json "
                "says how it pools: give --teacher.pooling mean (or cls, lasttoken), as its "
                "authors trained it; for a base model, take mean."
            )
        path, device = whole_path(folder), config.device
        # By default transformers computes in the format that the weights are stored in.
        kwargs: dict[str, Any] = {"model_kwargs": {"dtype": torch.float32}, "config_kwargs": {}}
        try:
            if is_whole:
                model = SentenceTransformer(path, device=device, **kwargs, **source)
            else:
                kwargs = {name: options | source for name, options in kwargs.items()}
                transformer = Transformer(path, processor_kwargs=source, **kwargs)
                size = int(transformer.get_embedding_dimension())
                modules = [transformer, Pooling(size, pooling_mode=config.pooling)]
                model = SentenceTransformer(modules=modules, device=device)
        except Exception as error:  # of the libraries, for files, packages or devices
            kind = "SentenceTransformer" if is_whole else "transformer"
            raise ValueError(
                f"The teacher {config.model!r} cannot be loaded as a {kind}: {error}"
            ) from error
    pooling = next((m.pooling_mode for m in model if isinstance(m, Pooling)), None)
    if config.pooling not in (None, pooling):
        raise ValueError(
            f"teacher.pooling is {config.pooling}, but the teacher {config.model!r} comes with "
            f"{pooling} in its own modules.json. Leave it out: --teacher.pooling null."
        )
    return model


def _description(config: TeacherConfig, folder: str, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Read a transformer's config.json; a SentenceTransformer may have it in another folder."""
    description: dict[str, Any]
    try:
        description, _ = PretrainedConfig.get_config_dict(folder, **origin)
    except OSError:
        return {}
    except Exception as error:  # of JSON that is no object
        raise ValueError(
            f"The config.json of the teacher {config.model!r} cannot be read: {error}."
        ) from error
    if description.get("model_type") == "new":
        name = (config.hub_id or config.model).rstrip("/").rpartition("/")[2].lower()
        is_known = name in _IN_NEW_FORMAT
        natives, option = [name] if is_known else _IN_NEW_FORMAT, "--teacher.model " * is_known
        instead = " or ".join(f"{option}alibaba-nlp-community/{native}" for native in natives)
        raise ValueError(
            f"The teacher {config.model!r} is in an old format (model_type 'new'), whose code "
            f"fails with transformers 5. Take one with model_type 'gte': {instead}."
        )
    return description


# Checks of a teacher's modules.


def check_weights_are_there(transformer: Transformer, name: str) -> None:
    """Check that all weights of a transformer, loaded as `name`, except those of its pooler came
    from its file: transformers takes random numbers for missing ones, and only tells its log."""
    model = transformer.auto_model
    parameters = list(model.named_parameters())
    # The mark that transformers leaves on what it has read; code of others may leave none.
    unread = [key for key, value in parameters if not getattr(value, "_is_hf_initialized", False)]
    missing = [key for key in unread if "pooler" not in key]
    leaves_marks = type(model).__module__.startswith("transformers.")
    if missing and (leaves_marks or len(unread) < len(parameters)):
        raise ValueError(
            f"{name!r} lacks {len(missing)} of its transformer's {len(parameters)} weights, the "
            f"first of which is {missing[0]}. Get the whole model."
        )


def _dense_layers_of(model: SentenceTransformer) -> list[Dense]:
    """Find the Dense layers after the pooling, which words must also go through."""
    dense: list[Dense] = []
    is_normalised = False
    for module in list(model)[1:]:
        is_normalised |= isinstance(module, Normalize)
        if isinstance(module, Dense):
            activation = type(module.activation_function).__name__
            faults = {
                "follows a Normalize module": is_normalised,
                f"has the activation {activation}": activation != "Identity",
                "has a residual path": getattr(module, "use_residual", False),
            }
            for fault in (fault for fault, is_there in faults.items() if is_there):
                raise ValueError(
                    f"The teacher's Dense layer {fault}: only a linear one, before any Normalize, "
                    "commutes with the mean over words. Use another teacher."
                )
            dense.append(module)
        elif isinstance(module, Pooling) and _pooling_of(module) is None:
            raise ValueError(
                f"The teacher pools by {module.pooling_mode!r}: expected mean, cls or lasttoken "
                "alone, so that words live in the space of sentences."
            )
        # Normalize changes lengths only; the student's sentence vectors are compared by cosine.
        elif not isinstance(module, (Pooling, Normalize, Dropout)):
            raise ValueError(
                f"The teacher's module {type(module).__name__} is not linear, so a mean over words "
                "cannot go through it. Expected Transformer, Pooling, Dense, Normalize."
            )
    return dense


def _pooling_of(module: Pooling) -> str | None:
    """Find the mode by which a module pools; None if it is another one, or several."""
    mode = module.pooling_mode
    modes = (mode,) if isinstance(mode, str) else tuple(mode)
    return modes[0] if len(modes) == 1 and modes[0] in _POOLINGS else None


# Checks of a teacher's vectors.


def paraphrases() -> dict[str, list[str]]:
    """Read a dozen sentences, paraphrases in pairs, for each language that has them."""
    text = resources.files("st_static.distill").joinpath("paraphrases.json").read_text("utf-8")
    sentences: dict[str, list[str]] = json.loads(text)
    return sentences


def _run(teacher: Teacher, texts: Sequence[str]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Compute token vectors [B, T, h], sentence vectors [B, d] and the mask of tokens [B, T]."""
    batch = teacher.tokenize(list(texts))
    mask = torch.from_numpy(batch.attention_mask)
    tokens, vectors = teacher.forward(torch.from_numpy(batch.input_ids), mask)
    return tokens.float().cpu().numpy(), vectors.float().cpu().numpy(), batch.attention_mask


def _check_finite(teacher: Teacher) -> None:
    """Check that the vectors of a dozen sentences are finite, in the teacher's number format."""
    texts = paraphrases()["en"]
    _, vectors, _ = _run(teacher, texts)
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        remedy = ": get the model again"
        if teacher.dtype != torch.float32:
            dtype = str(teacher.dtype).removeprefix("torch.")
            remedy = f", or too large for {dtype}: give --teacher.dtype float32"
        raise ValueError(
            f"The teacher's vectors of {len(broken)} of {len(texts)} sentences, such as "
            f"{texts[broken[0]]!r}, are not finite. Its weights are broken{remedy}."
        )


def _check_expected(teacher: Teacher, expect: Mapping[str, list[Any]]) -> None:
    """Compare the vectors of texts, or of their tokens, with the first numbers of expected ones."""
    for text, values in expect.items():
        tokens, vectors, _ = _run(teacher, [text])
        of_tokens = any(isinstance(row, list) for row in values)
        actual = tokens[0] if of_tokens else vectors
        rows = values if of_tokens else [values]
        if len(rows) > len(actual) or max(len(row or []) for row in rows) > actual.shape[1]:
            raise ValueError(
                f"teacher.expect has more numbers for {text!r} than the teacher gives: "
                f"{len(actual)} tokens of {actual.shape[1]} dimensions."
            )
        for i, row in enumerate(rows):
            expected = np.array(row or [], dtype=float)  # null becomes NaN
            is_given, computed = ~np.isnan(expected), actual[i][: len(expected)]
            tolerance = _TOLERANCE * np.abs(expected[is_given]).max(initial=0)
            if not np.allclose(computed[is_given], expected[is_given], rtol=0, atol=tolerance):
                should, does = (
                    ", ".join("null" if np.isnan(v) else f"{v:.4f}" for v in numbers)
                    for numbers in (expected, computed)
                )
                what = f"token {i} of {text!r}" if of_tokens else repr(text)
                raise ValueError(
                    "The teacher is not the one that the recipe is for, or is broken: the vector "
                    f"of {what} should begin with [{should}], but it begins with [{does}]. Check "
                    "teacher.model and teacher.pooling, or give --teacher.expect null."
                )


def _check_language(teacher: Teacher, texts: Sequence[str], language: str) -> None:
    """Check that paraphrases are near to each other, and under no other pooling much nearer."""
    tokens, vectors, mask = _run(teacher, texts)
    cosines = cos_sim(vectors, vectors).numpy()
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    apart = np.flatnonzero(nearest != np.arange(len(texts)) ^ 1)
    if len(texts) - len(apart) < _FEWEST_NEAREST:
        first = apart[0]
        raise ValueError(
            f"The teacher does not seem to understand {language!r}: of {len(texts)} sentences it "
            f"puts only {len(texts) - len(apart)} next to their paraphrases. {texts[first]!r} is "
            f"nearer to {texts[nearest[first]]!r} ({cosines[first, nearest[first]]:.2f}) than to "
            f"{texts[first ^ 1]!r} ({cosines[first, first ^ 1]:.2f}). Check its languages and its "
            "weights; if it is for another kind of text, give --teacher.expect '{}'."
        )
    pooling = next((_pooling_of(m) for m in teacher.model if isinstance(m, Pooling)), None)
    if pooling is None:
        return
    inputs = torch.from_numpy(teacher.to_sentence_space(tokens))
    features = {"token_embeddings": inputs, "attention_mask": torch.from_numpy(mask)}
    separations = {
        mode: _separation(
            Pooling(inputs.shape[2], mode)(dict(features))["sentence_embedding"].numpy()
        )
        for mode in _POOLINGS
    }
    separations[pooling] = _separation(vectors)  # the teacher's may leave out the prompt
    best = max(separations, key=lambda mode: separations[mode])
    if separations[best] > _MUCH_BETTER * separations[pooling]:
        raise ValueError(
            f"The teacher pools by {pooling}, but {best} tells paraphrases in {language!r} from "
            f"other sentences much better: their cosines differ by {separations[best]:.1f} "
            f"standard deviations instead of {separations[pooling]:.1f}. Give --teacher.pooling "
            f"{best}, or say {best} in the teacher's own 1_Pooling/config.json; or, if you are "
            "sure, give --teacher.expect '{}'."
        )


def _separation(vectors: Floats) -> float:
    """Compute by how many standard deviations cosines of paraphrases exceed those of others."""
    cosines, rows = cos_sim(vectors, vectors).numpy(), np.arange(len(vectors))
    others = cosines[(rows[:, None] // 2) != (rows // 2)]
    return float((cosines[rows, rows ^ 1].mean() - others.mean()) / others.std())
