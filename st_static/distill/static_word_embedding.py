"""Trainable modules of sentence-transformers: the word table, a head, a teacher estimate."""

from __future__ import annotations

import functools
import math
import os
import shutil
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding
from sentence_transformers.util import fullname
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.utils.hooks import unserializable_hook
from transformers import PreTrainedTokenizerFast

from st_static.arguments import check_model_name, check_type, shown
from st_static.hub import downloading, packaged, require_model
from st_static.model.head import DenseLayer, Head
from st_static.model.modules import (
    STATIC_FORMS,
    TABLE_FILE,
    TOKENIZER_FILE,
    check_for_others,
)
from st_static.model.static_model import StaticModel
from st_static.threads import is_forked
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.foreign import check_tokenizer_file, without_sampling
from st_static.tokens.ragged import Ragged

TEACHER_ESTIMATE = "teacher_estimate"
"""The feature that holds the vectors of a `TeacherEstimate`."""


class StaticWordEmbedding(StaticEmbedding):
    """A `StaticEmbedding` of sentence-transformers that tokenizes fast and can train sparsely.

    A text's vector is the mean of one vector per token, as there. The differences are:

    - Tokenization is many times as fast.
    - Rows of zeros, such as that of unknown tokens, stay zero in training.
    - The gradient of the table can be sparse, so that a step touches only the rows of its batch, as
      with `SparseTrainer`. Any other Trainer uses dense gradients, as for a `StaticEmbedding`, with
      the default optimizer and its clipping.
    - Training can leave out words at random (Iyyer et al., 2015), see `word_dropout`.
    - A text without any known word gets a vector of zeros even under `half()`, though a `Normalize`
      of sentence-transformers behind it turns this into NaN.

    It is saved as a `StaticEmbedding`, which loads without st_static. `load` reads it as this
    module again.

    Args:
        tokenizer: The student's tokenizer, from `build_tokenizer`, or any other, even a fast one of
            transformers. Its padding and dropout are turned off; do not change it later.
        embedding_weights: One row per token id, [V, D], float. It is copied.
        embedding_dim: Dimension D of a table of random rows, if there are no weights.
        sparse: Whether gradients of the table are sparse tensors. `SparseTrainer` turns them on
            itself; set it for a loop of your own with `torch.optim.SparseAdam`. No other Trainer
            supports them: PyTorch's AdamW refuses them, and they cannot be clipped.
        word_dropout: Probability, 0 to less than 1, that a token is left out of its text's mean in
            training; at least one token of a text stays. It is not saved with the model.
        **kwargs: Further arguments of `StaticEmbedding`, such as `base_model`.

    Raises:
        ValueError: The table is not a matrix, or has another number of rows than the tokenizer
            has tokens; there is neither a table nor a dimension; or `word_dropout` is no such
            probability.
        TypeError: The tokenizer is of another kind, or the table is not of numbers.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> from st_static.model.tokenizer import build_tokenizer
        >>> tokenizer = build_tokenizer(["hello", "world"])
        >>> table = np.array([[0, 0], [0, 0], [1, 3], [3, 1]], dtype=np.float32)
        >>> model = SentenceTransformer(modules=[StaticWordEmbedding(tokenizer, table)])
        >>> model.encode("Hello world").tolist()
        [2.0, 2.0]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a module that is saved under the name of `StaticEmbedding`."""
        kind: type[Any] = _SavedAsBuiltIn if cls is StaticWordEmbedding else cls
        module: Self = super().__new__(kind)
        return module

    def __init__(
        self,
        tokenizer: Tokenizer | PreTrainedTokenizerFast,
        embedding_weights: NDArray[np.floating] | Tensor | None = None,
        embedding_dim: int | None = None,
        sparse: bool = False,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        if not 0 <= word_dropout < 1:
            raise ValueError(f"Expected 0 to less than 1 as word_dropout, but got {word_dropout}.")
        tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
        advice = "Fast ones of transformers do as well."
        check_type(tokenizer, Tokenizer, "a Tokenizer of the package tokenizers", advice)
        without_sampling(tokenizer)
        if embedding_weights is not None:
            embedding_weights = _as_weights(embedding_weights, tokenizer.get_vocab_size())
        super().__init__(tokenizer, embedding_weights, embedding_dim, **kwargs)
        self.embedding.sparse = sparse
        self.word_dropout = word_dropout
        self._keep_zeros()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._keep_zeros()

    def _keep_zeros(self) -> None:
        """Set the gradient of rows that are zero now to zero."""
        weight = self.embedding.weight
        without_zeros = functools.partial(_without_rows, ~weight.detach().any(dim=1))
        # Copies of a tensor lose its hooks, without a warning: `__setstate__` makes new ones.
        unserializable_hook(without_zeros)  # type: ignore[no-untyped-call]
        frozen = not weight.requires_grad  # then it takes no hook
        weight.requires_grad_().register_hook(without_zeros)  # type: ignore[no-untyped-call]
        weight.requires_grad_(not frozen)

    @property
    def encode_ids(self) -> FastTokenizer:
        """The fast tokenizer, made anew if the tokenizer was replaced."""
        cached: FastTokenizer | None = vars(self).get("_fast_tokenizer")
        if cached is None or cached.tokenizer is not self.tokenizer:
            cached = vars(self)["_fast_tokenizer"] = FastTokenizer(self.tokenizer)
        return cached

    def preprocess(  # type: ignore[override]  # texts and pairs only
        self, inputs: list[Any], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Tensor]:
        """Turn texts [B] into token ids, `input_ids` [T], and row starts, `offsets` [B].

        A pair of texts, such as a row of a numpy array of strings [B, 2], has the ids of both.
        """
        if is_forked():
            _keep_torch_in_one_thread(os.getpid())
        if any(issubclass(kind, list | tuple) for kind in set(map(type, inputs))):
            pairs: dict[str, Tensor] = super().preprocess(inputs, prompt, **kwargs)
            return pairs
        if prompt:
            inputs = [prompt + text for text in inputs]
        return features_of(self.encode_ids(inputs))

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Add `sentence_embedding` [B, D], the mean of each text's token vectors."""
        if self.training and self.word_dropout:
            dropped = _with_dropout(features, self.word_dropout)
            features["sentence_embedding"] = super().forward(dropped)["sentence_embedding"]
            return features
        if self.embedding.weight.dtype != torch.float16 or self.training:
            return super().forward(features, **kwargs)
        # The sum of a long text's rows may be too large for float16, unlike their mean.
        used, index = torch.unique(features["input_ids"], return_inverse=True)
        rows = self.embedding.weight[used].float()
        means = F.embedding_bag(index, rows, features["offsets"].long(), mode="mean")
        features["sentence_embedding"] = means.half()
        return features

    def plain_means(self, features: dict[str, Tensor]) -> Tensor:
        """Average each text's token vectors at length 1, [B, D], without a gradient."""
        with torch.no_grad():
            rows = F.normalize(self.embedding.weight[features["input_ids"]].float(), dim=1)
            index = torch.arange(len(rows), device=rows.device)
            offsets = features["offsets"].to(index.dtype)
            return F.embedding_bag(index, rows, offsets, mode="mean")

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the weights and the tokenizer into a folder."""
        super().save(output_path, *args, **kwargs)
        weights = Path(output_path, TABLE_FILE)
        if weights.exists():  # safetensors lets the owner alone read it
            shutil.copymode(weights.with_name(TOKENIZER_FILE), weights)

    @classmethod
    def load(  # type: ignore[override]  # newer arguments pass through kwargs
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Read a folder or Hub repository of a static model, such as `StaticEmbedding` wrote.

        Raises:
            ValueError: There is no such folder, the Hub refuses it, or it is not such a model.
            TypeError: The model is neither a str nor a path.
        """
        check_model_name(model_name_or_path)
        name = str(packaged(model_name_or_path, revision) or model_name_or_path)
        if not local_files_only:
            copy = require_model(name, revision, token, cache_folder)
            local_files_only = copy is not None
        check_for_others(name)
        source: dict[str, Any] = {"model_name_or_path": name, "subfolder": subfolder}
        source |= {"token": token, "cache_folder": cache_folder, "revision": revision}
        source["local_files_only"] = local_files_only
        try:
            with downloading("model", name, revision):
                tokenizer_file = cls.load_file_path(filename="tokenizer.json", **source)
                if tokenizer_file is not None:
                    check_tokenizer_file(Path(tokenizer_file))
                    built_in = StaticEmbedding.load(**source)
        except (ValueError, OSError):
            raise
        except Exception as error:  # the libraries' errors for broken files are of any type
            no_table = "expected a word table among its weights, embedding.weight or embeddings"
            reason = no_table if isinstance(error, KeyError) else error
            raise ValueError(
                f"{name!r} cannot be loaded as a static embedding model: {reason}"
            ) from error
        if tokenizer_file is None:
            raise ValueError(
                f"Expected a tokenizer.json beside the word table, but {name!r} has none: it is "
                "not a static embedding model, or has a head or segments, without which its table "
                "is another model. SentenceTransformer(…) loads it whole."
            )
        return cls(built_in.tokenizer, built_in.embedding.weight)


class _SavedAsBuiltIn(StaticWordEmbedding):
    """The class that `StaticWordEmbedding(…)` instantiates, which is saved as `StaticEmbedding`."""

    # sentence-transformers saves the name of a module's class. With that of its own class, a saved
    # model needs neither st_static nor remote code.

    def __reduce__(self) -> tuple[Any, ...]:
        # By its name, pickle would find sentence-transformers' class.
        return StaticWordEmbedding.__new__, (StaticWordEmbedding,), self.__dict__


_SavedAsBuiltIn.__module__ = StaticEmbedding.__module__
_SavedAsBuiltIn.__name__ = StaticEmbedding.__name__
_SavedAsBuiltIn.__qualname__ = StaticEmbedding.__qualname__


def _as_weights(table: Any, n_tokens: int) -> Tensor:
    """Copy a table [V, D], as floats that training may change."""
    try:
        weights = torch.as_tensor(table).detach().clone(memory_format=torch.contiguous_format)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"Expected a table of numbers, [V, D], but got {shown(table)}.") from error
    if weights.ndim != 2 or len(weights) != n_tokens:
        raise ValueError(
            f"Expected a table of {n_tokens} rows, one for each token of the tokenizer, but the "
            f"table has the shape {tuple(weights.shape)}."
        )
    return weights if weights.is_floating_point() else weights.float()


