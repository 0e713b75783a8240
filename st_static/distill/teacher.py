"""The teacher: a SentenceTransformer that pools by mean, CLS or last token, with a fast tokenizer.

Dense layers after the pooling must be linear; `teacher_modules` checks what it consists of.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer
from torch import Tensor

from st_static.distill.config import TeacherConfig
from st_static.distill.teacher_check import check_finite, check_teacher
from st_static.distill.teacher_loading import choose_dtype, load_modules
from st_static.distill.teacher_modules import check_vocabulary, dense_layers_of, transformer_of
from st_static.tokens.panics import TellingPanics, named


class TokenBatch(NamedTuple):
    """Sentences as the teacher's tokens, padded to the longest, [B, T].

    Attributes:
        input_ids: Token ids.
        attention_mask: 1 for tokens, 0 for padding.
        starts: Where each token's characters begin in its sentence; 0 for special tokens.
        ends: Where they end.
        is_text: Whether the token comes from the sentence: neither special, nor padding, nor
            of the prompt.
    """

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    is_text: NDArray[np.bool_]


class Teacher:
    """A SentenceTransformer that gives token vectors beside sentence vectors.

    Args:
        model: The teacher.
        prompt: Text put before every sentence; None is the model's default prompt, if any.
        batch_tokens: Tokens in one batch, padding included.

    Raises:
        ValueError: The first module is not a transformer, its tokenizer is not a fast one or not
            its own, it pools by none of mean, CLS and last token, or a module after that is not
            linear.
    """

    def __init__(
        self, model: SentenceTransformer, prompt: str | None = None, batch_tokens: int = 4096
    ) -> None:
        self.model = model.eval()
        self.loaded_by: TeacherConfig | None = None
        self.runs_on = model.device.type  # or, where other processes run it, what theirs is
        self.prompt = _default_prompt(model) if prompt is None else prompt
        self.batch_tokens = batch_tokens
        self.transformer = transformer_of(model)
        self.dense = dense_layers_of(model)
        hugging_face: Any = self.transformer.tokenizer
        backend = getattr(hugging_face, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise ValueError(
                f"The teacher's tokenizer is a slow one ({type(hugging_face).__name__}): word "
                "positions need a fast tokenizer. Save the teacher with one (tokenizer.json)."
            )
        check_vocabulary(backend, self.transformer)
        self.pad_id = int(hugging_face.pad_token_id or 0)
        self.tokenizer = Tokenizer.from_str(backend.to_str())
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self._truncating = Tokenizer.from_str(self.tokenizer.to_str())
        if self.max_tokens is not None:
            self._truncating.enable_truncation(self.max_tokens)

    @classmethod
    def load(
        cls,
        config: TeacherConfig,
        languages: Sequence[str] | None = None,
        workers_on: str | None = None,
    ) -> Teacher:
        """Load a teacher as a recipe describes it, and try it.

        It may be sent to other processes, which load the same weights themselves.

        Args:
            config: The recipe's section on the teacher.
            languages: The languages in which it is tried on paraphrases, none being English; null
                is not at all.
            workers_on: The kind of device that other processes run it on, if only they do; its
                number format is chosen for that.

        Raises:
            ValueError: It cannot be loaded, has other weights or values than expected, is of an
                unfit kind, or does not understand a language.
        """
        here = config if workers_on is None else replace(config, device="cpu")
        with TellingPanics(config.model):
            teacher = cls(load_modules(here), config.prompt, config.batch_tokens)
            named(teacher.tokenizer, config.model)
            check_teacher(teacher, config, languages)
        device = torch.device(workers_on) if workers_on else teacher.model.device
        teacher.runs_on = device.type
        teacher.model.to(dtype=choose_dtype(config.dtype, device))
        check_finite(teacher)
        name: Any = str(teacher.dtype).removeprefix("torch.")
        # A process with a GPU finds it; on a cluster, others see none.
        elsewhere = None if workers_on == "cuda" else config.device
        teacher.loaded_by = replace(config, dtype=name, device=elsewhere, expect=None)
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
        """A hash of its weights, its modules' settings and its longest text."""
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
        """Turn sentences [B] into padded tokens with their character positions, [B, T]."""
        with TellingPanics(self.tokenizer):
            encodings = self._truncating.encode_batch([self.prompt + s for s in sentences])
        lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
        present = np.arange(lengths.max(initial=0)) < lengths[:, None]

        def padded(rows: Iterable[list[int]], filler: int = 0) -> NDArray[np.int64]:
            """Rows of different lengths as one array."""
            array = np.full(present.shape, filler, dtype=np.int64)
            array[present] = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
            return array

        spans = np.concatenate([np.array(e.offsets, dtype=np.int64) for e in encodings])
        starts, ends = np.zeros((2, *present.shape), dtype=np.int64)
        starts[present], ends[present] = spans.T
        special = padded((e.special_tokens_mask for e in encodings), filler=1)
        prompt = len(self.prompt)
        return TokenBatch(
            input_ids=padded((e.ids for e in encodings), filler=self.pad_id),
            attention_mask=present.astype(np.int64),
            starts=np.maximum(starts - prompt, 0),
            ends=np.maximum(ends - prompt, 0),
            is_text=(special == 0) & (ends > prompt),
        )

    @torch.inference_mode()
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Run the teacher on padded tokens [B, T].

        Returns:
            Token vectors of the last layer, [B, T, h]; sentence vectors as `encode` gives them,
            [B, d].
        """
        features: dict[str, Any] = {
            "input_ids": input_ids.to(self.model.device),
            "attention_mask": attention_mask.to(self.model.device),
        }
        if self._prompt_tokens and not _includes_prompt(self.model):
            features["prompt_length"] = self._prompt_tokens
        features = self.transformer(features)
        tokens = features["token_embeddings"]
        for module in list(self.model)[1:]:
            features = module(features)
        return tokens, features["sentence_embedding"]

    @property
    def _prompt_tokens(self) -> int:
        """Tokens of the prompt, with the special tokens before it, as encode counts them."""
        if not self.prompt:
            return 0
        prompt = self.tokenizer.encode(self.prompt)
        # sentence-transformers leaves out the last token of the encoded prompt, such as [SEP].
        return len(prompt) - int(prompt.special_tokens_mask[-1])

    def surroundings(self) -> tuple[list[int], list[int]]:
        """Token ids that stand before (prompt included) and after every sentence."""
        mark = self.tokenizer.encode(self.prompt + "a")
        inside = [i for i, special in enumerate(mark.special_tokens_mask) if not special]
        if self.prompt:
            inside = inside[-1:]
        return mark.ids[: inside[0]], mark.ids[inside[-1] + 1 :]

    def to_sentence_space(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply the linear layers that follow the pooling to mean token vectors, [n, h] -> [n, d].

        A mean commutes with them, so that words live in the space of sentence vectors.
        """
        for dense in self.dense:
            weight = dense.linear.weight.detach().float().cpu().numpy()
            vectors = vectors @ weight.T
            if dense.linear.bias is not None:
                vectors = vectors + dense.linear.bias.detach().float().cpu().numpy()
        return vectors


