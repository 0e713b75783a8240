"""Distil an ensemble into one small table (paper section 2.4, with the steps of 2.2 and 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from st_static.arguments import as_path, check_texts, check_type, require
from st_static.distill import distillation, stages
from st_static.distill.agreement import TableAgreement
from st_static.distill.config import DistillationConfig
from st_static.distill.sentence_pca import SentencePCA
from st_static.encode.encoder import Encoder, check_encoder
from st_static.ensemble.ensemble import FusedEnsemble
from st_static.files import read_arrays, write_arrays
from st_static.model.export import check_output
from st_static.model.modules import PCA_FILE
from st_static.model.vectors import sentence_means
from st_static.progress import bar

_PCA_SENTENCES = 100_000
_FILE_TEXTS = 10_000
_PROBES = 64


def distill_into(
    fused: FusedEnsemble,
    path: str | Path,
    dim: int,
    texts: Sequence[str],
    target: Encoder,
    work_dir: str | Path,
    config: DistillationConfig | None = None,
    held_out: int = 4096,
    seed: int = 0,
    dtype: Literal["float32", "float16"] = "float32",
) -> dict[str, Any]:
    """Make one table of a given dimension that reproduces the target's similarities.

    Training starts from the sentence PCA of the fused table, each member at its mean length.

    Args:
        fused: The fused ensemble, whose vocabulary it keeps.
        path: Folder to write.
        dim: Output dimension D, at most that of the fused ensemble.
        texts: Sentences to train on, [M]; repetitions are left out.
        target: The ensemble, the teacher, or `Ensemble([ensemble, teacher])`.
        work_dir: For the target's vectors and checkpoints; an interrupted run resumes from there.
        config: Steps and batches.
        held_out: How many of the sentences are kept for the held-out loss and the agreement.
        seed: Seed of the held-out sentences and of training.
        dtype: Number format of the table, as for `FusedEnsemble.export_calibrated`.

    Returns:
        Figures of the training, and `target_agreement` before and after it: Spearman x 100 of the
        table's and the target's cosines on held-out sentences.

    Raises:
        ValueError: The folder, dimension, number of sentences, or `config` does not fit.
        TypeError: An argument is of the wrong kind.

    Example:
        `distill_into(fused, path, 256, texts, ensemble, work_dir)`: `examples/ensemble.py`.
    """
    path, work_dir = as_path(path, "a folder to write"), as_path(work_dir, "a work_dir")
    config = DistillationConfig() if config is None else config
    check_encoder(target, "the target")
    check_texts(texts)
    check_type(fused, FusedEnsemble, "a fused ensemble", "Make one: ensemble.fuse().")
    check_type(config, DistillationConfig, "a DistillationConfig")
    check_training(config)
    for number, name in ((dim, "the dimension"), (held_out, "held_out")):
        check_type(number, Integral, f"a whole number as {name}")
    require(held_out >= 2, f"Expected at least 2 sentences as held_out, but got {held_out}.")
    check_dimension(fused, dim, config)
    check_output(path, with_card=True)
    # One copy of a repeated sentence could be trained on and another held out.
    texts, least = list(dict.fromkeys(texts)), max(2 * held_out, dim)
    require(
        len(texts) >= least,
        f"Expected at least {least} sentences, twice held_out ({held_out}) and one for each "
        f"dimension ({dim}), but got {len(texts)} different ones.",
    )
    rows = np.sort(np.random.default_rng(seed).choice(len(texts), held_out, replace=False))
    distillation.check_sizes(np.setdiff1d(np.arange(len(texts)), rows), rows, config)
    stage = _train(
        fused, dim, texts, target, held_out=rows, config=config, seed=seed, work_dir=work_dir
    )
    figures, head = stages.stage_record(stage)["figures"], stages.read_head(stage)
    record = fused.record("distilled", head.units if head else None) | {"distillation": figures}
    table = stages.read_word_table(stage)
    fused.export(path, record, table, dtype, pca=stage / PCA_FILE, head=head)
    return dict(figures)


def check_training(config: DistillationConfig) -> None:
    """Check that an ensemble can be distilled with these options, on this machine."""
    require(
        config.sentences_per_word is None,
        f"distillation.sentences_per_word is {config.sentences_per_word}, but an ensemble is "
        "distilled with sentences that were selected for no word. Leave it out.",
    )
    require(config.target == "cosines", "An ensemble is distilled with the target cosines.")
    distillation.training_device(config)


def check_dimension(fused: FusedEnsemble, dim: int, config: DistillationConfig) -> None:
    """Check that an ensemble can be distilled into a table of a dimension."""
    most, smaller = fused.table.shape[1], config.matryoshka_dims
    require(
        1 <= dim <= most,
        f"Expected a dimension of 1 to {most}, that of the ensemble, but got {dim}.",
    )
    require(
        not smaller or max(smaller) <= dim,
        f"distillation.matryoshka_dims ({smaller}) must be at most {dim}, the table's dimension.",
    )


def _train(
    fused: FusedEnsemble,
    dim: int,
    texts: Sequence[str],
    target: Encoder,
    *,
    held_out: NDArray[np.int64],
    config: DistillationConfig,
    seed: int,
    work_dir: Path,
) -> Path:
    """Run the stage that trains a table and writes it with its PCA and figures."""
    ids = distillation.sentence_ids(fused.tokenizer, texts)
    # Project the table onto its first sentence-level components, [V, D]; zeros stay zeros.
    table = fused.calibrated_table(texts)
    sample = ids.take(np.arange(min(len(texts), _PCA_SENTENCES)))
    pca = SentencePCA(dim, n_remove=0).fit(sentence_means(table, sample))
    table = pca.transform_table(table)
    vectors = _vectors_of(target, texts, work_dir)
    key = {**asdict(config), "seed": seed, "arrays": _hash(table, ids.values, vectors, held_out)}

    def train(folder: Path) -> stages.Figures:
        """Train the table, from the last checkpoint on if there is one."""
        pca.save(folder / PCA_FILE)
        trained = distillation.distill(
            table,
            fused.tokenizer,
            distillation.TrainingData(ids, vectors),
            held_out=held_out,
            config=config,
            folder=folder / "checkpoints",
            seed=seed,
        )
        stages.write_student(folder, trained.table, trained.head)
        agreement = TableAgreement(ids.take(held_out), vectors[held_out])
        agreements = [agreement(table), agreement(trained.table, trained.head)]
        return trained.figures | {"target_agreement": [round(a, 2) for a in agreements]}

    return stages.run_stage(work_dir, "distillation", key, train)


def _vectors_of(target: Encoder, texts: Sequence[str], work_dir: Path) -> NDArray[np.float16]:
    """Encode all texts with the target, [M, D], once, one file at a time."""

    def write(folder: Path) -> stages.Figures:
        """Write the missing files."""
        stages.require_disk(folder, len(texts) * probes[0].nbytes, "The target's vectors")
        with bar("target", len(texts), "text") as progress:
            for start in range(0, len(texts), _FILE_TEXTS):
                part = list(texts[start : start + _FILE_TEXTS])
                path = folder / f"{start:010}.safetensors"
                if not path.exists():
                    vectors = np.asarray(target.encode(part), np.float16)
                    write_arrays(path, {"vectors": vectors})
                progress.update(len(part))
        return {"texts": len(texts)}

    probes = np.asarray(target.encode(list(texts[:_PROBES])), np.float16)  # identify the target
    key = {"texts": xxhash.xxh3_64_hexdigest("\0".join(texts).encode()), "target": _hash(probes)}
    files = sorted(stages.run_stage(work_dir, "target", key, write).glob("*.safetensors"))
    return np.concatenate([read_arrays(file)["vectors"] for file in files])


def _hash(*arrays: NDArray[Any]) -> str:
    hasher = xxhash.xxh3_64()
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()
