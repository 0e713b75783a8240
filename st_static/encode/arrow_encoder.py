"""Add vectors as a column to Arrow tables, wherever an engine sends their batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from st_static.arguments import check_model_name, check_type
from st_static.encode.encode_files import EMBEDDING
from st_static.encode.fast_encoder import FastEncoder, TableFormat, loaded_encoder
from st_static.encode.scaling import Unknown, UnknownInArray, are_zeros, check_unknown
from st_static.hub import whole_path
from st_static.texts import arrow
from st_static.texts.arrow import Batch
from st_static.texts.columns import Null, check_null


class ArrowEncoder:
    """Adds the vectors of a column of texts to Arrow tables and record batches.

    Engines that process Arrow batches call it with each: Ray Data, DuckDB, Polars, pandas, Spark,
    Daft. Its pickle is small, for it holds the model's name and not its table; each process that
    receives it loads the model once.

    Args:
        model: A folder, or an id on the Hub, that every process can read.
        column: Name of the column of texts.
        output_column: Name of the column of vectors, which tables must not have yet.
        revision: Branch, tag or commit on the Hub. Name a commit where processes must not differ.
        dtype: Number format, as `FastEncoder` takes it.
        threads: Number of threads; by default one for each processor that a process may use. Take 1
            where an engine runs one process on each processor.
        truncate_dim: How many of the first dimensions vectors have; by default all.
        null: Whether a missing text is an error or an empty text.
        unknown: Whether a text without any word that the model knows is a vector of zeros, null, a
            row that is left out ("skip") or an error.

    Raises:
        ValueError: It is not a static model, or an argument has no such value.
        TypeError: An argument is of the wrong kind.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from st_static.model.export import export_model
        >>> from st_static.model.tokenizer import build_tokenizer
        >>> folder = Path(tempfile.mkdtemp(), "model")
        >>> table = np.array([[0, 0], [0, 0], [0, 2]], dtype=np.float32)
        >>> export_model(folder, table, build_tokenizer(["ship"]), {})
        >>> encoder = ArrowEncoder(folder, column="body")
        >>> encoder(pa.table({"body": ["A ship."]}))["embedding"].to_pylist()
        [[0.0, 1.0]]
    """

    def __init__(
        self,
        model: str | Path,
        column: str = "text",
        output_column: str = EMBEDDING,
        *,
        revision: str | None = None,
        dtype: TableFormat = "float32",
        threads: int | None = None,
        truncate_dim: int | None = None,
        null: Null = "error",
        unknown: Unknown = "zero",
    ) -> None:
        check_model_name(model)
        check_type(column, str, "the name of a column")
        check_type(output_column, str, "the name of a column")
        check_null(null)
        check_unknown(unknown)
        self.column, self.output_column = column, output_column
        self._null, self._unknown = null, unknown
        self._options: dict[str, Any] = {"revision": revision, "dtype": dtype}
        self._options |= {"threads": threads, "truncate_dim": truncate_dim}
        self._model = whole_path(model)
        self.encoder = FastEncoder.from_pretrained(self._model, **self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "encoder"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.encoder = loaded_encoder(self._model, **self._options)

    @property
    def field(self) -> pa.Field:
        """The column of vectors: a fixed-size list of D numbers."""
        numbers = pa.from_numpy_dtype(self.encoder.dtype)
        return pa.field(self.output_column, pa.list_(numbers, self.encoder.dimension))

    def __call__(self, batch: Batch) -> Batch:
        """Add the column of vectors.

        Args:
            batch: A table or record batch, [B].

        Returns:
            The batch with one more column, [B], or with fewer rows if `unknown` is "skip".

        Raises:
            TypeError: It is neither; the column does not hold texts; or a text is missing (the
                message names its position).
            ValueError: It has no such column, or already one with the name of the vectors'; or a
                text has no known word and `unknown` is "error".
        """
        check_type(batch, (pa.Table, pa.RecordBatch), "an Arrow table or record batch")
        names = batch.schema.names
        if names.count(self.column) != 1:
            count = "no column" if self.column not in names else "more than one column"
            raise ValueError(
                f"Expected one column {self.column!r} of texts, but the table has {count} of that "
                f"name. Its columns are {', '.join(names) or 'none'}: name one with column=…."
            )
        if self.output_column in names:
            raise ValueError(
                f"The table has a column {self.output_column!r} already: name the vectors' column "
                "with output_column=…, or leave that one out."
            )
        texts = batch.column(batch.schema.get_field_index(self.column))
        unknown: UnknownInArray = "error" if self._unknown == "error" else "zero"
        vectors = self.encoder.encode(texts, null=self._null, unknown=unknown)
        is_unknown = are_zeros(vectors)
        if self._unknown == "skip":
            batch, vectors = arrow.rows_where(batch, ~is_unknown), vectors[~is_unknown]
        missing = is_unknown if self._unknown == "null" else np.zeros(len(vectors), np.bool_)
        # In the table's own parts: Polars cannot read a slice of lists if some are null.
        parts = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
        ends = np.cumsum([part.num_rows for part in parts])[:-1]
        lists = list(map(arrow.lists, np.split(vectors, ends), np.split(missing, ends)))
        column = pa.chunked_array(lists) if isinstance(batch, pa.Table) else lists[0]
        return batch.append_column(self.field, column)