def as_static_model(model: SentenceTransformer) -> StaticModel:
    """Take tokenizer and table of a loaded static model, not copied if float32 on a CPU; a
    ValueError if it has other modules than a model of st_static."""
    table, *others = model
    kinds = [type(module).__name__ for module in others]
    is_ours = ["StaticEmbedding", *kinds] in STATIC_FORMS and "SegmentNormalize" not in kinds
    if not isinstance(table, StaticEmbedding) or not is_ours:
        modules = ", ".join([type(table).__name__, *kinds])
        raise ValueError(
            "Expected the modules StaticEmbedding and Normalize, with or without a head between "
            f"them, but the model has {modules}."
        )
    dense = []
    for module in others:
        if isinstance(module, Dense):
            bias = module.linear.bias
            if getattr(module, "use_residual", False) or (bias is not None and bias.any()):
                raise ValueError("Expected a head as st_static writes it, but got other layers.")
            weight = module.linear.weight.detach().float().cpu().numpy()
            dense.append(DenseLayer(weight, fullname(module.activation_function)))
    tokenizer = Tokenizer.from_str(table.tokenizer.to_str())
    tokenizer.no_padding()
    return StaticModel(
        tokenizer,
        table.embedding.weight.detach().float().cpu().numpy(),
        normalize=kinds[-1:] == ["Normalize"],
        prompt=model.prompts.get(model.default_prompt_name or "", "") or "",
        truncate_dim=model.truncate_dim,
        head=Head.of_dense(dense) if dense else None,
    )


