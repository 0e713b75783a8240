"""Write tables: as Markdown to read, as CSV and JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from polars import selectors

from st_static.files import check_writable, output_file


def as_markdown(table: pl.DataFrame) -> str:
    """Format a table as Markdown, with two digits for scores, and nothing for nulls."""
    # As strings, since polars would print "null" in a column of numbers.
    table = table.with_columns(
        pl.Series(column.name, ["" if value is None else pattern.format(value) for value in column])
        for column in table
        if column.dtype.is_numeric() and column.has_nulls()
        for pattern in ("{:.2f}" if column.dtype.is_float() else "{}",)
    )
    with pl.Config(
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=-1,
        fmt_str_lengths=200,
        float_precision=2,
    ):
        return str(table)


def check_place(stem: Path) -> None:
    """Check that a table can be written, and replaces either all three of its files or none."""
    check_writable(stem.parent, f"The output {stem}")
    files = [stem.with_name(stem.name + suffix) for suffix in (".md", ".csv", ".json")]
    taken = [str(file) for file in files if file.exists()]
    if 0 < len(taken) < len(files):
        raise ValueError(
            f"{' and '.join(taken)} would be overwritten, and may not be a table of this command. "
            "Give another --output, or move it away."
        )


def write_table(table: pl.DataFrame, stem: Path) -> list[Path]:
    """Write a table as Markdown, CSV and JSON: `stem` with `.md`, `.csv` and `.json`.

    NaN is written as no value, since JSON has no NaN.
    """
    table = table.with_columns(selectors.float().fill_nan(None))
    texts = {
        ".md": as_markdown(table) + "\n",
        ".csv": table.write_csv(float_precision=2),
        ".json": json.dumps(table.to_dicts(), indent=2) + "\n",
    }
    files = []
    for suffix, text in texts.items():
        files.append(stem.with_name(stem.name + suffix))
        with output_file(files[-1]) as partial:
            partial.write_text(text, "utf-8")
    return files
