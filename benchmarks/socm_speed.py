"""Second-order collapse of all pairs of a sample of texts: seconds, and the error.

    python benchmarks/socm_speed.py [--texts 1000] [--dimension 768]

takes random token vectors of texts of 5 to 60 tokens, computes the mean over all pairs, and then
compares some pairs with the direct formula, which takes roots of d x d matrices.
"""

import argparse
import time

import numpy as np
from scipy.linalg import sqrtm

from st_static.evaluate.analysis.socm import mean_socm, socm

_DIRECT_DIMENSION = 32
_DIRECT_PAIRS = 20


def make_texts(n: int, dimension: int, fewest: int = 5) -> list[np.ndarray]:
    """Random token vectors with a common direction, N times [T, d]."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=dimension)
    return [common + rng.normal(size=(t, dimension)) for t in rng.integers(fewest, 61, n)]


def direct(first: np.ndarray, second: np.ndarray) -> float:
    """The definition, with covariances [d, d]."""
    first, second = (x / np.linalg.norm(x.mean(axis=0)) for x in (first, second))
    one, other = (np.cov(x, rowvar=False, bias=True) for x in (first, second))
    root = sqrtm(one)
    spread = np.trace(one + other - 2 * np.real(sqrtm(root @ other @ root))) / 4
    return float((1 - np.square(first.mean(axis=0) - second.mean(axis=0)).sum() / 4) * spread)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=768)
    arguments = parser.parse_args()
    texts = make_texts(arguments.texts, arguments.dimension)
    start = time.perf_counter()
    result = mean_socm(texts, progress=True)
    seconds = time.perf_counter() - start
    print(
        f"{result.pairs} pairs, d = {arguments.dimension}: {seconds:.0f} s, mean {result.mean:.4f}"
    )
    # More tokens than dimensions: the direct formula needs covariances of full rank.
    small = make_texts(2 * _DIRECT_PAIRS, _DIRECT_DIMENSION, _DIRECT_DIMENSION + 8)
    errors = [
        abs(socm(first, second) / direct(first, second) - 1)
        for first, second in zip(small[::2], small[1::2], strict=True)
    ]
    print(f"largest relative difference from the direct formula: {max(errors):.1e}")


if __name__ == "__main__":
    main()
