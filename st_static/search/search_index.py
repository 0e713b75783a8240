"""Find the texts that are nearest to a query by their meaning, by their words, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.arguments import as_matrix, as_path, check_type, require
from st_static.encode.fast_encoder import FastEncoder
from st_static.files import (
    Arrays,
    npy_header,
    read_json,
    read_table,
    write_arrays,
    write_json,
    write_table,
)
from st_static.model.replacement import check_output_folder, present, replacing
from st_static.model.table import quantize_rows, stored_arrays
from st_static.model.vectors import unit_rows
from st_static.search.word_index import WordIndex, split_texts
from st_static.texts.columns import text_column

By = Literal["both", "meaning", "words"]
Scores = NDArray[np.float32]

_FORMAT = 3  # of a saved index: raise it when older indexes cannot be read any more
_HEADER, _VECTORS, _ARRAYS = "index.json", "vectors.npy", "arrays.safetensors"
_WORDS, _ROWS = "words.arrow", "rows.arrow"
# Of vectors, scales, starts, texts and weights.
_KINDS = tuple(map(np.dtype, ("uint8", "float32", "int64", "int32", "float32")))
_FILES = {_HEADER, _VECTORS, _ARRAYS, _WORDS, _ROWS}
BLOCK = 65_536
"""Texts that are encoded, or compared, at a time."""
_RUN = 256  # scores of which the largest is looked at first
# As many more texts than are wanted are compared with the query in float32: with the query in int8,
# too, cosines are wrong, mostly by less than 0.005, so that the order of close ones may be.
_MORE = 100
# A model fits an index if it gives the index's probes, tokens of the model that built it, the same
# vectors: in int8, their cosine is at least 0.999.
_PROBES = 32
_SAME = 0.998


class Hit(NamedTuple):
    """A text that was found."""

    position: int  # among all texts, from 0
    score: float  # in the ranking that was asked for
    meaning: float | None  # the cosine; None if the text or the query has no known word
    words: float  # BM25's score; 0 without a common word
    row: dict[str, Any]  # the text's columns


class Fusion(NamedTuple):
    """Adds the scores of a query's two rankings as `both` does."""

    lowest: float  # of the cosines of all texts
    spread: float  # from the lowest to the highest
    complete: float  # BM25's score of a text of average length with each word of the query

    @classmethod
    def of(cls, cosines: Scores, complete: float) -> Fusion:
        """Scale by the cosines of all texts, [N], or the lowest and highest of each block; NaN for
        texts without a vector."""
        lowest = float(np.nan_to_num(np.fmin.reduce(cosines)))
        highest = float(np.nan_to_num(np.fmax.reduce(cosines)))
        return cls(lowest, (highest - lowest) or 1.0, complete or 1.0)

    def __call__(self, cosines: Scores, words: Scores, out: Scores | None = None) -> Scores:
        """Add cosines and BM25's scores of texts, [n]; NaN counts as the lowest cosine."""
        both = np.subtract(cosines, np.float32(self.lowest), out=out)
        np.fmax(both, 0, out=both)  # what was lowest in int8 may be lower still
        both *= np.float32(0.5 / self.spread)
        both += words * np.float32(0.5 / self.complete)
        return both


