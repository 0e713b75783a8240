"""Text vectors to a model's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np

from st_static.arguments import as_path, require
from st_static.languages import has_dotless_i
from st_static.model.export import check_output, export_model
from st_static.model.text_vectors import LeftOut, read_word_vectors
from st_static.model.tokenizer import is_punctuation
from st_static.model.word_tokenizer import KnownWords, capitalised


@dataclass(frozen=True)
class Source:
    """What is known of text vectors beside what their file says.

    Attributes:
        teacher: The Hub's id of the model that they were distilled from, if they were.
        license: Their licence, as the Hub calls it.
        languages: Their languages, without script and region.
    """

    teacher: str | None = None
    license: str | None = None
    languages: Sequence[str] = ()


@dataclass(frozen=True)
class Conversion:
    """What became of text vectors.

    Attributes:
        output: The model's folder.
        n_words: Number of words with a row, V.
        dimension: Of the vectors, D.
        n_punctuation: Number of the words that are punctuation.
        known: What finds the words in texts.
        capitalised: Words with capitals, for which texts keep theirs if there are more than a few.
        never_found: Words that no text is split into, see `KnownWords.never_found`.
        repeated: Further rows of words that came before, which were left out.
        reserved: Rows of `[PAD]` and `[UNK]`, which were left out.
    """

    output: Path
    n_words: int
    dimension: int
    n_punctuation: int
    known: KnownWords
    capitalised: Sequence[str]
    never_found: Sequence[str]
    repeated: Sequence[LeftOut]
    reserved: Sequence[LeftOut]


def convert(
    file: str | Path,
    output: str | Path,
    limit: int | None = None,
    dtype: str = "float32",
    source: Source | None = None,
) -> Conversion:
    """Write a file of text vectors as a model that sentence-transformers and Model2Vec load.

    Args:
        file: The text vectors, see `read_word_vectors`.
        output: The model's folder, see `export_model`.
        limit: The number of rows that are taken, from the first: those of the most frequent words,
            in most files; by default all.
        dtype: Number format of the table, "float32" or "float16".
        source: Where the vectors are from.

    Raises:
        ValueError: Something is wrong with the file or the folder. Nothing is written.
    """
    file, output = as_path(file, "a file of text vectors"), as_path(output, "a folder to write")
    require(limit is None or limit > 0, f"limit must be at least 1, but got {limit}.")
    check_output(output)
    source = source or Source()
    dotless_i = has_dotless_i(source.languages) if source.languages else None
    vectors = replace(read_word_vectors(file, limit), dotless_i=dotless_i)
    model = vectors.as_static_model(file.name)
    known, words = vectors.known, vectors.words
    done = Conversion(
        output,
        n_words=len(words) - len(known.alike),
        dimension=vectors.table.shape[1],
        n_punctuation=sum(map(is_punctuation, words)),
        known=known,
        capitalised=capitalised(words),
        never_found=known.never_found(),
        repeated=vectors.repeated,
        reserved=vectors.reserved,
    )
    if len(done.never_found) == done.n_words:
        raise ValueError(
            f"No text is split into any of the {done.n_words:,} words of {file}, such as "
            f"{done.never_found[0]!r}. Expected words as they stand between spaces."
        )
    del vectors  # a gigabyte, perhaps, which the model has by itself
    facts = {
        "file": file.name,
        "limit": limit,
        "dtype": dtype,
        "words": done.n_words,
        "dimension": done.dimension,
        "punctuation": done.n_punctuation,
        **known.normalization._asdict(),
        "form": known.form,
        "brought": len(known.brought),
        "alike": len(known.alike),
        "spellings": len(known.spellings),
        "never_found": len(done.never_found),
        "repeated": len(done.repeated),
        "reserved": len(done.reserved),
        **asdict(source),
    }
    record = {"conversion": facts, "versions": {"st-static": metadata.version("st-static")}}
    export_model(output, np.asarray(model.table), model.tokenizer, record, dtype)
    return done
