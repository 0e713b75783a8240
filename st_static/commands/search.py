"""The command `search`: a file or folder of texts and queries in, the best texts out."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from st_static.arguments import check_file, require
from st_static.commands.options import MODEL, CommandParser, named_model
from st_static.dependencies import needed_by, require_packages
from st_static.hub import may_be_model

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from st_static.encode.explain import Pair
    from st_static.encode.fast_encoder import FastEncoder
    from st_static.search.search_index import Hit, Passes, SearchIndex

    # Some texts, with columns of them.
    Texts = tuple[pa.ChunkedArray, pa.Table]

_SHOWN = 160  # characters of a value on the terminal
_TELLING = 0.05  # the least share in a cosine of a pair of words that is shown
_PAIRS = 3  # shown of a hit
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tab and line feed
_FORMATS = (".jsonl", ".parquet")
_OF_HIT = ("position", "score", "meaning", "words", "matched")  # as they are called in Python


def run(arguments: Sequence[str]) -> int:
    """Run `search`."""
    parser = CommandParser(
        prog="st-static search",
        description="Find the texts of a file or folder that are nearest to queries, by their "
        'meaning and by their words: st-static search --input FILE "query" …',
    )
    add = parser.add_argument
    add("model", nargs="?", help=MODEL)
    lines = "By default each line of standard input; with --input and --index, none."
    add("queries", nargs="*", metavar="query", default=[], help=lines)
    add(
        "--input",
        type=Path,
        help="File of texts: txt (one a line), CSV, TSV, JSON lines or Parquet, by its name; all "
        "but Parquet also compressed. Or a folder of documents: txt, md, rst and html.",
    )
    formats = ["txt", "jsonl", "csv", "tsv", "parquet"]
    add("--input_format", choices=formats, help="What the input holds, if its name does not say.")
    quoting = "For CSV and TSV: with none, quotes are text; with double, they may hold line breaks."
    add("--quoting", choices=["double", "none"], help=quoting)
    missing = (
        "A missing text is an error, or an empty text, which is never found; by default error."
    )
    add("--null", choices=["error", "empty"], help=missing)
    add("--column", help="Name of the column of texts in a table; by default text.")
    add("--keep", help="Columns to show instead of the text, such as id or id,title.")
    add("--index", type=Path, help="Folder to save the index in, or to open without --input.")
    by = "Rank by the model, by words (BM25), or by the mean of both; by default both."
    add("--by", choices=["both", "meaning", "words"], default="both", help=by)
    where = "Find only texts that pass a condition in SQL on the index's columns, as in --where "
    where += "\"lang = 'en' AND price < 10\"."
    add("--where", help=where)
    add("--top", type=int, default=10, help="Hits for each query; by default 10.")
    least = "Find only texts with at least this score, such as 0.3; by default the best, even if "
    add("--at_least", type=float, help=least + "none fits.")
    add("--output", type=Path, help="File for the hits, .jsonl or .parquet.")
    options = parser.read(arguments)
    _tell_model_from_query(options)
    _check(options)
    from st_static.encode.fast_encoder import FastEncoder
    from st_static.search.search_index import SearchIndex

    with _opened(options) as texts:
        encoder = FastEncoder.from_pretrained(named_model(options.model))
        if texts is None:
            index = SearchIndex.open(options.index, encoder)
        else:
            index = _built(encoder, texts, options)
    if _is_asked(options):
        _answer(index, options)
    return 0


def _tell_model_from_query(options: argparse.Namespace) -> None:
    """Take what stands first for a query, if it cannot be a model's name: it has spaces, or stands
    alone. One word before others is a misspelt model rather than a query."""
    first = options.model
    require(first != "", "Expected a model or a query, but got an empty text.")
    if not first or os.path.exists(first):
        return
    if " " in first or not (options.queries or may_be_model(first)):
        options.model, options.queries = None, [first, *options.queries]
    elif not may_be_model(first):
        raise ValueError(
            f"There is no model {first!r}: a model is a folder, or ORG/NAME. Put a query of "
            "several words in quotes, and name a model before several queries."
        )


def _is_asked(options: argparse.Namespace) -> bool:
    """Tell whether there are queries to answer: an index may only be built."""
    return bool(options.queries) or not (options.input and options.index)


def _check(options: argparse.Namespace) -> None:
    """Check what the options alone tell."""
    require(
        options.input or options.index,
        "Name the texts to search in with --input FILE, or a saved index with --index DIR.",
    )
    require(options.top > 0, f"--top is a number of hits, at least 1, but it is {options.top}.")
    is_score = options.at_least is None or abs(options.at_least) < 1e38  # fits float32
    require(is_score, f"--at_least is a score, such as 0.3, but it is {options.at_least}.")
    for name in ("input_format", "quoting", "null", "column", "keep"):
        is_used = options.input or not getattr(options, name)
        require(is_used, f"--{name} is about a file of texts: add --input FILE.")
        is_of_folder = name == "keep" or not (options.input and options.input.is_dir())
        message = f"--{name} is about a table, but {options.input} is a folder: leave it out."
        require(is_of_folder or not getattr(options, name), message)
    for name in ("output", "where"):
        value = getattr(options, name)
        message = f"--{name} {value} is for hits: name a query, too."
        require(value is None or _is_asked(options), message)
    if options.where is not None:
        with needed_by("The option --where", "sql"):
            require_packages("duckdb")
    if options.output:
        from st_static.files import check_writable

        is_known = options.output.suffix in _FORMATS
        formats = " or ".join(_FORMATS)
        require(is_known, f"{options.output}: expected a name that ends with {formats}.")
        check_writable(options.output.parent, f"The output {options.output}")
        is_input = options.input and options.output.resolve() == options.input.resolve()
        require(not is_input, f"{options.output} is the input: it would be overwritten.")
        _check_free((options.keep or "text").split(","))
    if options.input and options.index:
        from st_static.search.index_files import check_index_folder

        check_index_folder(options.index)


def _check_free(columns: Iterable[str]) -> None:
    """Check that no column of the texts has the name of one of the output's own."""
    for name in columns:
        is_free = name not in ("query", "rank", *_OF_HIT)
        require(is_free, f"The column {name!r} has the name of one of --output: rename it.")