@dataclass(frozen=True, repr=False, eq=False)
class SearchIndex:
    """Holds the vectors and words of N texts, and finds the best of them for queries.

    A query is compared with all texts, whose vectors are kept in int8. `build` makes an index,
    `save` writes it into a folder, and `open` maps that into memory. Several threads may search at
    a time.

    Example:
        >>> from st_static import FastEncoder, SearchIndex
        >>> encoder = FastEncoder.from_pretrained("st-static/minilm-256")
        >>> texts = ["Reset your password", "Opening hours", "Error X7"]
        >>> index = SearchIndex.build(encoder, texts)
        >>> [hit.row["text"] for hit in index.search("my account is locked", top=1)]
        ['Reset your password']
    """

    encoder: FastEncoder
    rows: pa.Table  # what hits show of the texts, [N]
    vectors: NDArray[np.uint8]  # in int8, plus 128; [N, D]
    scales: NDArray[np.float32]  # which bring a text's vector to length 1, or 0 for zeros; [N]
    words: WordIndex
    probes: tuple[list[str], NDArray[np.float32]]  # some tokens, and their vectors as queries

    @classmethod
    def build(
        cls,
        encoder: FastEncoder,
        texts: Any,
        columns: Mapping[str, Any] | pa.Table | None = None,
        vectors: Any = None,
    ) -> SearchIndex:
        """Index texts, or vectors with ids.

        Args:
            encoder: The model, which also encodes queries.
            texts: N texts, as for `FastEncoder.encode`. An empty one is found only by a vector that
                is given for it. None to index `vectors` and `columns` alone: then only the meaning
                counts.
            columns: What hits show, such as ids, [N] each; by default the texts.
            vectors: The texts' vectors [N, D], if there are any: of this model, or of its teacher
                if the model encodes queries for the teacher's index.

        Raises:
            ValueError: No text has a word and no vectors are given, lengths or dimensions differ,
                or vectors are not finite.
            TypeError: A text is missing or not a str.
        """
        check_type(encoder, FastEncoder, "a FastEncoder")
        if vectors is not None:
            vectors = as_matrix(vectors, "vectors [N, D]")
        if texts is None:
            given = columns is not None and vectors is not None
            require(given, "Expected texts, or both columns and vectors.")
            texts = [""] * len(vectors)
        column = text_column(texts)
        try:
            rows = pa.table({"text": column} if columns is None else columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                "Expected columns as a table, or as values by their names, equally many of each, "
                f"but got {type(columns).__name__} ({error})."
            ) from error
        require(
            len(rows) == len(column),
            f"Expected columns of {len(column):,} rows, one for each text or vector, but got "
            f"{len(rows):,}.",
        )
        if vectors is not None:
            wanted = (len(column), encoder.dimension)
            require(
                vectors.shape == wanted,
                f"Expected vectors of the shape {wanted}, one for each text in the dimensions of "
                f"the model, but got {vectors.shape}. Give vectors of this model.",
            )
            ends = np.array([vectors.min(initial=0), vectors.max(initial=0)], np.float64)
            wrong = "Expected finite vectors, but some hold NaN or infinity: give zeros for none."
            require(bool((np.abs(ends) <= np.finfo(np.float32).max).all()), wrong)
        starts = range(0, len(column), BLOCK)
        parts = ((column.slice(i, BLOCK), rows.slice(i, BLOCK)) for i in starts)
        return cls.of_parts(encoder, parts, vectors)

    @classmethod
    def of_parts(
        cls,
        encoder: FastEncoder,
        parts: Iterable[tuple[pa.ChunkedArray, pa.Table]],
        vectors: NDArray[Any] | None = None,
    ) -> SearchIndex:
        """Index texts that come in parts, each with its columns; see `build`."""
        rows: list[pa.Table] = []
        blocks, scales = list[NDArray[np.uint8]](), [np.empty(0, np.float32)]
        n = 0
        with ThreadPoolExecutor(encoder.threads) as pool:
            split = []
            for texts, columns in (part for part in parts if len(part[0])):
                split += [pool.submit(split_texts, chunk) for chunk in texts.chunks]
                end = n + len(texts)
                given = encoder.encode_document(texts) if vectors is None else vectors[n:end]
                block, of_block = _rounded(given)
                blocks.append(block)
                scales.append(of_block)
                rows.append(columns)
                n = end
            require(n > 0, "Expected texts to search in, but got none.")
            words = WordIndex.of([part.result() for part in split])
        nothing = "The texts have no words to search for: no letters and no digits."
        require(vectors is not None or len(words.words) > 0, nothing)
        tokenizer = encoder.model.tokenizer
        some = np.linspace(0, tokenizer.get_vocab_size() - 1, _PROBES, dtype=int).tolist()
        probes = [token for i in some if (token := tokenizer.id_to_token(i)) is not None]
        as_queries = encoder.encode_query(probes).astype(np.float32)
        known = np.flatnonzero(as_queries.any(axis=1))
        probed = [probes[i] for i in known], as_queries[known]
        table = pa.concat_tables(rows).unify_dictionaries()  # others cannot be saved
        whole = np.concatenate(blocks)
        return cls(encoder, table, whole, np.concatenate(scales), words, probed)

    def save(self, folder: str | Path) -> None:
        """Write the index into a folder: a new or empty one, or an index, which it replaces."""
        folder = as_path(folder, "the folder of the index")
        check_index_folder(folder)
        with replacing(folder, lambda _, name: name in _FILES) as partial:
            with (partial / _VECTORS).open("wb") as file:
                file.write(npy_header(len(self), self.encoder.dimension, np.uint8))
                file.write(self.vectors.data)
            arrays: Arrays = {"starts": self.words.starts, "texts": self.words.texts}
            arrays |= {"weights": self.words.weights, "scales": self.scales}
            write_arrays(partial / _ARRAYS, arrays | {"probes": self.probes[1]})
            write_table(partial / _WORDS, pa.table({"word": self.words.words}))
            write_table(partial / _ROWS, self.rows)
            header = {"format": _FORMAT, "model": self.encoder.model.name, "probes": self.probes[0]}
            write_json(partial / _HEADER, header)

    @classmethod
    def open(cls, folder: str | Path, encoder: FastEncoder) -> SearchIndex:
        """Map a saved index into memory.

        Raises:
            ValueError: The folder is no index, or another model's.
        """
        check_type(encoder, FastEncoder, "a FastEncoder")
        folder = present(as_path(folder, "the folder of the index"))
        if not _is_index(folder / _HEADER):
            raise ValueError(
                f"There is no index in {folder}. Build one first: st-static search MODEL --input "
                f"FILE --index {folder}."
            )
        header = read_json(folder / _HEADER)
        if header["format"] != _FORMAT:
            raise ValueError(
                f"The index {folder} has the format {header['format']}, but this release reads "
                f"{_FORMAT}. Build it again."
            )
        try:
            vectors = np.load(folder / _VECTORS, mmap_mode="c")
            arrays = {name: array.map() for name, array in stored_arrays(folder / _ARRAYS).items()}
            rows = read_table(folder / _ROWS)
            found = read_table(folder / _WORDS)["word"]
            words = found.chunk(0) if found.num_chunks else found.combine_chunks()
            postings = arrays["starts"], arrays["texts"], arrays["weights"]
            scales, probes = arrays["scales"], (header["probes"], arrays["probes"])
            starts, of_words, weights = postings
            sizes = len(vectors), len(scales), len(words) + 1, len(weights), probes[1].shape
            of_probes = len(probes[0]), *vectors.shape[1:]
            wanted = len(rows), len(rows), len(starts), len(of_words), of_probes
            kinds = vectors.dtype, scales.dtype, *(array.dtype for array in postings)
            require(vectors.ndim == 2 and sizes == wanted, "its parts differ in length")
            require(kinds == _KINDS, "its numbers have other formats")
            require(all(isinstance(one, str) for one in probes[0]), "its probes are no texts")
            require(starts[0] == 0 and bool((np.diff(starts) >= 0).all()), "words overlap")
            require(starts[-1] == len(of_words), "words are missing")
        except (OSError, ValueError, KeyError, TypeError, EOFError, pa.ArrowException) as error:
            raise ValueError(f"The index {folder} is broken ({error}). Build it again.") from error
        which = f"The index {folder} was built with the model {header['model']}"
        again = "Search with that model, or build the index again."
        if (dimension := vectors.shape[1]) != encoder.dimension:
            raise ValueError(
                f"{which} and has vectors of {dimension} dimensions, but {encoder.model.name} has "
                f"{encoder.dimension}. {again}"
            )
        ours, theirs = unit_rows(encoder.encode_query(probes[0])), unit_rows(probes[1])
        if not ((ours * theirs).sum(axis=1) >= _SAME).all():
            raise ValueError(
                f"{which}, but {encoder.model.name} gives that model's words other vectors. {again}"
            )
        return cls(encoder, rows, vectors, scales, WordIndex(words, *postings, len(rows)), probes)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def unknown(self) -> NDArray[np.int64]:
        """The positions of the texts without a vector, ascending."""
        return np.flatnonzero(self.scales == 0)

    @overload
    def search(self, queries: str, top: int = 10, by: By = "both") -> list[Hit]: ...

    @overload
    def search(self, queries: Any, top: int = 10, by: By = "both") -> list[list[Hit]]: ...

    def search(self, queries: Any, top: int = 10, by: By = "both") -> list[Hit] | list[list[Hit]]:
        """Find the best texts for queries.

        `meaning` ranks by the cosine, and `words` by BM25 (Robertson and Zaragoza, 2009) with the
        IDF of Lucene. `both` takes the mean of the two, scaled: the cosine from 0 for the
        lowest of all texts to 1 for the highest, and BM25 so that a text of average length with
        each word of the query has 1, and a shorter one more. Texts and queries without a word that
        the model knows are found by their words alone.

        Args:
            queries: A str, or a list or column of them, [Q].
            top: Return at most this many hits for a query.
            by: The ranking.

        Returns:
            A query's hits, the best first; a list of such lists for several queries.

        Raises:
            ValueError: `top` is less than 1, or the ranking is not known.
            TypeError: A query is not a str.
        """
        check_type(top, Integral, "a whole number as top")
        require(top > 0, f"Expected top of at least 1, but got {top}.")
        known = get_args(By)
        require(by in known, f"Expected by to be {' or '.join(known)}, but got {by!r}.")
        if isinstance(queries, str):
            return self._hits(queries, top, by)
        return [self._hits(query, top, by) for query in text_column(queries).to_pylist()]

    def _hits(self, query: str, top: int, by: By) -> list[Hit]:
        vector = unit_rows(self.encoder.encode_query([query]))[0]
        by_meaning = by != "words" and vector.any()
        if by == "meaning" and not by_meaning:
            return []
        with ThreadPoolExecutor(self.encoder.threads) as pool:
            by_words = pool.submit(self.words.scores, query)
            ends = np.full(1, np.nan, np.float32)
            if by_meaning:
                cosines, ends = self._cosines(vector, pool)
            words, complete = by_words.result()
            fusion = Fusion.of(ends, complete)
            ranked, floor = (cosines, -np.inf) if by_meaning else (words, 0.0)
            if by_meaning and by == "both":

                def fuse(of: slice) -> None:
                    fusion(cosines[of], words[of], out=cosines[of])

                list(pool.map(fuse, self._blocks))
        if by_meaning:
            ranked[self.unknown[(words[self.unknown] == 0) | (by == "meaning")]] = floor
        # The order of close ones is not sure so far: choose a few more, and compute theirs again.
        chosen = _largest(ranked, top + _MORE, floor)
        if not len(chosen):
            return []
        words, rows = words[chosen], unit_rows(self.vectors[chosen].astype(np.float32) - 128)
        exact = np.where(rows.any(axis=1) & vector.any(), rows @ vector, np.float32(np.nan))
        ranked = {"both": fusion(exact, words), "meaning": exact, "words": words}[by]
        hits = []
        for i in np.argsort(-ranked, kind="stable")[:top].tolist():
            [row] = self.rows.slice(chosen[i], 1).to_pylist()  # `take` would copy whole columns
            meaning = None if np.isnan(exact[i]) else float(exact[i])
            hits.append(Hit(int(chosen[i]), float(ranked[i]), meaning, float(words[i]), row))
        return hits

    @cached_property
    def _blocks(self) -> list[slice]:
        """The positions of the texts that are compared at a time."""
        return [slice(i, i + BLOCK) for i in range(0, len(self), BLOCK)]

    def _cosines(self, vector: Scores, pool: ThreadPoolExecutor) -> tuple[Scores, Scores]:
        """Compute the cosines of a vector [D], rounded like the texts', to all, [N]; NaN for texts
        without a vector. Returned with the lowest and the highest of each block."""
        import simsimd  # reads half of what torch does in float16; numpy is slow in both

        query, [scale] = _rounded(vector[None])
        cosines, lengths = np.empty(len(self), np.float32), self._lengths

        def compare(of: slice) -> tuple[np.float32, np.float32]:
            # 128 cancels out of the distance, which takes three quarters of the time of the product
            # in int8. No `out`: with it, simsimd 6.5 gives up references to None it never took.
            found = simsimd.cdist(query, self.vectors[of], "sqeuclidean", out_dtype="float32")
            [distances] = np.asarray(found, np.float32)
            # (|q|^2 + |x|^2 - |q - x|^2) / |x| = 2 q x / |x|
            part = np.subtract(scale**-2, distances, out=cosines[of])
            part *= self.scales[of]
            part += lengths[of]
            part *= scale / 2
            return np.fmin.reduce(part), np.fmax.reduce(part)

        return cosines, np.ravel([*pool.map(compare, self._blocks)])

    @cached_property
    def _lengths(self) -> Scores:
        """The lengths of the vectors as they are kept, [N]; NaN for zeros."""
        return np.divide(
            1, self.scales, out=np.full_like(self.scales, np.nan), where=self.scales > 0
        )


