"""Second-order collapse by mean pooling (SOCM, Hara et al. 2026).

Mean pooling keeps of a text's token vectors only their mean. SOCM is large for two texts whose
means agree while the spreads of their tokens differ: what the mean cannot tell apart.

Each text's token vectors X [T, d] are divided by the norm of their mean. With the means mu and the
covariances S of the two texts

    d_mu = |mu_1 - mu_2|^2 / 4
    d_Sigma = tr(S_1 + S_2 - 2 (S_1^(1/2) S_2 S_1^(1/2))^(1/2)) / 4     (Bures distance)
    SOCM = (1 - d_mu) d_Sigma

With centred token vectors C_i, S_i = C_i^T C_i / T_i, and the trace of the matrix root is the sum
of the singular values of C_1 C_2^T / sqrt(T_1 T_2). That matrix is T_1 x T_2, so no d x d matrix
is ever formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

# d_Sigma is at most 1 where both covariances have at most this trace.
MAX_TRACE = 2.0


class _Moments(NamedTuple):
    """What SOCM needs of one text.

    Attributes:
        mean: The mean token vector, of norm 1, [d].
        centred: Token vectors less the mean, over sqrt(T): S = centred^T centred, [T, d].
        trace: tr(S).
    """

    mean: NDArray[np.float64]
    centred: NDArray[np.float64]
    trace: float


@dataclass(frozen=True)
class SocmResult:
    """SOCM over all pairs of a sample of texts.

    Attributes:
        mean: Mean over all pairs.
        pairs: Number of pairs.
        texts: Number of texts.
        texts_over_trace: Texts whose covariance has a trace above 2, for which SOCM may leave
            the range from 0 to 1. They count in the mean.
    """

    mean: float
    pairs: int
    texts: int
    texts_over_trace: int


def socm(X1: ArrayLike, X2: ArrayLike) -> float:  # noqa: N803
    """Second-order collapse of two texts.

    Args:
        X1: Token vectors of the first text, [T1, d].
        X2: Token vectors of the second text, [T2, d].

    Returns:
        0 (the mean tells the texts apart, or their tokens spread alike) to 1, as long as the
        trace of both covariances is at most 2.

    Raises:
        ValueError: A text has no tokens, values that are not finite or a mean of zero, or the
            dimensions differ.

    Example:
        >>> round(socm([[1.0, 0.0], [1.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]]), 6)
        0.25
    """
    first, second = _moments(X1), _moments(X2)
    if len(first.mean) != len(second.mean):
        raise ValueError(
            "Expected token vectors of the same dimension, but got "
            f"{len(first.mean)} and {len(second.mean)}."
        )
    roots = np.linalg.svd(first.centred @ second.centred.T, compute_uv=False).sum()
    value = _combine(first.mean @ second.mean, first.trace + second.trace, roots)
    return float(value)


def mean_socm(texts: Sequence[ArrayLike], progress: bool = False) -> SocmResult:
    """Mean second-order collapse over all pairs of texts.

    Args:
        texts: Token vectors of each text, N times [T_i, d].
        progress: Show a progress bar.

    Raises:
        ValueError: There are fewer than two texts; or as `socm`.
    """
    if len(texts) < 2:
        raise ValueError(f"Expected at least two texts to compare, but got {len(texts)}.")
    # By length, so that singular values of equally shaped matrices are computed in one call.
    moments = sorted((_moments(text) for text in texts), key=lambda m: len(m.centred))
    if len({len(m.mean) for m in moments}) > 1:
        raise ValueError("Expected token vectors of the same dimension in all texts.")
    lengths = np.array([len(m.centred) for m in moments])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    means = np.stack([m.mean for m in moments])
    traces = np.array([m.trace for m in moments])
    stacked = np.concatenate([m.centred for m in moments])
    total = 0.0
    for i in tqdm(
        range(len(moments) - 1), desc="pairs", unit="text", disable=None if progress else True
    ):
        roots = _nuclear_norms(
            stacked[starts[i] : starts[i + 1]], stacked[starts[i + 1] :], lengths[i + 1 :]
        )
        values = _combine(means[i + 1 :] @ means[i], traces[i] + traces[i + 1 :], roots)
        total += float(values.sum())
    pairs = len(moments) * (len(moments) - 1) // 2
    return SocmResult(total / pairs, pairs, len(moments), int((traces > MAX_TRACE).sum()))


def _moments(vectors: ArrayLike) -> _Moments:
    tokens = np.asarray(vectors, dtype=np.float64)
    if tokens.ndim != 2 or not len(tokens):
        raise ValueError(
            f"Expected token vectors [T, d] of at least one token, got the shape {tokens.shape}."
        )
    mean = tokens.mean(axis=0)
    norm = float(np.linalg.norm(mean))
    if not np.isfinite(norm):
        raise ValueError("Expected finite token vectors, but got NaN or infinity.")
    if norm == 0:
        raise ValueError("The mean of the token vectors is zero: it has no direction.")
    centred = (tokens - mean) / (norm * np.sqrt(len(tokens)))
    return _Moments(mean / norm, centred, float(np.square(centred).sum()))


def _nuclear_norms(
    one: NDArray[np.float64], others: NDArray[np.float64], lengths: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sum of the singular values of one C_i^T for each of the other texts, [N].

    Args:
        one: A text's centred token vectors, [T, d].
        others: Those of N texts one after the other, [sum(lengths), d].
        lengths: Their tokens, ascending, [N].
    """
    products = others @ one.T
    norms = []
    start = 0
    for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
        stop = start + length * count
        blocks = products[start:stop].reshape(count, length, len(one))
        norms.append(np.linalg.svd(blocks, compute_uv=False).sum(axis=1))
        start = stop
    return np.concatenate(norms)


def _combine(
    cosine: NDArray[np.float64], traces: NDArray[np.float64] | float, roots: NDArray[np.float64]
) -> NDArray[np.float64]:
    """SOCM from the cosine of the means, the sum of the traces and the trace of the root."""
    d_mu = (1 - cosine) / 2
    d_sigma = np.maximum(traces - 2 * roots, 0) / 4
    return np.asarray((1 - d_mu) * d_sigma)
