"""Find the texts that are nearest to a query by their meaning, by their words, or by both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from itertools import repeat
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.arguments import as_matrix, as_path, check_type, require
from st_static.encode.explain import Pair, explain
from st_static.encode.fast_encoder import FastEncoder
from st_static.files import Arrays, write_arrays, write_arrow, write_npy
from st_static.model.replacement import replacing
from st_static.model.table import Int8Table
from st_static.model.vectors import unit_rows
from st_static.search.filters import passing
from st_static.search.index_files import (
    ARRAYS,
    FILES,
    HALVES,
    ROWS,
    WORDS,
    check_index_folder,
    read_index,
    write_header,
)
from st_static.search.word_index import WordIndex, split_texts, stemmer_for
from st_static.texts.columns import text_column
from st_static.texts.python_rows import python_row
from st_static.threads import Workers, forks_wait, made_once

By = Literal["both", "meaning", "words"]
Scores = NDArray[np.float32]
Passes = NDArray[np.bool_] | None  # which texts a filter lets through, [N]; None without a filter

BLOCK = 65_536
"""Texts that are encoded, or compared, at a time."""
_RUN = 256  # scores whose maximum is looked at first
_EXTRA = 100  # texts beyond `top` that are compared first, to learn which score is enough
_FEW = 0.02  # the share of texts up to which it is faster to compare them than to read all halves
_COMPARED = 512  # texts that are compared in float32 at a time: they fit into the processor's cache
_HIGHEST = float(np.finfo(np.float32).max)
_CHANCES, _RANDOM_WORDS = 19, 6  # queries of random words, and words of each
# The mean length of second halves up to which first halves tell enough; where dimensions have no
# order, it is the root of a half, 0.71.
_SHORT = 0.65
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
    row: dict[str, Any]  # the text's columns; what Python cannot hold, as some times, is text
    matched: list[str]  # the query's words that the text has, folded, in the query's order


def fuse(cosines: Scores, words: Scores, complete: float, out: Scores | None = None) -> Scores:
    """Average the cosines and BM25's scores of texts, [n]; BM25's as shares of the score of a text
    of average length that has each word of the query."""
    both: Scores = np.add(cosines, words * np.float32(1 / (complete or 1)), out=out)
    both *= np.float32(0.5)
    return both


@dataclass(frozen=True, repr=False, eq=False)
class SearchIndex:
    """Holds the vectors and words of N texts, and finds the best of them for queries.

    The texts' vectors are kept in int8. A query is compared with the first half of each, which
    bounds the cosine, and with all of those that may be among the best. So the result is that of a
    comparison with all; of equal texts, the first wins. `build` makes an index, `save` writes it
    into a folder, and `open` maps that into memory. Several threads may search at a time.

    Example:
        >>> from st_static import FastEncoder, SearchIndex
        >>> encoder = FastEncoder.from_pretrained("st-static/english-384")
        >>> texts = ["Reset your password", "Opening hours", "Error X7"]
        >>> index = SearchIndex.build(encoder, texts)
        >>> [hit.row["text"] for hit in index.search("my account is locked", top=1)]
        ['Reset your password']
    """

    encoder: FastEncoder
    rows: pa.Table  # what hits show of the texts, [N]
    first: NDArray[np.uint8]  # halves of vectors in int8, plus 128; [N, ⌈D / 2⌉]
    second: NDArray[np.uint8]  # [N, ⌊D / 2⌋]
    scales: NDArray[np.float32]  # which bring a text's vector to length 1, or 0 for zeros; [N]
    tails: NDArray[np.float32]  # the lengths of second halves, as shares of the vectors'; [N]
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
            has_both = columns is not None and vectors is not None
            require(has_both, "Expected texts, or both columns and vectors.")
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
            message = "Expected finite vectors, but some hold NaN or infinity: give zeros for none."
            require(bool((np.abs(ends) <= np.finfo(np.float32).max).all()), message)
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
        blocks: list[tuple[NDArray[Any], ...]] = []
        n = 0
        with Workers(encoder.threads) as pool:
            split = []
            for texts, columns in (part for part in parts if len(part[0])):
                split += [pool.submit(split_texts, chunk) for chunk in texts.chunks]
                end = n + len(texts)
                block = encoder.encode_document(texts) if vectors is None else vectors[n:end]
                blocks.append(_halved(block))
                rows.append(columns)
                n = end
            require(n > 0, "Expected texts to search in, but got none.")
            stemmer = stemmer_for(encoder.model.languages)
            words = WordIndex.of([part.result() for part in split], stemmer)
        tokenizer = encoder.model.tokenizer
        probes = _spread_tokens(tokenizer, _PROBES)
        as_queries = encoder.encode_query(probes).astype(np.float32)
        with_vector = np.flatnonzero(as_queries.any(axis=1))
        probed = [probes[i] for i in with_vector], as_queries[with_vector]
        table = pa.concat_tables(rows).unify_dictionaries()  # others cannot be saved
        del split
        columns_of_blocks = [list(column) for column in zip(*blocks, strict=True)]
        blocks.clear()  # so that only one column is there twice at a time
        first, second, scales, tails = (np.concatenate(columns_of_blocks.pop(0)) for _ in range(4))
        message = "The texts have no words to search for, no letters and digits, and no vectors."
        require(vectors is not None or len(words.words) > 0 or bool(scales.any()), message)
        return cls(
            encoder,
            table,
            first=first,
            second=second,
            scales=scales,
            tails=tails,
            words=words,
            probes=probed,
        )

    def save(self, folder: str | Path) -> None:
        """Write the index into a folder: a new or empty one, or an index, which it replaces."""
        folder = as_path(folder, "the folder of the index")
        check_index_folder(folder)
        with replacing(folder, lambda _, name: name in FILES) as partial:
            for name, half in zip(HALVES, (self.first, self.second), strict=True):
                write_npy(partial / name, half)
            arrays: Arrays = {"scales": self.scales, "tails": self.tails, "probes": self.probes[1]}
            arrays |= {name: getattr(self.words, name) for name in ("starts", "texts", "weights")}
            write_arrays(partial / ARRAYS, arrays)
            write_arrow(partial / WORDS, pa.table({"word": self.words.words}))
            write_arrow(partial / ROWS, self.rows)
            write_header(partial, self.encoder.model.name, self.probes[0], self.words.stemmer)

    @classmethod
    def open(cls, folder: str | Path, encoder: FastEncoder) -> SearchIndex:
        """Map a saved index into memory, after checking its files in full.

        Raises:
            ValueError: The folder is no index, or it is damaged, another release's or another
                model's.
        """
        check_type(encoder, FastEncoder, "a FastEncoder")
        folder = as_path(folder, "the folder of the index")
        model, parts = read_index(folder, encoder.threads)
        dimension, probes = parts.first.shape[1] + parts.second.shape[1], parts.probes
        built = f"The index {folder} was built with the model {model}"
        again = "Search with that model, or build the index again."
        if dimension != encoder.dimension:
            raise ValueError(
                f"{built} and has vectors of {dimension} dimensions, but {encoder.model.name} has "
                f"{encoder.dimension}. {again}"
            )
        ours, theirs = unit_rows(encoder.encode_query(probes[0])), unit_rows(probes[1])
        if not ((ours * theirs).sum(axis=1) >= _SAME).all():
            raise ValueError(
                f"{built}, but {encoder.model.name} gives that model's words other vectors. {again}"
            )
        return cls(encoder, *parts)

    def __len__(self) -> int:
        return len(self.rows)

    @made_once
    def unknown(self) -> NDArray[np.int64]:
        """The positions of the texts without a vector, ascending."""
        return np.flatnonzero(self.scales == 0)

    @overload
    def search(
        self,
        queries: str,
        top: int = 10,
        by: By = "both",
        at_least: float | None = None,
        where: Any = None,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        queries: Any,
        top: int = 10,
        by: By = "both",
        at_least: float | None = None,
        where: Any = None,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        queries: Any,
        top: int = 10,
        by: By = "both",
        at_least: float | None = None,
        where: Any = None,
    ) -> list[Hit] | list[list[Hit]]:
        """Find the best texts for queries.

        `meaning` ranks by the cosine, and `words` by BM25 (Robertson and Zaragoza, 2009) with the
        IDF of Lucene. `both` takes the mean of the two, BM25 being scaled so that a text of average
        length with each word of the query has 1, and a shorter one more. Texts and queries without
        a word that the model knows are found by their words alone, as if the cosine were 0.

        Args:
            queries: A str, or a list or column of them, [Q].
            top: Return at most this many hits for a query.
            by: The ranking.
            at_least: Return only hits with at least this score in this ranking; by default, the
                best even if none fits.
            where: Find only texts that pass: a pyarrow expression over the columns of `rows`, such
                as `pc.field("price") < 10`, or a mask of booleans, [N]. Null counts as false. It
                changes no score: a word's IDF is that in all texts.

        Returns:
            A query's hits, the best first; a list of such lists for several queries. A hit names
            the query's words that its text has; `pairs` tells what made its cosine.

        Raises:
            ValueError: `top` is less than 1, the ranking is not known, `at_least` is NaN or
                infinite, or `where` names no column or has another length.
            TypeError: A query is not a str, `at_least` is not a number, or `where` gives no
                booleans.
        """
        check_type(top, Integral, "a whole number as top")
        require(top > 0, f"Expected top of at least 1, but got {top}.")
        rankings = get_args(By)
        require(by in rankings, f"Expected by to be {' or '.join(rankings)}, but got {by!r}.")
        no_words_message = "The index has vectors alone, without words: search it by meaning."
        require(by != "words" or len(self.words.words) > 0, no_words_message)
        floor = -np.inf if at_least is None else _floor_of(at_least)
        passes = None if where is None else passing(where, self.rows)
        strings = [queries] if isinstance(queries, str) else text_column(queries).to_pylist()
        hits = [self._hits(query, top, by, floor=floor, passes=passes) for query in strings]
        return hits[0] if isinstance(queries, str) else hits

    def chance(self, by: By = "both") -> float:
        """Estimate the score that chance reaches: the best that 19 queries of random words find.

        A twentieth such query would find a better text with a chance of 1 in 20. The score depends
        on the model and on the texts, which are searched 19 times. By `words` it is 0: BM25's
        scores of different queries cannot be compared.
        """
        shape = _RANDOM_WORDS, _CHANCES
        tokens = _spread_tokens(self.encoder.model.tokenizer, 4 * math.prod(shape))
        words = [word for token in tokens if (word := token.lstrip("▁Ġ")).isalpha()]
        if by == "words" or not words:
            return 0.0
        spread = np.linspace(0, len(words) - 1, math.prod(shape), dtype=int).reshape(shape)
        queries = [" ".join(words[i] for i in column) for column in spread.T.tolist()]
        results = (self.search(query, 1, by) for query in queries)  # a list would import pandas
        return max((hit.score for hits in results for hit in hits), default=0.0)

    def _hits(self, query: str, top: int, by: By, floor: float, passes: Passes) -> list[Hit]:
        """Find a query's best hits above a floor, of texts that pass."""
        vector = unit_rows(self.encoder.encode_query([query]))[0]
        by_meaning = by != "words" and vector.any()
        if by == "meaning" and not by_meaning:
            return []
        asked = self.words.look_up(query)
        with Workers(self.encoder.threads) as pool:
            by_words = pool.submit(self.words.scores, asked)
            chosen = None
            if by_meaning:
                chosen = self._candidates(
                    vector, by, by_words, top=top, floor=floor, passes=passes, pool=pool
                )
            words, complete = by_words.result()
        if chosen is None:
            ranked = _ranked(by, np.zeros_like(words), words, complete)
            _exclude(ranked, passes)
            chosen = _largest(ranked, top, max(floor, 0.0))
        cosines, words = self._cosines(vector, chosen), words[chosen]
        ranked = _ranked(by, cosines, words, complete)
        best = np.argsort(-ranked, kind="stable")[:top]
        best = best[ranked[best] > floor]
        hits = []
        for i, matched in zip(best.tolist(), self.words.matched(asked, chosen[best]), strict=True):
            has_meaning = vector.any() and self.scales[chosen[i]] > 0
            meaning = float(cosines[i]) if has_meaning else None
            position = int(chosen[i])
            row = python_row(self.rows, position)
            hits.append(Hit(position, float(ranked[i]), meaning, float(words[i]), row, matched))
        return hits

    def pairs(self, query: str, hit: Hit) -> list[Pair]:
        """Split the cosine of a query and its hit into the shares of pairs of their words.

        Args:
            query: The query, a str.
            hit: One of its hits in this index, with the text among its columns.

        Returns:
            Pairs of a word of the query and a word of the text, as they are written, with their
            shares, of either sign; the largest first. Their sum is the cosine, up to the rounding
            of vectors in the index. Empty if the hit has no cosine, or no column holds a text that
            has the hit's vector, as where ids alone are kept or another model made the vectors.
        """
        check_type(query, str, "a str as query")
        model = self.encoder.model
        texts = [value for value in hit.row.values() if isinstance(value, str)]
        vectors = unit_rows(self.encoder.encode_document(texts))
        for text, vector in zip(texts, vectors, strict=True):
            if self._cosines(vector, np.array([hit.position]))[0] >= _SAME:
                query = model.prompts.get("query", "") + query
                text = model.prompts.get("document", "") + text
                explanation = explain(replace(model, prompt=""), query, text)
                return explanation.of_known_words().pairs()
        return []

    def _candidates(
        self,
        vector: Scores,
        by: By,
        by_words: Future[tuple[Scores, float]],
        *,
        top: int,
        floor: float,
        passes: Passes,
        pool: Executor,
    ) -> NDArray[np.int64]:
        """Find all texts that may be among the best above a floor for a vector [D], ascending: if
        few pass, these; else by first halves, and by both halves if the first leave too many."""
        if passes is not None and np.count_nonzero(passes) <= _FEW * len(self):
            few, (words, _) = np.flatnonzero(passes), by_words.result()
            by_word = (words[few] > 0) & (by == "both")
            return few[(self.scales[few] > 0) | by_word]
        for whole in (False, True) if self._has_short_tails else (True,):
            bounds = self._bounds(vector, whole, pool)
            words, complete = by_words.result()
            if by == "both":
                of_bounds, of_words = ([a[i] for i in self._blocks] for a in (bounds, words))
                list(pool.map(fuse, of_bounds, of_words, repeat(complete), of_bounds))
            bounds[self.unknown[(words[self.unknown] == 0) | (by == "meaning")]] = -np.inf
            _exclude(bounds, passes)
            likely = _largest(bounds, top + _EXTRA, floor)
            scores = _ranked(by, self._cosines(vector, likely), words[likely], complete)
            least = np.sort(scores)[-top:].min(initial=np.inf)
            chosen = np.flatnonzero(bounds >= max(least, floor))
            if len(chosen) <= max(len(likely), _FEW * len(self)):
                break
        return chosen

    def _bounds(self, vector: Scores, whole: bool, pool: Executor) -> Scores:
        """Compute upper bounds of the cosines of a vector [D] to all texts, [N].

        By first halves, the bound of Cauchy and Schwarz: q x <= q1 x1 + |q2| |x2| for vectors of
        length 1; or by the whole, q x itself. The possible loss by rounding is added to either.
        """
        with forks_wait:
            import simsimd  # reads half of what torch does in float16; numpy is slow in both

        first, second, [scale], _ = _halved(vector[None])
        halves = [(first, self.first), *([(second, self.second)] if whole else [])]
        rounded = np.hstack([half for half, _ in halves])[0] - np.float32(128)
        square = np.float32(rounded @ rounded)
        # How far the rounding of the vector may lower a cosine, and that of float32, here and in
        # `_cosines`, with up to 4,096 dimensions.
        slack = np.linalg.norm(vector[: len(rounded)] - scale * rounded) + 1e-5
        of_tail = np.linalg.norm(vector[len(rounded) :])
        norms = self._lengths if whole else self._squares_of_first
        bounds = np.empty(len(self), np.float32)

        def compare(of: slice) -> None:
            part = bounds[of]
            part[:] = square
            for half, others in halves:
                # 128 cancels out of the distance, which takes three quarters of the time of the
                # product in int8. No `out`: with it, simsimd 6.5 gives up references to None it
                # never took.
                distances = simsimd.cdist(half, others[of], "sqeuclidean", out_dtype="float32")
                part -= np.asarray(distances, np.float32)[0]
            # (|q|^2 + |x|^2 - |q - x|^2) / |x| = 2 q x / |x|
            part *= self.scales[of]
            part += norms[of]
            part *= scale / 2
            if not whole:
                part += of_tail * self.tails[of]
            part += slack

        list(pool.map(compare, self._blocks))
        return bounds

    @made_once
    def _blocks(self) -> list[slice]:
        """The positions of the texts in each block."""
        return [slice(i, i + BLOCK) for i in range(0, len(self), BLOCK)]

    @made_once
    def _lengths(self) -> Scores:
        """The lengths of the vectors as they are kept, [N]."""
        return np.divide(1, self.scales, out=np.zeros_like(self.scales), where=self.scales > 0)

    @made_once
    def _squares_of_first(self) -> Scores:
        """The squared lengths of first halves over the lengths of the vectors, [N]."""
        return self._lengths * (1 - self.tails**2)

    @made_once
    def _has_short_tails(self) -> bool:
        return float(self.tails.mean()) < _SHORT

    def _cosines(self, vector: Scores, positions: NDArray[np.int64]) -> Scores:
        """Compute the cosines of a vector [D] to texts [n]; 0 for texts without a vector. A text's
        cosine does not depend on the other texts, so equal texts have equal cosines."""
        cosines = np.empty(len(positions), np.float32)
        for start in range(0, len(positions), _COMPARED):
            some = positions[start : start + _COMPARED]
            rows = unit_rows(
                np.hstack([self.first[some], self.second[some]]).astype(np.float32) - 128
            )
            rows *= vector
            # Not by BLAS, whose threads go on waiting and keep the processor from the next query,
            # and whose sums depend on the number of rows, as do those of einsum.
            cosines[start : start + len(some)] = rows.sum(axis=1)
        return cosines


