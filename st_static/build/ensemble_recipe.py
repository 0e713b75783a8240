"""An ensemble from a recipe: members in, a folder that SentenceTransformer() loads out."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from st_static.build.agreement import cosine_agreement
from st_static.build.documents import Corpus
from st_static.build.ensemble import distill_into
from st_static.build.ensemble_config import EnsembleConfig
from st_static.build.sentences import sentence_shards, write_sentences
from st_static.build.stages import Figures, digest, locked, run_stage
from st_static.build.teacher import Teacher
from st_static.model.ensemble import Ensemble, Member
from st_static.model.export import check_output
from st_static.model.fast_encoder import FastEncoder
from st_static.model.files import read_table
from st_static.model.named import read_named

_MEASURED_PAIRS = 5_000


@dataclass(frozen=True)
class EnsembleResult:
    """A built ensemble.

    Attributes:
        output: The folder.
        figures: What was measured: `fused_agreement` and `model_agreement`, the Pearson
            correlation of the fused ensemble's and the written model's cosines with those of the
            exact one, on pairs of the corpus's sentences; and those of `distill_into`.
    """

    output: Path
    figures: Figures


def build_ensemble(config: EnsembleConfig) -> EnsembleResult:
    """Build an ensemble as a recipe says.

    Args:
        config: The recipe.

    Raises:
        ValueError: Something in the recipe cannot work, such as a member that is not there.
    """
    output, work_dir = Path(config.output), Path(config.work_dir)
    check_output(output)
    ensemble = Ensemble([FastEncoder(read_named(m)) for m in config.members], config.weights)
    texts: list[str] = []
    if config.has_corpus:
        with locked(work_dir):
            texts = _sentences(config, work_dir)
    fused = ensemble.fuse()
    figures: Figures = {}
    if config.form == "exact":
        fused.save_pretrained(output, config.export.dtype)
    elif config.form == "calibrated":
        fused.export_calibrated(output, texts, config.export.dtype)
    else:
        key = {
            **asdict(config),
            "output": None,
            "texts": digest(texts),
            "table": _hash(fused.table),
        }
        with locked(work_dir):
            figures = distill_into(
                fused,
                output,
                config.dimension,
                texts,
                _target(config, ensemble),
                work_dir / f"distillation-{digest(key)}",
                config.distillation,
                config.held_out,
                config.seed,
                config.export.dtype,
            )
    if texts:
        written = FastEncoder.from_pretrained(output)
        n = min(len(texts) // 2, _MEASURED_PAIRS)
        for name, encoder in (("fused_agreement", fused), ("model_agreement", written)):
            value = cosine_agreement(ensemble, encoder, texts[:n], texts[n : 2 * n])
            figures[name] = round(value, 4)
    return EnsembleResult(output, figures)


def _sentences(config: EnsembleConfig, work_dir: Path) -> list[str]:
    """The sentences of the corpus with the smallest keys, which are hashes of their texts."""
    corpus = Corpus(config.corpus)
    key = {"corpus": corpus.identity(), **asdict(config.sentences)}
    write = functools.partial(_write_sentences, corpus, config)
    shards = sentence_shards(run_stage(work_dir, "sentences", key, write))
    table = pa.concat_tables([read_table(path) for path in shards])
    chosen = np.argsort(table["key"].to_numpy(), kind="stable")[: config.n_sentences]
    texts: list[str] = table["text"].take(pa.array(chosen)).to_pylist()
    return texts


def _write_sentences(corpus: Corpus, config: EnsembleConfig, folder: Path) -> Figures:
    return write_sentences(corpus, folder, config.sentences, config.workers)


def _target(config: EnsembleConfig, ensemble: Ensemble) -> Member:
    """What a distilled table is trained to give the similarities of."""
    if config.target == "ensemble":
        return ensemble
    teacher = Teacher.load(config.teacher)
    # So that its `encode` puts the recipe's prompt before each text, or none.
    teacher.model.prompts = {"recipe": teacher.prompt}
    teacher.model.default_prompt_name = "recipe"
    return teacher.model if config.target == "teacher" else Ensemble([ensemble, teacher.model])


def _hash(table: NDArray[np.float32]) -> str:
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(table).data)
