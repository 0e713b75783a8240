"""A static model in memory: its tokenizer, its table, and the processing of the mean."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.examples import examples_for
from st_static.model.head import Head
from st_static.model.modules import Segment
from st_static.model.table import Int8Table, Table, dimensions_of
from st_static.model.vectors import unit_rows
from st_static.threads import made_once
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged, offsets_of

logger = logging.getLogger(__name__)

# The bound on cosines to the exact vectors that docs/onnx.md and docs/demo.md promise.
_LEAST_COSINE = 0.999
# The number of texts of random tokens, and their lengths.
_TEXTS = 1_000
_LENGTHS = 2 ** np.arange(6)


class StatedFacts(NamedTuple):
    """A model's licence and languages, as its folder states them."""

    license: str | None = None  # in the model's card, or else in the record of its build
    languages: tuple[str, ...] = ()  # without script and region; none if they are not stated
    has_recipe: bool = False  # whether a record holds the recipe of the model


@dataclass(frozen=True)
class StaticModel:
    """A tokenizer, a table, and the processing of the mean of its rows."""

    tokenizer: Tokenizer  # without padding, as sentence-transformers uses it
    table: Table  # one row per token id, [V, D], as stored, or rounded to int8
    normalize: bool  # whether vectors are scaled to length 1
    prompt: str = ""  # put before each text
    truncate_dim: int | None = None  # first dimensions that are kept, after normalising
    segments: tuple[Segment, ...] = ()  # of a fused ensemble, which are scaled separately
    head: Head | None = None  # between the mean and its scaling
    name: str = ""  # the folder or Hub id
    prompts: Mapping[str, str] = field(default_factory=dict)  # all of them by name
    similarity_fn_name: str = "cosine"  # as sentence-transformers calls it
    state: Callable[[], StatedFacts] = StatedFacts  # finds the stated facts, when needed

    @made_once
    def _stated(self) -> StatedFacts:
        return self.state()

    @property
    def license(self) -> str | None:
        """The model's licence, if it is stated, see `StatedFacts`."""
        return self._stated.license

    @property
    def languages(self) -> tuple[str, ...]:
        """The tags of the model's languages, see `StatedFacts`."""
        return self._stated.languages

    def __post_init__(self) -> None:
        widths = self.widths
        if widths and (min(widths) < 1 or sum(widths) != self.table.shape[1]):
            raise ValueError(
                f"Expected segments of {self.table.shape[1]} dimensions together, those of the "
                f"table, but their widths are {widths}."
            )
        for segment in self.segments:
            if not (math.isfinite(segment.weight) and segment.weight > 0):
                raise ValueError(f"Expected positive weights, but got {segment.weight}.")
        if self.head and (widths or self.head.dimension != self.table.shape[1]):
            raise ValueError(
                f"Expected a head of {self.table.shape[1]} dimensions, those of the table, and no "
                f"segments, but got {self.head.dimension} dimensions and {len(widths)} segments."
            )

    @property
    def widths(self) -> list[int]:
        """Number of dimensions of each segment, [L]; empty without segments."""
        return [segment.width for segment in self.segments]

    @property
    def scaled(self) -> list[tuple[slice, float]]:
        """The dimensions that are scaled together, with their length; none if nothing is scaled."""
        weights = [1.0] if self.normalize else [segment.weight for segment in self.segments]
        parts = dimensions_of([] if self.normalize else self.widths, self.table.shape[1])
        # Equation 1 divides by this, so that a text that all members know gets the length 1.
        total = math.hypot(*weights)
        return [(part, weight / total) for part, weight in zip(parts, weights, strict=False)]

    def digest(self) -> str:
        """Hash everything that determines the vectors, as hexadecimal digits of SHA-256."""
        options = (self.normalize, self.prompt, self.truncate_dim, self.segments)
        digest = hashlib.sha256(repr(options).encode())
        digest.update(self.tokenizer.to_str().encode())
        arrays = [self.table, *((self.head.first, self.head.second) if self.head else ())]
        for array in arrays:
            values = np.ascontiguousarray(array)
            digest.update(f"{values.dtype} {values.shape}".encode())
            digest.update(values.data)
        return digest.hexdigest()


def check_int8(model: StaticModel, advice: str) -> None:
    """Check that int8 turns no vector of a finite table too far; log the least cosine."""
    ids = _token_ids(model)
    rows = np.asarray(model.table)[ids.values].astype(np.float32)
    exact = _vectors(model, rows, ids)
    int8 = Int8Table.of(rows, model.widths)
    rounded = _vectors(model, np.asarray(int8), ids)
    cosines = (unit_rows(exact) * unit_rows(rounded)).sum(axis=1)[exact.any(axis=1)]
    least = float(cosines.min(initial=1))
    if not least > _LEAST_COSINE:
        raise ValueError(
            f"In int8, a text of this model's own words would have a vector with a cosine of "
            f"{least:.5f} to the exact one, but expected more than {_LEAST_COSINE}. {advice}"
        )
    logger.info(
        "int8: cosines to the exact vectors of at least %.5f, of %s texts of the model's own words "
        "and examples",
        least,
        f"{len(cosines):,}",
    )


def _token_ids(model: StaticModel) -> Ragged:
    """Draw texts of random tokens with a fixed seed, and add the examples."""
    rng = np.random.default_rng(0)
    vocabulary = sorted(model.tokenizer.get_vocab().values())
    lengths = rng.choice(_LENGTHS, _TEXTS)
    values = rng.choice(vocabulary, lengths.sum())
    examples = examples_for(model.languages)
    pairs = [examples.heat_map, *((limit.first, limit.second) for limit in examples.limits)]
    texts = [*examples.usage, *(text for pair in pairs for text in pair)]
    encoded = FastTokenizer(model.tokenizer)([model.prompt + text for text in texts])
    lengths = np.append(lengths, encoded.lengths[encoded.lengths > 0])
    return Ragged(np.append(values, encoded.values).astype(np.int32), offsets_of(lengths))


def _vectors(model: StaticModel, rows: NDArray[np.float32], ids: Ragged) -> NDArray[np.float32]:
    """Encode texts into vectors [B, D], given the rows [T, D] of their tokens."""
    means = np.add.reduceat(rows, ids.offsets[:-1], axis=0) / ids.lengths[:, np.newaxis]
    vectors = model.head(means) if model.head else means.astype(np.float32)
    for dimensions, length in model.scaled:
        vectors[:, dimensions] = length * unit_rows(vectors[:, dimensions])
    return vectors[:, : model.truncate_dim]
