"""Encode with static models, without sentence-transformers' overhead."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from numbers import Integral
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from st_static.arguments import as_path, check_type, require
from st_static.encode.scaling import (
    Scaling,
    Unknown,
    UnknownInArray,
    are_zeros,
    check_unknown,
    scale_to_unit,
    unknown_text,
)
from st_static.encode.similarity import similarities
from st_static.files import output_file
from st_static.model.model_folder import read_static_model
from st_static.model.static_model import StaticModel
from st_static.model.table import ROWS_IN_A_SUM, Int8Table, Table, TableForm
from st_static.model.vectors import in_format
from st_static.threads import forks_wait, made_once, n_processors
from st_static.tokens.fast_tokenizer import FastTokenizer

# Imported where they are used: they need pyarrow or scipy, but single texts do not.
if TYPE_CHECKING:
    import pyarrow as pa

    from st_static.encode.block_encoder import BlockEncoder
    from st_static.encode.encode_files import OutputFormat, Written
    from st_static.texts.columns import Null
    from st_static.texts.file_rows import Rows

TableFormat = Literal["float32", "float16", "int8"]

# Up to this many texts, with fewer characters than this in total, are encoded fastest one by one.
_FEW_TEXTS = 32
_FEW_CHARACTERS = 8_000
# Models that `loaded_encoder` keeps.
_KEPT_MODELS = 4
_sum_of = np.add.reduce


class OneByOne:
    """Adds up rows [V, D] of a text's tokens, in int8 or what float32 includes; safe in threads."""

    def __init__(
        self, tokenize: FastTokenizer, rows: Table, scaling: Scaling, dtype: np.dtype[Any]
    ) -> None:
        self._ids_of, self._take, self._scale = tokenize.ids_of, rows.take, scaling.scale_one
        self._dtype, self._is_half = dtype, dtype == np.float16

    def encode(self, text: str, dimension: int) -> NDArray[np.floating]:
        """Encode a text into a vector's first dimensions; UnicodeEncodeError if it is invalid."""
        ids = self._ids_of(text)
        n = len(ids)
        if 0 < n <= ROWS_IN_A_SUM:  # `take` is three times as fast as rows[ids]
            # In float32 even for float16 rows: their sum would lose digits, or overflow.
            vector = _sum_of(self._take(ids, 0), 0, np.float32)
        elif n:
            starts = range(0, n, ROWS_IN_A_SUM)
            parts = (self._take(ids[start : start + ROWS_IN_A_SUM], 0) for start in starts)
            sums = [_sum_of(part, 0, np.float32) for part in parts]
            vector = _sum_of(sums, 0, np.float64).astype(np.float32)
        else:
            return np.zeros(dimension, self._dtype)
        self._scale(vector, n)
        if dimension < len(vector):
            vector = vector[:dimension]
        result: NDArray[np.floating] = vector.astype(self._dtype) if self._is_half else vector
        return result