@functools.lru_cache(maxsize=1)
def _load_again(config: TeacherConfig, fingerprint: str) -> Teacher:
    """A teacher that another process has loaded and tried, once in this process."""
    teacher = Teacher(load_modules(config), config.prompt, config.batch_tokens)
    teacher.model.to(dtype=choose_dtype(config.dtype, teacher.model.device))
    if teacher.fingerprint() != fingerprint:
        raise ValueError(
            f"The teacher {config.model!r} has other weights here than where the build was started."
        )
    return teacher


def _default_prompt(model: SentenceTransformer) -> str:
    """The prompt that `encode` uses when it is given none."""
    name = model.default_prompt_name
    return (model.prompts.get(name) or "") if name else ""


def _includes_prompt(model: SentenceTransformer) -> bool:
    return all(m.include_prompt for m in model if isinstance(m, Pooling))


def token_batches(lengths: NDArray[np.integer], batch_tokens: int) -> list[slice]:
    """Cut sentences that are sorted by length into batches of at most `batch_tokens` tokens.

    Args:
        lengths: Tokens of each sentence, special tokens included, ascending, [S].
        batch_tokens: Most tokens in a batch, padding included; a longer sentence goes alone.

    Example:
        >>> token_batches(np.array([2, 2, 3, 9]), 6)
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    batches, start = [], 0
    for stop in range(1, len(lengths) + 1):
        if stop == len(lengths) or (stop - start + 1) * int(lengths[stop]) > batch_tokens:
            batches.append(slice(start, stop))
            start = stop
    return batches


def padded_tokens(batches: Sequence[slice], lengths: NDArray[np.integer]) -> list[int]:
    """Tokens of each batch, padding included: what the teacher's time goes by.

    Example:
        >>> padded_tokens([slice(0, 2), slice(2, 3)], np.array([1, 2, 3]))
        [4, 3]
    """
    return [(batch.stop - batch.start) * int(lengths[batch.stop - 1]) for batch in batches]


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that the memory of the processor or the GPU is full."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        "can't allocate memory" in str(error) or "out of memory" in str(error)
    )
