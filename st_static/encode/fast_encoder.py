"""Static models without sentence-transformers' overhead."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from numbers import Integral
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from st_static.arguments import as_path, check_type
from st_static.encode.arguments import check_out, check_positive
from st_static.encode.lazy_encoder import LazyEncoder, are_few
from st_static.encode.scaling import scale_to_unit
from st_static.encode.similarity import similarities
from st_static.encode.table_format import TableFormat, check_format, in_memory, vector_format
from st_static.encode.unknown import (
    Unknown,
    UnknownInArray,
    check_known,
    check_unknown,
    check_unknown_in_array,
)
from st_static.files import output_file
from st_static.model.model_folder import read_static_model
from st_static.model.static_model import StaticModel
from st_static.processors import n_processors

# Loaded where they are used: they need pyarrow or torch, which single texts do not.
if TYPE_CHECKING:
    import pyarrow as pa

    from st_static.encode.encode_files import Written
    from st_static.encode.file_names import OutputFormat
    from st_static.texts.columns import Null
    from st_static.texts.file_rows import Rows
    from st_static.tokens.fast_tokenizer import FastTokenizer


class FastEncoder:
    """Encodes texts with a static model, as sentence-transformers does, only faster.

    It may be used by several threads at a time. A text without any word that the model knows, an
    empty one too, has a vector of zeros, in float16, too, where sentence-transformers gives NaN.
    If the row of the tokenizer's unknown token is not zeros, it counts as a word, as there.

    Args:
        model: Tokenizer and table, as read by `read_static_model`.
        dtype: Number format of the table in memory. float16 takes half the memory, and vectors are
            float16, too, and differ by about 1e-3. int8 has a scale for each row (in a fused
            ensemble, for each row and member) and takes about a quarter; vectors are float32, and
            differ by about 1e-3, too.
        threads: Number of threads; by default one for each processor that the process may use.

    Raises:
        TypeError: The model is not a `StaticModel`, or threads is not a whole number.
        ValueError: dtype or threads is none of these, or values are too large for float16, or not
            finite for int8.

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
    ) -> None:
        if not isinstance(model, StaticModel):
            given = repr(model) if isinstance(model, str) else type(model).__name__
            raise TypeError(
                f"Expected a StaticModel, but got {given}. "
                "FastEncoder.from_pretrained loads a folder or a repository of the Hub."
            )
        check_format(dtype)
        if threads is not None:
            check_type(threads, Integral, "a whole number as threads")
            if threads < 1:
                raise ValueError(f"Expected at least one thread, but got {threads}.")
        self.dtype, self._table_format = vector_format(dtype), dtype
        self.threads = threads or n_processors()
        self._variants: dict[tuple[str, int | None], FastEncoder] = {}
        self._encoder = LazyEncoder(in_memory(model, dtype), self.dtype)

    @property
    def model(self) -> StaticModel:
        """Tokenizer, table, prompts and number of dimensions."""
        return self._encoder.model

    @property
    def tokenize(self) -> FastTokenizer:
        """Token ids of texts, see `FastTokenizer`."""
        return self._encoder.tokenize

    def _variant(self, **changes: Any) -> FastEncoder:
        """The same encoder with another prompt or number of dimensions; it shares all memory."""
        model = dataclasses.replace(self.model, **changes)
        key = model.prompt, model.truncate_dim
        if key == (self.model.prompt, self.model.truncate_dim):
            return self
        if key not in self._variants:
            variant = object.__new__(type(self))
            variant.__dict__.update(self.__dict__, _variants={})  # shared, it would hold itself
            variant._encoder = self._encoder.variant(model)
            self._variants[key] = variant
        return self._variants[key]

    def _truncated_to(self, truncate_dim: int) -> FastEncoder:
        check_positive("truncate_dim", truncate_dim)
        return self._variant(truncate_dim=truncate_dim)

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
            token: The Hub's token; by default the one that was logged in with.
            cache_folder: Where downloads are kept; by default the Hub's cache.
            dtype: See the class.
            threads: See the class.
            truncate_dim: How many of the first dimensions vectors have; by default what the model
                says, or all.
            mmap: Whether the table is mapped into memory: only rows that are used are read, and
                processes share them. Its file must not change meanwhile. A table that is stored in
                a narrower format than dtype is converted as a whole when torch is first needed. It
                cannot be mapped as int8.

        Raises:
            ValueError: It is not a static model, its parts do not fit, or its table cannot be
                mapped.
            TypeError: An argument is of the wrong kind.
        """
        check_positive("truncate_dim", truncate_dim)
        check_format(dtype, mmap)
        static = read_static_model(model, revision, token, cache_folder, mmap, dtype == "int8")
        if truncate_dim is not None:
            static = dataclasses.replace(static, truncate_dim=truncate_dim)
        return cls(static, dtype, threads)

    @property
    def dimension(self) -> int:
        """Output dimension D."""
        return self._encoder.dimension

    def get_embedding_dimension(self) -> int:
        """The output dimension D, as sentence-transformers calls it."""
        return self.dimension

    def encode(
        self,
        texts: Any,
        out: NDArray[np.floating] | None = None,
        null: Null = "error",
        unknown: UnknownInArray = "zero",
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
                vector of zeros or an error. `encode_to` and `ArrowEncoder` can also leave it out,
                or write null.
            batch_size: Changes nothing: neither vectors nor speed depend on it.
            show_progress_bar: Whether to show a progress bar over the texts.
            normalize_embeddings: Whether to scale vectors to length 1; zeros stay zeros.
            truncate_dim: How many of the first dimensions to keep, before they are scaled to length
                1; by default as many as the encoder has.

        Returns:
            Vectors [B, D]; of a str one vector [D]. A text without any known word gets zeros.

        Raises:
            TypeError: It is not a str, list or column; or a text is missing or not a str, whose
                position is named; or batch_size or truncate_dim is not a whole number.
            ValueError: A text is not valid Unicode, or has no known word and `unknown` is "error";
                `out` has another shape or number format; or an option has no such value.
        """
        if null != "error" or unknown != "zero":  # a call more is a fiftieth of a short text's time
            texts = _nameable(texts, null, unknown)
        if batch_size is not None:
            check_positive("batch_size", batch_size)
        encoder = self if truncate_dim is None else self._truncated_to(truncate_dim)
        vectors = encoder._encode(texts, out, null, bool(show_progress_bar))
        if unknown == "error":
            check_known(vectors, texts, null)
        if normalize_embeddings:
            scale_to_unit(vectors)
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
            return self._encoder.encode_one(texts)
        if isinstance(texts, list) and are_few(texts):
            vectors = self._room(len(texts), out)
            self._encoder.encode_few(texts, vectors)
            return vectors
        # A list goes as it is: to make a column of it takes a third of the time of its vectors.
        is_list = isinstance(texts, list) and set(map(type, texts)) <= {str}
        column = texts if is_list else _column(texts, null)
        vectors = self._room(len(column), out)
        try:
            self._encoder.encode_column(column, vectors, self.threads, show_progress_bar)
        except ValueError:
            _column(texts, null)  # says which text is not valid Unicode, if one is
            raise
        return vectors

    def _room(self, n: int, out: NDArray[np.floating] | None) -> NDArray[np.floating]:
        """Where the vectors of n texts are written, [n, D]: `out`, if it is given and fits."""
        shape = (n, self.dimension)
        return np.empty(shape, self.dtype) if out is None else check_out(out, shape, self.dtype)

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
                vector of zeros, null (in parquet), left out ("skip") or an error.

        Returns:
            The number of vectors N.

        Raises:
            TypeError: A text is missing or not a str; names its position.
            ValueError: The format is not known, not that of the name, or has no null; or a text has
                no known word and `unknown` is "error".
        """
        from st_static.encode.encode_files import batches
        from st_static.encode.file_names import check_target, output_format_of
        from st_static.texts.columns import check_null

        check_null(null)
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
        """The same, into a stream open in binary mode.

        Args:
            texts: Columns of texts, or rows as `TextReader` gives them.
            stream: Where to.
            format: As for `encode_to`.
            unknown: As for `encode_to`.
        """
        from st_static.encode.encode_files import encode_batches

        return encode_batches(
            self._encoder.encode_column,
            self.threads,
            texts,
            stream,
            self.dimension,
            self.dtype,
            format,
            unknown,
        )


def _column(texts: Any, null: Null) -> pa.ChunkedArray:
    from st_static.texts.columns import text_column

    return text_column(texts, null)


def _nameable(texts: Any, null: Null, unknown: UnknownInArray) -> Any:
    """Check the words for what becomes of some texts, and keep texts that may have to be named."""
    from st_static.texts.columns import check_null

    check_null(null)
    check_unknown_in_array(unknown)
    return list(texts) if unknown == "error" and isinstance(texts, Iterator) else texts