@functools.cache
def _keep_torch_in_one_thread(process: int) -> None:
    """Keep torch in one thread, once in a forked process: else it waits forever for the threads of
    OpenMP that only the parent has."""
    torch.set_num_threads(1)


def features_of(ids: Ragged) -> dict[str, Tensor]:
    """Make the inputs of `EmbeddingBag` from token ids of texts [B rows]."""
    return {
        "input_ids": torch.from_numpy(ids.values),
        "offsets": torch.from_numpy(ids.offsets[:-1].astype(np.int32)),
    }


def _with_dropout(features: dict[str, Tensor], probability: float) -> dict[str, Tensor]:
    """Leave out tokens at random, but the luckiest of each text."""
    ids, starts = features["input_ids"], features["offsets"].long()
    lengths = torch.diff(starts, append=starts.new_tensor([len(ids)]))
    text = torch.repeat_interleave(lengths)  # the number of each token's text
    luck = torch.rand(len(ids), device=ids.device)
    luckiest = luck.new_zeros(len(starts)).scatter_reduce(0, text, luck, "amax")
    keep = (luck >= probability) | (luck == luckiest[text])
    lengths = torch.bincount(text[keep], minlength=len(starts))
    return {"input_ids": ids[keep].long(), "offsets": lengths.cumsum(0) - lengths}


