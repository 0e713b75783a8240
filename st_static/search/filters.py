"""Find the texts of an index that pass a condition on their columns; null counts as false."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.arguments import require, shown
from st_static.texts import arrow

_POSITION = "__position"  # the column with the row of a result
# What DuckDB adds to a reason, such as similar names, ours among them.
_ADVICE = re.compile(r"\n\s*(?:Candidate|Did you mean|Please|LINE)")
# DuckDB reads nothing but the rows that it is given.
_CLOSED: dict[str, Any] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # of unknown tables by variables of this program
    "lock_configuration": True,
}


def passing(where: Any, rows: pa.Table) -> NDArray[np.bool_]:
    """Evaluate a pyarrow expression over rows [N], or check a mask of them, [N].

    Raises:
        ValueError: The expression names no column of the rows, or the mask has another length.
        TypeError: The values are no booleans.
    """
    names = ", ".join(rows.column_names)
    wanted = f"where to be a pyarrow expression over the columns {names}, or {len(rows):,} booleans"
    is_expression = isinstance(where, pc.Expression)
    passes = where
    try:
        if is_expression:
            with contextlib.suppress(pa.ArrowException):
                _evaluated(where, rows.select([]))
                raise ValueError("it names no column")
            passes = _evaluated(where, rows)
        elif not isinstance(where, pa.Array | pa.ChunkedArray):
            passes = pa.array(where, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        said = f"Expected {wanted}, but got {shown(where)} ({reason})."
        raise (ValueError if is_expression else TypeError)(said) from error
    if passes.type not in (pa.bool_(), pa.null()):
        raise TypeError(f"Expected {wanted}, but got {shown(where)}, of type {passes.type}.")
    require(len(passes) == len(rows), f"Expected {wanted}, but got {len(passes):,}.")
    chunks = passes.chunks if isinstance(passes, pa.ChunkedArray) else [passes]
    return arrow.mask(pa.concat_arrays(chunks).cast(pa.bool_()).fill_null(False))


def _evaluated(expression: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.ProjectNodeOptions([expression], ["passes"])
    # On one thread: on several, the order of the rows is not promised.
    return acero.Declaration("project", project, [source]).to_table(use_threads=False)["passes"]


def passing_sql(condition: str, rows: pa.Table) -> NDArray[np.bool_]:
    """Evaluate the condition of `--where` over rows [N]: one SQL expression over their columns,
    which DuckDB parses and evaluates; a ValueError with its reason if it refuses."""
    import duckdb

    names = ", ".join(rows.column_names)
    hint = f"Text is in single quotes. The index has the columns {names}; others get into it by "
    hint += "--keep, when it is built."
    numbered = rows.append_column(_POSITION, pa.array(np.arange(len(rows))))
    folded = {name.lower() for name in numbered.column_names}
    fault = f"--where ignores case, but columns differ in nothing else: rename some of {names}."
    require(len(folded) == numbered.num_columns, fault)  # DuckDB would take the first
    try:
        with duckdb.connect(config=_CLOSED) as database:
            relation, position = database.from_arrow(numbered), duckdb.ColumnExpression(_POSITION)
            # Once alone, and once in brackets: "a) FROM (b" is refused alone, "a AS b" in them.
            duckdb.SQLExpression(condition)
            expression = duckdb.SQLExpression(f"({condition}\n)")
            # Refuses the position, and aggregates and windows, which `select` takes.
            database.from_arrow(rows).filter(expression)
            kinds = ", ".join(map(str, relation.select(expression).types))
            fault = f"--where {shown(condition)}: expected one boolean a row, but it gives {kinds}."
            require(kinds == "BOOLEAN", fault)
            with contextlib.suppress(duckdb.Error):
                relation.select(position).filter(expression)
                raise ValueError(f"--where {shown(condition)} names no column. {hint}")
            # With positions, since subqueries change the order of the rows.
            passing_rows = relation.select(position, expression.alias("passes")).to_arrow_table()
    except duckdb.Error as error:
        reason = " ".join(_ADVICE.split(str(error))[0].split()).rstrip(".!")
        said = f"--where {shown(condition)}: DuckDB refuses it ({reason}). {hint}"
        raise ValueError(said) from error
    passes = np.zeros(len(rows), np.bool_)
    passes[passing_rows.filter(passing_rows["passes"])[_POSITION].to_numpy()] = True
    return passes