class FastEncoder:
    """Encodes texts with a static model, as sentence-transformers does, only faster.

    Several threads may use it at a time. A text without any known word, such as an empty one, gets
    a vector of zeros, even in float16, where sentence-transformers gives NaN. If the row of the
    tokenizer's unknown token is not zero, it counts as a word, as in sentence-transformers.

    Args:
        model: Tokenizer and table, as read by `read_static_model`.
        dtype: Number format of the table in memory. float16 takes half the memory; vectors are
            float16 and differ by about 1e-3. int8, with a scale for each row (in a fused ensemble,
            for each row and member), takes about a quarter; vectors are float32 and differ by about
            1e-3. For float32, a table that is stored in int8 stays so until many texts are encoded.
        threads: Number of threads; by default one for each processor that the process may use.
        tokenize: The tokenizer, if it is ready; by default a new one.

    Attributes:
        model: Tokenizer, table, prompts and number of dimensions.
        dtype: Number format of the vectors.
        threads: Number of threads.
        dimension: Output dimension D.
        tokenize: Token ids of texts, see `FastTokenizer`.

    Raises:
        TypeError: The model is not a `StaticModel`, or threads is not a whole number.
        ValueError: dtype or threads is invalid, or values are too large for float16, or not finite
            for int8.

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
        dtype: TableFormat = "float32",
        threads: int | None = None,
        *,
        tokenize: FastTokenizer | None = None,
    ) -> None:
        advice = "FastEncoder.from_pretrained loads a folder or a repository of the Hub."
        check_type(model, StaticModel, "a StaticModel", advice)
        _check_format(dtype)
        _check_positive("threads", threads)
        self.dtype: np.dtype[Any] = np.dtype("float32" if dtype == "int8" else dtype)
        self._table_format: TableFormat = dtype
        self.threads: int = threads or n_processors()
        table = _in_memory(model.table, dtype, model.widths)
        self.model = dataclasses.replace(model, table=table)
        # The methods of a memmap are slower.
        self._rows: Table = np.asarray(table) if isinstance(table, np.memmap) else table
        self.dimension: int = min(table.shape[1], model.truncate_dim or table.shape[1])
        self.tokenize = tokenize or FastTokenizer(model.tokenizer)
        self._scaling = Scaling(self.model)
        self._one = OneByOne(self.tokenize, self._rows, self._scaling, self.dtype)

    @made_once
    def _many(self) -> BlockEncoder:
        from st_static.encode.block_encoder import BlockEncoder

        if self._table_format != "int8" and isinstance(self._rows, Int8Table):
            self._rows = np.asarray(self._rows)
            self._one = OneByOne(self.tokenize, self._rows, self._scaling, self.dtype)  # is faster
        return BlockEncoder(self.tokenize, self._rows, self._scaling)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self._table_format, self.threads)

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_folder: str | Path | None = None,
        dtype: TableFormat = "float32",
        threads: int | None = None,
        truncate_dim: int | None = None,
        mmap: bool = False,
    ) -> FastEncoder:
        """Load a folder or Hub repository that holds a static model.

        Args:
            model: A folder, or an id on the Hub; of sentence-transformers or Model2Vec.
            revision: Branch, tag or commit on the Hub.
            token: The Hub's token; by default that of the login.
            cache_folder: Where downloads are kept; by default the Hub's cache.
            dtype: See the class.
            threads: See the class.
            truncate_dim: How many of the first dimensions vectors have; by default as the model
                says, or all.
            mmap: Whether the table is mapped into memory: only rows that are used are read, and
                processes share them. Its file must not change in the meantime. With dtype int8, the
                table must be stored in int8.

        Raises:
            ValueError: It is not a static model, its parts do not fit, or its table cannot be
                mapped.
            TypeError: An argument is of the wrong kind.
        """
        _check_positive("truncate_dim", truncate_dim)
        _check_format(dtype)
        # Rows that are stored in int8 stay so until many texts are encoded.
        form: TableForm = "int8" if dtype == "int8" else "restored" if mmap else "stored"
        static = read_static_model(model, revision, token, cache_folder, mmap=mmap, form=form)
        if truncate_dim is not None:
            static = dataclasses.replace(static, truncate_dim=truncate_dim)
        return cls(static, dtype, threads)

    def get_embedding_dimension(self) -> int:
        """Return the output dimension D, under sentence-transformers' name."""
        return self.dimension

    def encode(
        self,
        texts: Any,
        out: NDArray[np.floating] | None = None,
        null: Null = "error",
        unknown: UnknownInArray = "zero",
        *,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> NDArray[np.floating]:
        """Encode texts.

        The last five arguments are as in sentence-transformers.

        Args:
            texts: A str; or a list or another iterable of str, or a string column of pyarrow,
                polars, pandas, numpy or datasets, [B].
            out: The array to fill, [B, D], of the encoder's dtype; by default a new one.
            null: Treat a missing text as an error or as an empty text.
            unknown: Treat a text without any known word, such as an empty one, as a vector of zeros
                or as an error. `encode_to` and `ArrowEncoder` can also leave it out, or write null.
            prompt: The text to put before each text; by default the model's default prompt.
            batch_size: Ignored: neither vectors nor speed depend on it.
            show_progress_bar: Whether to show a progress bar over the texts.
            normalize_embeddings: Whether to scale vectors to length 1; zeros stay zeros.
            truncate_dim: How many of the first dimensions to keep, before they are scaled to length
                1; by default as many as the encoder has.

        Returns:
            Vectors [B, D]; for a str one vector [D]. A text without any known word gets zeros.

        Raises:
            TypeError: It is not a str, list or column; a text is missing or not a str (the message
                names its position); prompt is not a str; or batch_size or truncate_dim is not a
                whole number.
            ValueError: A text is not valid Unicode, or has no known word and `unknown` is "error";
                `out` has another shape or number format; or an option is invalid.
        """
        if null != "error" or unknown != "zero":
            with forks_wait:
                from st_static.texts.columns import check_null

            check_null(null)
            check_unknown(unknown, "array")
            if unknown == "error" and isinstance(texts, Iterator):
                texts = list(texts)  # the error may quote one
        if prompt is None:
            prompt = self.model.prompt
        else:
            check_type(prompt, str, "a str as prompt")
        if batch_size is not None:
            _check_positive("batch_size", batch_size)
        dimension = self.dimension
        if truncate_dim is not None:
            _check_positive("truncate_dim", truncate_dim)
            dimension = min(truncate_dim, self._rows.shape[1])
        if not isinstance(texts, str):
            shown = bool(show_progress_bar)
            vectors = self._encode_all(
                texts, prompt, dimension, out=out, null=null, show_progress_bar=shown
            )
        elif out is not None:
            raise ValueError("Expected out only for a list or column of texts, not for a str.")
        elif len(texts) < _FEW_CHARACTERS:
            try:
                vectors = self._one.encode(prompt + texts, dimension)
            except UnicodeEncodeError:
                _column([texts], null)  # raises a clear error
                raise
        else:
            vectors = self._encode_all([texts], prompt, dimension)[0]
        if unknown == "error":
            _check_known(vectors, texts, null)
        if normalize_embeddings:
            scale_to_unit(vectors)
        return vectors

    def encode_query(self, texts: Any, **options: Any) -> NDArray[np.floating]:
        """Encode queries as `encode` does, behind a prompt "query", if the model has one."""
        options.setdefault("prompt", self.model.prompts.get("query", ""))
        return self.encode(texts, **options)

    def encode_document(self, texts: Any, **options: Any) -> NDArray[np.floating]:
        """Encode documents as `encode` does, behind a prompt "document", if the model has one."""
        options.setdefault("prompt", self.model.prompts.get("document", ""))
        return self.encode(texts, **options)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float32]:
        """Compute the similarities of all pairs of vectors, by the measure that the model names.

        As `SentenceTransformer.similarity`, but it returns a numpy array.

        Args:
            embeddings1: Vectors [n, D], or one [D]; of numpy or torch, or a list of such.
            embeddings2: Likewise, [m, D].

        Returns:
            Similarities [n, m]: cosines, unless the model names another measure.
        """
        return similarities(embeddings1, embeddings2, self.model.similarity_fn_name)

    def _encode_all(
        self,
        texts: Any,
        prompt: str,
        dimension: int,
        *,
        out: NDArray[np.floating] | None = None,
        null: Null = "error",
        show_progress_bar: bool = False,
    ) -> NDArray[np.floating]:
        """Encode a list or column of texts, [N, dimension]."""
        # A list is tried as it is: converting it to a column takes a third of the encoding time.
        is_tried = isinstance(texts, list) and null == "error"
        column = texts if is_tried else _column(texts, null)
        shape = len(column), dimension
        if out is None:
            out = np.empty(shape, self.dtype)
        elif not isinstance(out, np.ndarray):
            raise ValueError(f"Expected out to be a numpy array, but got {type(out).__name__}.")
        elif out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"Expected out to be a contiguous {self.dtype} array of the shape {shape}, but got "
                f"{out.dtype} of the shape {out.shape}."
            )
        try:
            self._write_vectors(
                column, out, prompt, self.threads, show_progress_bar=show_progress_bar
            )
        except (TypeError, ValueError):
            if not is_tried:
                raise
            column = _column(texts, null)  # says which is no text, or makes texts of all
            if set(map(type, texts)) <= {str}:
                raise  # then the texts were not to blame
            self._write_vectors(
                column, out, prompt, self.threads, show_progress_bar=show_progress_bar
            )
        return out

    def _write_vectors(
        self,
        texts: list[str] | pa.ChunkedArray,
        vectors: NDArray[np.floating],
        prompt: str,
        threads: int = 1,
        show_progress_bar: bool = False,
    ) -> None:
        """Write the vectors of texts [N] to `vectors`, [N, dimension]."""
        if len(texts) <= _FEW_TEXTS:
            size = sum(map(len, texts)) if isinstance(texts, list) else texts.nbytes
            if size < _FEW_CHARACTERS:
                strings = texts if isinstance(texts, list) else texts.to_pylist()
                for row, text in enumerate(strings):
                    vectors[row] = self._one.encode(prompt + text, vectors.shape[1])
                return
        self._many.encode(texts, vectors, prompt, threads, show_progress_bar=show_progress_bar)

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
            path: The file to write.
            texts: As for `encode`, or any iterable of str, which may hold more than fits into
                memory.
            format: npy is one array [N, D], which `numpy.load(path, mmap_mode="r")` maps into
                memory; parquet has the columns `text` and `embedding`. By default the ending of the
                name.
            null: Whether a missing text is an error or an empty text.
            unknown: Whether a text without any known word, such as an empty one, is a vector of
                zeros, null (in parquet), left out ("skip") or an error.

        Returns:
            The number of vectors N.

        Raises:
            TypeError: A text is missing or not a str; names its position.
            ValueError: The format is not known, not that of the name, or has no null; or a text has
                no known word and `unknown` is "error".
        """
        with forks_wait:
            from st_static.encode.encode_files import batches, check_target, output_format_of
            from st_static.texts.columns import check_null

        check_null(null)
        _column([""], null)  # imports pandas while forks wait
        target = as_path(path, "a file to write")
        check_target(target)
        output_format = output_format_of(target, format)
        check_unknown(unknown, output_format)
        with output_file(target) as temporary, temporary.open("wb") as stream:
            return self.write(batches(texts, null), stream, output_format, unknown).rows

    def write(
        self,
        texts: Iterable[pa.ChunkedArray | Rows],
        stream: IO[bytes],
        format: OutputFormat = "npy",
        unknown: Unknown = "zero",
    ) -> Written:
        """Encode texts into a stream that is open in binary mode.

        Args:
            texts: Columns of texts, or rows from a `TextReader`.
            stream: The stream.
            format: As for `encode_to`.
            unknown: As for `encode_to`.
        """
        with forks_wait:
            from st_static.encode.encode_files import encode_batches
            from st_static.texts.file_rows import BATCH_TEXTS

        write_vectors = functools.partial(self._write_vectors, prompt=self.model.prompt)
        # One more than threads. They are reused, as the allocator would not give back the memory of
        # each batch.
        buffers = [
            np.empty((BATCH_TEXTS, self.dimension), self.dtype) for _ in range(self.threads + 1)
        ]
        return encode_batches(
            write_vectors, texts, buffers, stream, output_format=format, unknown=unknown
        )


def _column(texts: Any, null: Null) -> pa.ChunkedArray:
    with forks_wait:
        from st_static.texts.columns import text_column

        text_column([""])  # here pyarrow imports pandas, where that is installed
    return text_column(texts, null)


def _check_known(vectors: NDArray[np.floating], texts: Any, null: Null) -> None:
    """Check that each text has a word that the model knows; the error names the first."""
    rows = np.flatnonzero(are_zeros(np.atleast_2d(vectors)))
    if not len(rows):
        return
    instead = '. Leave such texts out, or say unknown="zero" for vectors of zeros.'
    if isinstance(texts, str):
        raise unknown_text("The text", texts, instead)
    column, first = _column(texts, null), int(rows[0])
    more = f" ({len(rows):,} of the {len(column):,} texts have none)" if len(rows) > 1 else ""
    raise unknown_text(f"The text at position {first}", column[first].as_py(), more + instead)


def _check_format(dtype: str) -> None:
    is_format = dtype in get_args(TableFormat)
    require(is_format, f"Expected the dtype float32, float16 or int8, but got {dtype!r}.")


def _check_positive(name: str, number: int | None) -> None:
    if number is not None:
        check_type(number, Integral, f"a whole number as {name}")
        require(number >= 1, f"Expected {name} of at least 1, but got {number}.")


def _in_memory(table: Table, dtype: TableFormat, widths: list[int]) -> Table:
    """Convert a table to a format; keep a mapped one as it is."""
    if dtype == "int8":
        if isinstance(table, Int8Table):
            return table
        return Int8Table.of(table, widths)
    if dtype == "float32" and isinstance(table, Int8Table):
        return table  # a few texts need a few rows
    if not isinstance(table, np.memmap):
        return in_format(np.asarray(table), np.dtype(dtype))
    if not np.can_cast(table.dtype, dtype, "safe"):
        raise ValueError(
            f"The table is stored as {table.dtype}, so it cannot be mapped as {dtype}. Take "
            f"dtype={str(table.dtype)!r}, or leave out mmap."
        )
    return table


def loaded_encoder(model: str, **options: Any) -> FastEncoder:
    """Load a model by `FastEncoder.from_pretrained` once, and again if its folder was replaced."""
    folder = Path(model)
    status = folder.stat() if folder.is_dir() else None
    return _loaded(model, status and (status.st_ino, status.st_mtime_ns), **options)


@functools.lru_cache(_KEPT_MODELS)
def _loaded(model: str, version: tuple[int, int] | None, **options: Any) -> FastEncoder:
    return FastEncoder.from_pretrained(model, **options)