def _rounded(vectors: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Round vectors [B, D] to int8, and add 128; returned with the scales that bring the rounded
    ones to length 1, [B]; 0 for zeros."""
    rows = quantize_rows(np.asarray(vectors, np.float32)).rows
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float32))
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return rows.view(np.uint8) ^ np.uint8(128), scales


def check_index_folder(folder: Path) -> None:
    """Check that an index may be written into a folder."""
    check_output_folder(folder, _HEADER, "a search index", _is_index)


def _is_index(header: Path) -> bool:
    try:
        found = read_json(header)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"format", "model", "probes"} <= set(found)


def _largest(scores: Scores, n: int, floor: float) -> NDArray[np.int64]:
    """Find the positions of the n largest scores above the floor, in ascending order."""
    # At least n scores reach the n-th largest of the maxima of runs: they lie in few runs.
    starts = np.arange(0, len(scores), _RUN)
    maxima = np.maximum.reduceat(scores, starts)
    least = np.partition(maxima, -n)[-n] if len(maxima) > n else floor
    starts = starts[(maxima >= least) & (maxima > floor)]
    positions = (starts[:, None] + np.arange(_RUN)).ravel()
    positions = positions[positions < len(scores)]
    positions = positions[scores[positions] > floor]
    if len(positions) > n:
        positions = positions[np.argpartition(scores[positions], -n)[-n:]]
    return np.sort(positions)