def _halved(vectors: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Round vectors [B, D] to int8, and add 128. Returns both halves, the scales that bring rounded
    vectors to length 1 (0 for zeros), and the scaled lengths of second halves, [B] each."""
    rows = Int8Table.of(np.asarray(vectors)).rows
    middle = -(-rows.shape[1] // 2)
    squares = [np.einsum("ij,ij->i", of, of, dtype=np.float32) for of in (rows, rows[:, middle:])]
    lengths, tails = map(np.sqrt, squares)
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    shifted = rows.view(np.uint8) ^ np.uint8(128)
    halves = np.ascontiguousarray(shifted[:, :middle]), np.ascontiguousarray(shifted[:, middle:])
    return *halves, scales, tails * scales


def _ranked(by: By, cosines: Scores, words: Scores, complete: float) -> Scores:
    """Score texts [n] as a ranking does."""
    if by == "both":
        return fuse(cosines, words, complete)
    return cosines if by == "meaning" else words


def _exclude(scores: Scores, passes: Passes) -> None:
    """Set the scores [N] of texts that do not pass to -inf."""
    if passes is not None:
        with np.errstate(divide="ignore"):  # in a tenth of the time that a mask takes
            scores += np.log(passes, dtype=np.float32)


def _spread_tokens(tokenizer: Any, n: int) -> list[str]:
    """Take about n tokens, evenly spread over a vocabulary."""
    some = np.linspace(0, tokenizer.get_vocab_size() - 1, n, dtype=int).tolist()
    return [token for i in some if (token := tokenizer.id_to_token(i)) is not None]


def _floor_of(at_least: float) -> float:
    """Check the least score that is wanted, and find the largest float32 below it."""
    check_type(at_least, Real, "a number as at_least")
    is_score = -_HIGHEST <= at_least <= _HIGHEST
    require(is_score, f"Expected at_least to be a score, such as 0.3, but got {at_least}.")
    nearest = np.float32(at_least)
    is_below = float(nearest) < at_least
    return float(nearest if is_below else np.nextafter(nearest, np.float32(-np.inf)))


def _largest(scores: Scores, n: int, floor: float) -> NDArray[np.int64]:
    """Find the positions of the n largest scores above the floor, in ascending order; of equal
    scores, the first."""
    # At least n scores reach the n-th largest of the maxima of runs: they lie in few runs.
    starts = np.arange(0, len(scores), _RUN)
    maxima = np.maximum.reduceat(scores, starts)
    least = np.partition(maxima, -n)[-n] if len(maxima) > n else floor
    starts = starts[(maxima >= least) & (maxima > floor)]
    positions = (starts[:, None] + np.arange(_RUN)).ravel()
    positions = positions[positions < len(scores)]
    positions = positions[scores[positions] > floor]
    if len(positions) > n:
        candidates = scores[positions]
        least = np.partition(candidates, -n)[-n]
        above, equal = positions[candidates > least], positions[candidates == least]
        positions = np.sort(np.concatenate([above, equal[: n - len(above)]]))
    return positions