@contextlib.contextmanager
def _opened(options: argparse.Namespace) -> Iterator[Iterable[Texts] | None]:
    """Read a folder, or open a file of texts and show progress as it is read."""
    if not options.input:
        yield None
        return
    if options.input.is_dir():
        from st_static.texts.folder import read_folder

        passages = read_folder(options.input)
        yield [(passages["text"], passages)]
        return
    from st_static.commands.encode import followed
    from st_static.texts.text_files import TextReader, decompressed, input_format_of, split_name

    if not options.input.is_fifo():
        check_file(options.input)
    input_format = input_format_of(options.input, options.input_format)
    is_table = input_format != "txt"
    for name in ("column", "keep"):
        value = getattr(options, name)
        message = f"--{name} names a column, but {options.input} is text, a text a line."
        require(is_table or not value, message)
    with options.input.open("rb") as stream:
        reader = TextReader(
            decompressed(stream, split_name(options.input)[1], str(options.input)),
            input_format,
            options.column or "text",
            null=options.null or "error",
            keep=bool(options.keep),
            name=str(options.input),
            quoting=options.quoting,
            remedies=("name one with --column", "Correct the row, or leave it out."),
        )
        with contextlib.closing(followed(reader, stream, time.perf_counter())) as rows:
            yield ((batch.texts, batch.columns) for batch in rows)


def _built(
    encoder: FastEncoder, texts: Iterable[Texts], options: argparse.Namespace
) -> SearchIndex:
    """Index texts, save the index if that is wanted, and count the texts."""
    from st_static.search.search_index import SearchIndex

    start = time.perf_counter()
    index = SearchIndex.of_parts(encoder, _parts(texts, options))
    if options.index:
        index.save(options.index)
    said = f"{len(index):,} texts in {time.perf_counter() - start:.1f} s"
    alone = f", {len(index.unknown):,} without a known word" if len(index.unknown) else ""
    where = f": {options.index}" if options.index else ""
    print(said + alone + where, file=sys.stderr)
    return index


