"""Static models without sentence-transformers' overhead."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from st_static.model import arrow
from st_static.model.chunk_tokenizer import ChunkTokenizer
from st_static.model.columns import Null, check_null, text_column
from st_static.model.encode_files import Written, batches, encode_batches
from st_static.model.file_names import OutputFormat, check_target, output_format_of
from st_static.model.file_rows import Rows
from st_static.model.files import atomic
from st_static.model.processors import n_processors
from st_static.model.ragged import Ragged, offsets_of
from st_static.model.scaling import Scaling
from st_static.model.similarity import similarities
from st_static.model.static_model import StaticModel, read_static_model
from st_static.model.unknown import Unknown, check_known, check_unknown
from st_static.model.vectors import in_format

# A thread encodes this many texts at a time, of about so many bytes, into at most so many numbers:
# 24 MB of float32.
_BLOCK_TEXTS = 8_192
_BLOCK_BYTES = 4_000_000
_BLOCK_NUMBERS = 6_000_000
# Longer texts are added up piece by piece.
_LONG_BYTES = 8_000_000
# More rows than any text has.
_ANY_NUMBER = 2**31
# So few texts are encoded one by one, and of these the longer ones as many are.
_FEW_TEXTS = 4
_LONG_TEXT = 2_000
# For single texts, ids of so many chunks are kept, if these are no longer than this.
_REMEMBERED = 100_000
_REMEMBERED_CHARACTERS = 64


class _Block(NamedTuple):
    """Neighbouring texts, of which the first is text number `start`."""

    start: int
    texts: pa.Array


class FastEncoder:
    """Encodes texts with a static model, as sentence-transformers does, only faster.

    It may be used by several threads at a time. A text without any word that the model knows, an
    empty one too, has a vector of zeros, in float16, too, where sentence-transformers gives NaN.

    Args:
        model: Tokenizer and table, as read by `read_static_model`.
        dtype: Number format of the table in memory and of the vectors. float16 takes half the
            memory, and vectors differ by about 1e-3.
        threads: Number of threads; by default one for each processor that the process may use.

    Raises:
        TypeError: The model is not a `StaticModel`.
        ValueError: dtype or threads is none of these, or values are too large for float16.

    Example:
        >>> import numpy as np
        >>> from st_static.model.tokenizer import build_tokenizer
        >>> table = np.array([[0, 0], [0, 0], [3, 4], [0, 1]], dtype=np.float32)
        >>> model = StaticModel(build_tokenizer(["a", "b"]), table, normalize=False)
        >>> FastEncoder(model).encode(["A b", "b"]).tolist()
        [[1.5, 2.5], [0.0, 1.0]]
    """

    def __init__(
        self,
        model: StaticModel,
        dtype: Literal["float32", "float16"] = "float32",
        threads: int | None = None,
    ) -> None:
        if not isinstance(model, StaticModel):
            given = repr(model) if isinstance(model, str) else type(model).__name__
            raise TypeError(
                f"Expected a StaticModel, but got {given}. "
                "FastEncoder.from_pretrained loads a folder or a repository of the Hub."
            )
        if dtype not in ("float32", "float16"):
            raise ValueError(f"Expected the dtype float32 or float16, but got {dtype!r}.")
        if threads is not None and threads < 1:
            raise ValueError(f"Expected at least one thread, but got {threads}.")
        self.dtype = np.dtype(dtype)
        self.threads = threads or n_processors()
        self.tokenize = ChunkTokenizer(model.tokenizer)
        self._rows = in_format(model.table, self.dtype)
        self._most_rows = _most_rows(torch.from_numpy(self._rows))
        self._ids_of_chunk = _ChunkIds(self.tokenize)
        self._variants: dict[tuple[str, int | None], FastEncoder] = {}
        self._set_model(model)

    def _set_model(self, model: StaticModel) -> None:
        """Take the model's prompt, scaling and number of dimensions."""
        self.model = model
        self._scaling = Scaling(model)
        self._parts = torch.from_numpy(
            self._rows.reshape(len(self._rows) * self._scaling.n_parts, -1)
        )

    def _variant(self, **changes: Any) -> FastEncoder:
        """The same encoder with another prompt or number of dimensions; it shares all memory."""
        model = dataclasses.replace(self.model, **changes)
        key = model.prompt, model.truncate_dim
        if key == (self.model.prompt, self.model.truncate_dim):
            return self
        if key not in self._variants:
            variant = object.__new__(type(self))
            variant.__dict__.update(self.__dict__)
            variant._set_model(model)
            self._variants[key] = variant
        return self._variants[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.dtype.name, self.threads)

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_folder: str | Path | None = None,
        dtype: Literal["float32", "float16"] = "float32",
        threads: int | None = None,
        truncate_dim: int | None = None,
    ) -> FastEncoder:
        """Load a folder or Hub repository that holds a static model.

        Args:
            model: A folder, or an id on the Hub; of sentence-transformers or Model2Vec.
            revision: Branch, tag or commit on the Hub.
            token: The Hub's token; by default the one that was logged in with.
            cache_folder: Where downloads are kept; by default the Hub's cache.
            dtype: See the class.
            threads: See the class.
            truncate_dim: How many of the first dimensions vectors have; by default what the model
                says, or all.

        Raises:
            ValueError: It is not a static model, or its parts do not fit.
        """
        _check_truncate_dim(truncate_dim)
        static = read_static_model(model, revision, token, cache_folder)
        if truncate_dim is not None:
            static = dataclasses.replace(static, truncate_dim=truncate_dim)
        return cls(static, dtype, threads)

    @property
    def dimension(self) -> int:
        """Output dimension D."""
        width: int = self._rows.shape[1]
        return min(width, self.model.truncate_dim or width)

    def get_embedding_dimension(self) -> int:
        """The output dimension D, as sentence-transformers calls it."""
        return self.dimension

    def encode(
        self,
        texts: Any,
        out: NDArray[np.floating] | None = None,
        null: Null = "error",
        unknown: Unknown = "zero",
        *,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> NDArray[np.floating]:
        """Encode texts.

        The last four arguments are those of sentence-transformers and mean the same.

        Args:
            texts: A str; or a list or another iterable of str, or a string column of pyarrow,
                polars, pandas, numpy or datasets, [B].
            out: Where to write the vectors, [B, D], of the encoder's dtype; by default a new array.
            null: Whether a missing text is an error or an empty text.
            unknown: Whether a text without any word that the model knows, an empty one too, is a
                vector of zeros or an error.
            batch_size: Changes nothing: neither vectors nor speed depend on it.
            show_progress_bar: Whether to show a progress bar over the texts.
            normalize_embeddings: Whether to scale vectors to length 1; zeros stay zeros.
            truncate_dim: How many of the first dimensions to keep, before they are scaled to length
                1; by default as many as the encoder has.

        Returns:
            Vectors [B, D]; of a str one vector [D]. A text without any known word gets zeros.

        Raises:
            TypeError: It is not a str, list or column; or a text is missing or not a str, whose
                position is named.
            ValueError: A text is not valid Unicode, or has no known word and `unknown` is "error";
                `out` has another shape or number format; or an option has no such value.
        """
        if null != "error" or unknown != "zero":  # a call more is a fiftieth of a short text's time
            check_null(null)
            check_unknown(unknown)
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"Expected a positive batch_size, but got {batch_size}.")
        encoder = self
        if truncate_dim is not None:
            _check_truncate_dim(truncate_dim)
            encoder = self._variant(truncate_dim=truncate_dim)
        if unknown == "error" and isinstance(texts, Iterator):
            texts = list(texts)  # to name one of them
        vectors = encoder._encode(texts, out, null, bool(show_progress_bar))
        if unknown == "error":
            check_known(vectors, texts, null)
        if normalize_embeddings:
            _scale_to_unit(vectors)
        return vectors

    def encode_query(self, texts: Any, **options: Any) -> NDArray[np.floating]:
        """Encode queries: the model's prompt called "query", if it has one, is put before each.

        Args:
            texts: As for `encode`.
            options: Those of `encode`.
        """
        return self._variant(prompt=self.model.prompts.get("query", "")).encode(texts, **options)

    def encode_document(self, texts: Any, **options: Any) -> NDArray[np.floating]:
        """Encode documents: the model's prompt called "document", if it has one, is put before.

        Args:
            texts: As for `encode`.
            options: Those of `encode`.
        """
        return self._variant(prompt=self.model.prompts.get("document", "")).encode(texts, **options)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float32]:
        """Similarities of all pairs of vectors, by the measure that the model names.

        As `SentenceTransformer.similarity`, but it returns a numpy array.

        Args:
            embeddings1: Vectors [n, D], or one [D]; of numpy or torch, or a list of such.
            embeddings2: The same, [m, D].

        Returns:
            Similarities [n, m]: cosines, unless the model names another measure.
        """
        return similarities(embeddings1, embeddings2, self.model.similarity_fn_name)

    def _encode(
        self, texts: Any, out: NDArray[np.floating] | None, null: Null, show_progress_bar: bool
    ) -> NDArray[np.floating]:
        if isinstance(texts, str):
            if out is not None:
                raise ValueError("Expected out only for a list or column of texts, not for a str.")
            try:
                return self._encode_one(texts)
            except ValueError:
                text_column([texts])  # says it in words
                raise
        if isinstance(texts, list) and len(texts) <= _FEW_TEXTS and set(map(type, texts)) <= {str}:
            vectors = self._check_out(out, len(texts))
            for row, text in enumerate(texts):
                try:
                    vectors[row] = self._encode_one(text)
                except ValueError:
                    text_column(texts)  # names its position
                    raise
            return vectors
        column = text_column(texts, null)
        vectors = self._check_out(out, len(column))
        blocks = list(_blocks(column, self.threads, self._rows.shape[1]))
        if len(blocks) == 1 or self.threads == 1:
            one_by_one = map(self._encode_block, blocks, repeat(vectors))
            _await(one_by_one, blocks, show_progress_bar)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                done = pool.map(self._encode_block, blocks, repeat(vectors))
                _await(done, blocks, show_progress_bar)
        return vectors

    def encode_to(
        self,
        path: str | Path,
        texts: Any,
        format: OutputFormat | None = None,
        null: Null = "error",
        unknown: Unknown = "zero",
    ) -> int:
        """Encode texts into a file, which appears when it is complete.

        Args:
            path: Where to.
            texts: As for `encode`, or any iterable of str, which may hold more than fits into
                memory.
            format: npy is one array [N, D], which `numpy.load(path, mmap_mode="r")` maps into
                memory; parquet has the columns `text` and `embedding`. By default what the name
                ends with.
            null: Whether a missing text is an error or an empty text.
            unknown: Whether a text without any word that the model knows, an empty one too, is a
                vector of zeros or an error.

        Returns:
            The number of texts N.

        Raises:
            TypeError: A text is missing or not a str; names its position.
            ValueError: The format is not known or not that of the name; or a text has no known word
                and `unknown` is "error".
        """
        check_null(null)
        check_unknown(unknown)
        target = Path(path)
        check_target(target)
        output_format = output_format_of(target, format)
        with atomic(target) as temporary, temporary.open("wb") as stream:
            return self.write(batches(texts, null), stream, output_format, unknown).rows

    def write(
        self,
        texts: Iterable[pa.ChunkedArray | Rows],
        stream: IO[bytes],
        format: OutputFormat = "npy",
        unknown: Unknown = "zero",
    ) -> Written:
        """The same, for columns as `read_texts` gives, into a stream open in binary mode."""
        return encode_batches(
            lambda batch, vectors: self._encode_blocks(
                _blocks(batch, 1, self._rows.shape[1]), vectors
            ),
            self.threads,
            texts,
            stream,
            self.dimension,
            self.dtype,
            format,
            unknown,
        )

    def _check_out(self, out: NDArray[np.floating] | None, n: int) -> NDArray[np.floating]:
        shape = (n, self.dimension)
        if out is None:
            return np.empty(shape, self.dtype)
        if not isinstance(out, np.ndarray):
            raise ValueError(f"Expected out to be a numpy array, but got {type(out).__name__}.")
        if out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"Expected out to be a contiguous {self.dtype} array of the shape {shape}, but got "
                f"{out.dtype} of the shape {out.shape}."
            )
        return out

    def _encode_blocks(self, blocks: Iterable[_Block], vectors: NDArray[np.floating]) -> None:
        for block in blocks:
            self._encode_block(block, vectors)

    def _encode_block(self, block: _Block, vectors: NDArray[np.floating]) -> None:
        texts = block.texts
        if self.model.prompt:
            texts = arrow.strings([self.model.prompt + text for text in texts.to_pylist()])
        out = torch.from_numpy(vectors[block.start : block.start + len(texts)])
        if texts.nbytes > _LONG_BYTES:  # of one text: blocks are shorter
            self._write_long(texts, out)
        else:
            self._write_vectors(self.tokenize(texts), out)

    @torch.inference_mode()
    def _write_vectors(self, ids: Ragged, out: torch.Tensor) -> None:
        """Write the vectors of token ids [B rows] to `out`, [B, D]."""
        self._write_scaled(self._sums(ids), torch.from_numpy(ids.lengths), out)

    @torch.inference_mode()
    def _write_long(self, text: pa.Array, out: torch.Tensor) -> None:
        """Write the vector of a long text [1] to `out`, [1, D]; all its ids would be too many."""
        n_parts = self._scaling.n_parts
        sums = torch.zeros(n_parts, 1, self._parts.shape[1])
        n_tokens = 0
        for ids in self.tokenize.in_parts(text.cast(pa.large_string())):
            n_tokens += len(ids.values)
            sums += self._sums(ids).sum(dim=1, keepdim=True)
        self._write_scaled(sums, torch.tensor([n_tokens]), out)

    def _write_scaled(self, sums: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor) -> None:
        """Write sums [P, B, W] of so many tokens [B], which are used up, to `out`, [B, D]."""
        if not self._scaling.segments:
            sums /= lengths.clamp_min_(1).unsqueeze_(1)
        self._scaling.write(sums, out)

    def _sums(self, ids: Ragged) -> torch.Tensor:
        """Sums of the rows of token ids [B rows], in P parts: [P, B, W] in float32."""
        pieces, text_of_piece = ids.cut(self._most_rows)
        n_parts = self._scaling.n_parts
        part = np.arange(n_parts, dtype=np.int32)[:, np.newaxis]
        values = n_parts * pieces.values + part
        starts = offsets_of(np.tile(pieces.lengths, n_parts))[:-1]
        n_pieces, n_texts = len(text_of_piece), len(ids.lengths)
        sums = F.embedding_bag(
            torch.from_numpy(values.reshape(-1)),
            self._parts,
            torch.from_numpy(starts.astype(np.int32)),
            mode="sum",
        ).view(n_parts, n_pieces, self._parts.shape[1])
        # In float16 it takes longer to scale, and the smallest norm allowed is rounded to zero.
        if n_pieces == n_texts:
            return sums.float()
        is_first = np.diff(text_of_piece, prepend=-1) > 0
        first, others = map(torch.from_numpy, (np.flatnonzero(is_first), np.flatnonzero(~is_first)))
        added = sums[:, others].float()
        return sums[:, first].float().index_add_(1, torch.from_numpy(text_of_piece)[others], added)

    def _encode_one(self, text: str) -> NDArray[np.floating]:
        if len(text) >= _LONG_TEXT:
            alone = np.empty(self.dimension, self.dtype)
            self._encode_block(_Block(0, arrow.strings([text])), alone[np.newaxis])
            return alone
        text = self.model.prompt + text
        if self.tokenize.chunkwise:
            chunks = map(self._ids_of_chunk.__getitem__, text.split(" "))
            ids: Any = list(chain.from_iterable(chunks))
        else:
            ids = self.tokenize([text]).values
        if not len(ids):
            return np.zeros(self.dimension, self.dtype)
        rows = self._rows.take(ids, axis=0)  # a third of the time of self._rows[ids]
        vector: NDArray[np.floating] = np.add.reduce(rows, axis=0, dtype=np.float32)
        if self._scaling.segments:
            self._scaling.scale_one(vector)
        else:
            vector /= len(ids)
        return vector[: self.dimension].astype(self.dtype, copy=False)