def _without_rows(rows: Tensor, gradient: Tensor) -> Tensor:
    """Set the given rows [V] of a gradient [V, D], sparse or not, to zero."""
    rows = rows.to(gradient.device)
    if not gradient.is_sparse:
        return gradient.masked_fill(rows[:, None], 0)
    index = gradient._indices()
    dropped = rows[index[0]]
    if not dropped.any():
        return gradient
    values = gradient._values().masked_fill(dropped[:, None], 0)
    return torch.sparse_coo_tensor(index, values, gradient.shape, check_invariants=False)


class _TrainedOnly(Module):
    """A module of weight matrices, saved in checkpoints only, perhaps with sparse gradients."""

    def __init__(self, dimension: int, sparse: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sparse = sparse
        self.dimension = dimension

    def whole(self, weight: Tensor) -> Tensor:
        """Look up all rows of a weight matrix [n, m], so that its gradient is sparse. `SparseAdam`
        requires that, and equals Adam if no row is left out."""
        if not self.sparse:
            return weight
        return F.embedding(torch.arange(len(weight), device=weight.device), weight, sparse=True)

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write the weights and the config into a folder."""
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)
        self.save_config(output_path)

    @classmethod
    def load(  # type: ignore[override]  # newer arguments pass through kwargs
        cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any
    ) -> Self:
        """Read a folder of a checkpoint that `save` wrote."""
        source: dict[str, Any] = {"model_name_or_path": model_name_or_path, "subfolder": subfolder}
        model = cls(**cls.load_config(**source))
        cls.load_torch_weights(**source, model=model)
        return model

    def get_embedding_dimension(self) -> int:
        """Return the dimension D of the vectors."""
        return self.dimension


class TrainableHead(_TrainedOnly):
    """Computes z = x + B relu(A x), with x the mean of word vectors at the length sqrt(D).

    The scaling changes only the length of z, see `Head`; it makes the size of gradients independent
    of the length of the table's rows. B begins with zeros: training starts from the table.
    """

    config_keys: list[str] = ["dimension", "units", "sparse"]  # noqa: RUF012 (so in the base class)

    def __init__(self, dimension: int, units: int, sparse: bool = True) -> None:
        super().__init__(dimension, sparse)
        if min(dimension, units) < 1:
            raise ValueError(f"Expected a positive size of a head, but got {dimension}, {units}.")
        self.units = units
        self.first = nn.Linear(dimension, units, bias=False)
        self.second = nn.Linear(units, dimension, bias=False)
        nn.init.zeros_(self.second.weight)

    @classmethod
    def of(cls, head: Head, sparse: bool = True) -> TrainableHead:
        """Make a trained head trainable again."""
        module = cls(head.dimension, head.units, sparse)
        for layer, weight in ((module.first, head.first), (module.second, head.second)):
            layer.weight.data.copy_(torch.from_numpy(weight))
        return module

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Replace `sentence_embedding` [B, D]."""
        x = _scaled(features["sentence_embedding"])
        hidden = F.linear(x, self.whole(self.first.weight)).relu()
        z = x + F.linear(hidden, self.whole(self.second.weight))
        # Scaling a vector of zeros to length 1 multiplies its gradient by 1e12, each time: under
        # MatryoshkaLoss it becomes infinite, and NaN times zeros. It has nothing to teach.
        features["sentence_embedding"] = z.masked_fill(~x.any(dim=1, keepdim=True), 0.0)
        return features

    def as_head(self) -> Head:
        """Return the trained head."""
        first, second = (layer.weight.detach().cpu().numpy() for layer in (self.first, self.second))
        return Head(first.copy(), second.copy())


class TeacherEstimate(_TrainedOnly):
    """A linear map from the student's vectors to the teacher's, for training; to D + d dimensions
    if the student follows its own words, too, see `SimilarityDistillationLoss`."""

    config_keys: list[str] = ["dimension", "teacher_dimension", "sparse"]  # noqa: RUF012

    def __init__(self, dimension: int, teacher_dimension: int, sparse: bool = True) -> None:
        super().__init__(dimension, sparse)
        self.teacher_dimension = teacher_dimension
        self.linear = nn.Linear(dimension + 1, teacher_dimension, bias=False)  # 1 for a bias

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Add `teacher_estimate` [B, d]."""
        x = F.pad(_scaled(features["sentence_embedding"]), (0, 1), value=1.0)
        features[TEACHER_ESTIMATE] = F.linear(x, self.whole(self.linear.weight))
        return features


def _scaled(vectors: Tensor) -> Tensor:
    """Scale vectors [B, D] to the length sqrt(D); zeros stay zeros."""
    return math.sqrt(vectors.shape[1]) * F.normalize(vectors, dim=1)