def _parts(texts: Iterable[Texts], options: argparse.Namespace) -> Iterator[Texts]:
    """Gather texts into parts that are encoded at a time, with the columns to keep."""
    import pyarrow as pa

    from st_static.search.filters import passing_sql
    from st_static.search.search_index import BLOCK

    waiting: list[Texts] = []

    def gathered() -> Texts:
        chunks = [chunk for batch, _ in waiting for chunk in batch.chunks]
        whole = pa.chunked_array([pa.concat_arrays(chunks)] if chunks else [], pa.large_string())
        columns = pa.concat_tables([columns for _, columns in waiting])
        waiting.clear()
        return whole, columns

    n_texts = 0
    for i, (batch, columns) in enumerate(texts):
        n_texts += len(batch)
        names = columns.column_names
        wanted = options.keep.split(",") if options.keep else names
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(
                f"There is no column {missing[0]!r} in {options.input}. Its columns are "
                f"{', '.join(names)}: name some with --keep, as in --keep {','.join(names[:2])}."
            )
        chosen = columns.select(wanted)
        if i == 0 and options.where is not None:  # before any text is encoded
            passing_sql(options.where, chosen.slice(0, 0))
        waiting.append((batch, chosen))
        if sum(len(batch) for batch, _ in waiting) >= BLOCK:
            yield gathered()
    require(n_texts > 0, f"There are no texts to search in: {options.input} has none.")
    if waiting:
        yield gathered()


def _answer(index: SearchIndex, options: argparse.Namespace) -> None:
    """Answer the queries of the command line or of standard input, into a file or as they come."""
    from st_static.search.filters import passing_sql

    passes = None if options.where is None else passing_sql(options.where, index.rows)
    if options.output:
        _check_free(index.rows.column_names)  # an opened index may come from Python
        queries = options.queries or _lines(sys.stdin)
        answers = [(query, _hits_of(index, query, options, passes)) for query in queries]
        _write(answers, options.output, index.rows)
        n_hits = sum(len(hits) for _, hits in answers)
        print(f"{n_hits:,} hits: {options.output}", file=sys.stderr)
        return
    chance = index.chance(options.by)
    terminal = None
    if sys.stdout.isatty():
        from rich.console import Console

        colours: Any = None if os.environ.get("NO_COLOR") else "auto"  # with None, no bold either
        as_is: Any = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": True}
        terminal = Console(color_system=colours, **as_is)
    say = terminal.print if terminal else functools.partial(print, flush=True)
    is_typed = terminal and not options.queries and sys.stdin.isatty()  # so it is seen already
    for query in options.queries or _lines(sys.stdin):
        if not is_typed:
            say(_CONTROL.sub("\ufffd", query))
        for hit in _hits_of(index, query, options, passes):
            location, *values = _placed(hit)
            shown: list[Any] = [_shortened(value) for value in values]
            notes = ["(by its words alone)"] * (hit.meaning is None)
            notes += ["(hardly better than chance)"] * (hit.score <= chance)
            if terminal:
                pairs = index.pairs(query, hit) if options.by != "words" else []
                shown = _marked(index, shown, hit.matched, pairs)
            say(f"  {hit.score:.3f}", location, *shown, *notes, sep="  ")


def _placed(hit: Hit) -> list[Any]:
    """List the values of a hit behind its place: file and line, or its row number."""
    row = dict(hit.row)
    if {"file", "line"} <= row.keys():
        location = f"{row.pop('file')}:{row.pop('line')}"
        return [_CONTROL.sub("\ufffd", location.replace("\n", "\0")), *row.values()]
    return [hit.position + 1, *row.values()]