class _ChunkIds(dict[str, list[int]]):
    """Token ids of chunks as lists, for single texts."""

    def __init__(self, tokenize: ChunkTokenizer) -> None:
        super().__init__()
        self._tokenize = tokenize

    def __missing__(self, chunk: str) -> list[int]:
        if len(self) > _REMEMBERED:
            self.clear()
        ids: list[int] = self._tokenize([chunk]).values.tolist()
        if len(chunk) <= _REMEMBERED_CHARACTERS:
            self[chunk] = ids
        return ids


def _await(done: Iterable[None], blocks: list[_Block], show_progress_bar: bool) -> None:
    """Wait until all blocks are done, behind a progress bar over their texts if wanted."""
    if not show_progress_bar:
        deque(done, maxlen=0)
        return
    from tqdm.auto import tqdm

    total = sum(len(block.texts) for block in blocks)
    with tqdm(total=total, unit=" texts", unit_scale=True) as bar:
        for block, _ in zip(blocks, done, strict=True):
            bar.update(len(block.texts))


def _check_truncate_dim(truncate_dim: int | None) -> None:
    if truncate_dim is not None and truncate_dim < 1:
        raise ValueError(f"Expected a positive truncate_dim, but got {truncate_dim}.")


def _scale_to_unit(vectors: NDArray[np.floating]) -> None:
    """Scale vectors [..., D] in place to length 1; zeros stay zeros, of float16, too."""
    tensor = torch.from_numpy(vectors)
    tensor.copy_(F.normalize(tensor.float(), dim=-1))


def _most_rows(table: torch.Tensor) -> int:
    """How many rows can be added up before their sum may be too large for the number format."""
    if table.dtype != torch.float16:
        return _ANY_NUMBER
    smallest, largest = map(float, torch.aminmax(table))
    return max(1, int(torch.finfo(torch.float16).max / max(1.0, largest, -smallest)))


def _blocks(column: pa.ChunkedArray, threads: int, dimension: int) -> Iterator[_Block]:
    """Cut a column into blocks, at least one for each thread if there are many texts."""
    start = 0
    most = max(1, min(_BLOCK_TEXTS, _BLOCK_NUMBERS // dimension))
    size = min(most, max(1024, -(-len(column) // threads)))
    for array in column.chunks:
        fitting = len(array) * _BLOCK_BYTES // max(1, array.nbytes)
        step = max(1, min(size, fitting))
        for first in range(0, len(array), step):
            texts = array.slice(first, step)
            yield _Block(start + first, texts)
        start += len(array)
