"""Whether a model's vectors stay what they are when its table is rounded to int8."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from st_static.examples import examples_for
from st_static.model.quantization import quantize_rows
from st_static.model.static_model import StaticModel
from st_static.model.vectors import unit_rows
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged, offsets_of

logger = logging.getLogger(__name__)

# Cosines to the exact vectors are larger, as docs/onnx.md and docs/demo.md promise.
_LEAST_COSINE = 0.999
# Texts of the model's own tokens, each of 1, 2, 4 ... or 32.
_TEXTS = 1_000
_LENGTHS = 2 ** np.arange(6)


def check_int8(model: StaticModel, advice: str) -> None:
    """Check that a model may be written with its table in int8; logs the least cosine.

    Args:
        model: The model, with the table [V, D], whose numbers are finite.
        advice: What to do if it may not: sentences of the error.

    Raises:
        ValueError: A vector would turn too far.
    """
    ids = _token_ids(model)
    rows = np.asarray(model.table)[ids.values].astype(np.float32)
    exact = _vectors(model, rows, ids)
    rounded = _vectors(model, quantize_rows(rows, model.widths).restored(), ids)
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
    """Token ids of texts: of random tokens, the same ones in each run, and of the examples."""
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
    """The vectors [B, D] of texts with tokens, from the rows of these [T, D]."""
    means = np.add.reduceat(rows, ids.offsets[:-1], axis=0) / ids.lengths[:, np.newaxis]
    vectors = model.head(means) if model.head else means.astype(np.float32)
    begin = 0
    for width, weight in model.segments:
        segment = slice(begin, begin := begin + width)
        vectors[:, segment] = weight * unit_rows(vectors[:, segment])
    return vectors[:, : model.truncate_dim]