def _marked(
    index: SearchIndex, shown: Sequence[str], matched: Sequence[str], pairs: Sequence[Pair]
) -> list[Text]:
    """Make the query's words bold in what is shown of a hit, underline others that are near to the
    query's, and add their pairs."""
    from rich.text import Text

    from st_static.encode.explain import split_into_words
    from st_static.search.word_index import stems_of, words_of_each
    from st_static.texts import arrow

    telling = (pair for pair in pairs if pair.share >= _TELLING)
    near = [pair for pair in telling if pair.first.casefold() != pair.second.casefold()][:_PAIRS]
    texts = [Text(value) for value in shown]
    stemmer = index.words.stemmer
    stems = set(stems_of(arrow.strings(matched), stemmer).to_pylist())
    for text in texts:
        words = split_into_words(index.encoder.model, text.plain)
        words_of = words_of_each([word.text for word in words], stemmer)
        for word, folded in zip(words, words_of, strict=True):
            style = "underline" if word.text in (pair.second for pair in near) else ""
            style = style if stems.isdisjoint(folded) else "bold"
            text.stylize(style, word.begin, word.begin + len(word.text))
    note = _shortened(", ".join(f"{pair.first} ~ {pair.second}" for pair in near))
    return [*texts, *([Text(f"({note})", "dim")] if note else [])]


def _hits_of(
    index: SearchIndex, query: str, options: argparse.Namespace, passes: Passes
) -> list[Hit]:
    """Find a query's hits, and say what kept them from being found by their meaning."""
    hits = index.search(query, options.top, by=options.by, at_least=options.at_least, where=passes)
    if options.by != "words" and not index.encoder.encode_query(query).any():
        ending = "nothing is found by meaning" if options.by == "meaning" else "BM25 alone ranks"
        print(f"The model has no vector for {_shortened(query)!r}: {ending}.", file=sys.stderr)
    if not hits:
        why = "" if passes is None or passes.any() else f": no text passes {options.where}"
        if options.at_least is not None:
            for best in index.search(query, 1, options.by, where=passes):
                why = f": nothing reaches {options.at_least:g}, the best has {best.score:.3f}"
        print(f"Nothing was found for {_shortened(query)!r}{why}.", file=sys.stderr)
    return hits


def _write(answers: Sequence[tuple[str, list[Hit]]], output: Path, texts: pa.Table) -> None:
    """Write the hits of queries with their texts' columns: in Parquet, these as they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from st_static.files import output_file
    from st_static.texts.python_rows import json_line

    number, count, text = pa.float64(), pa.int64(), pa.string()
    of_hit = [count, number, number, number, pa.list_(text)]
    kinds = {"query": text, "rank": count, **dict(zip(_OF_HIT, of_hit, strict=True))}
    hits = [(query, *ranked) for query, some in answers for ranked in enumerate(some, 1)]
    dicts = [
        {"query": query, "rank": rank, **{name: getattr(hit, name) for name in _OF_HIT}}
        for query, rank, hit in hits
    ]
    with output_file(output) as temporary:
        if output.suffix == ".parquet":
            table = pa.Table.from_pylist(dicts, pa.schema(kinds))
            # `take` would copy whole columns.
            rows = [texts.slice(hit.position, 1) for *_, hit in hits] or [texts.slice(0, 0)]
            schema = pa.schema([*table.schema, *texts.schema])
            columns = [*table.columns, *pa.concat_tables(rows).columns]
            pq.write_table(pa.Table.from_arrays(columns, schema=schema), temporary)
            return
        lines = (json_line({**row, **hit.row}) for row, (*_, hit) in zip(dicts, hits, strict=True))
        temporary.write_text("".join(lines), "utf-8")


def _lines(stream: IO[str]) -> Iterator[str]:
    """Read queries, one a line; bytes that are no UTF-8 become signs that match nothing."""
    from st_static.texts.file_rows import checked_text

    if stream.isatty():
        print("Type a query; Ctrl-D ends.", file=sys.stderr)
    if isinstance(stream, io.TextIOWrapper):
        checked_text(stream.buffer, "Standard input")
        stream.reconfigure(errors="replace")
    return (line.strip() for line in stream if line.strip())


def _shortened(value: Any) -> str:
    """Spell a value in one line of the terminal."""
    text = _CONTROL.sub("\ufffd", " ".join(str(value).split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
