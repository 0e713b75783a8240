"""Build an ensemble from a recipe: members in, a folder that SentenceTransformer() loads out."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from st_static.arguments import check_type
from st_static.cards.facts import CardFacts
from st_static.cards.render import render
from st_static.distill.agreement import cosine_agreement
from st_static.distill.corpus.docstrings import read_docstrings
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import sentence_shards, split_sentences, write_sentences
from st_static.distill.engines import Processes
from st_static.distill.stages import Figures, locked, run_stage
from st_static.distill.teacher import Teacher
from st_static.encode.encoder import Encoder
from st_static.encode.fast_encoder import FastEncoder
from st_static.ensemble.config import EnsembleConfig, require_members
from st_static.ensemble.distill_ensemble import check_dimension, check_training, distill_into
from st_static.ensemble.ensemble import Ensemble
from st_static.files import atomic, read_arrow, read_json, write_json
from st_static.model.card_file import read_notes
from st_static.model.model_name import read_named
from st_static.model.modules import CARD_FILE, RECORD_FILE
from st_static.model.replacement import held

logger = logging.getLogger(__name__)

_MEASURED_PAIRS = 5_000
_ENOUGH = 0.99


def build_ensemble(config: EnsembleConfig) -> Figures:
    """Build an ensemble as a recipe says. Return the figures of `distill_into`, and Pearson's
    correlation of the fused and the written model's cosines with the exact ones, on `random_pairs`.
    """
    check_type(config, EnsembleConfig, "an EnsembleConfig", "Make one: EnsembleConfig(members=…).")
    output, work_dir, training = Path(config.output), Path(config.work_dir), config.distillation
    if config.form == "distilled":
        check_training(training)
    require_members(config)
    ensemble = Ensemble([FastEncoder(read_named(m)) for m in config.members], config.weights)
    fused = ensemble.fuse()  # refuses members that do not fit into one table
    if config.form == "distilled":
        check_dimension(fused, config.dimension, training)
    figures: Figures = {}
    if config.form == "exact":
        fused.save_pretrained(output)
    else:
        with locked(work_dir):
            texts = _sentences(config, work_dir)
            if config.form == "calibrated":
                fused.export_calibrated(output, texts)
            else:
                figures = distill_into(
                    fused,
                    output,
                    config.dimension,
                    texts,
                    target=_target(config, ensemble),
                    work_dir=work_dir,
                    config=training,
                    held_out=config.held_out,
                    seed=config.seed,
                )
    pairs = _measured_pairs()
    agreement: Figures = {"random_pairs": len(pairs[0])}
    written = FastEncoder.from_pretrained(output)
    for name, encoder in (("fused_agreement", fused), ("model_agreement", written)):
        agreement[name] = round(cosine_agreement(ensemble, encoder, *pairs), 4)
    if agreement["fused_agreement"] < _ENOUGH:
        logger.warning(
            "Fused, the ensemble is not quite itself: a member tells capitals apart, or splits "
            "words by what stands beside them. Measure it on text like yours with "
            "st_static.cosine_agreement."
        )
    record_agreement(output, agreement)
    return figures | agreement


def _sentences(config: EnsembleConfig, work_dir: Path) -> list[str]:
    """Take the sentences of the corpus with the smallest keys, which are hashes of their texts."""
    corpus, engine = Corpus(config.corpus), Processes(config.workers)
    key = {"corpus": corpus.identity(engine), **asdict(config.sentences)}

    def write(folder: Path) -> Figures:
        return write_sentences(corpus, folder, config.sentences, engine)

    stage = run_stage(work_dir, "sentences", key, write)
    table = pa.concat_tables([read_arrow(path) for path in sentence_shards(stage)])
    chosen = np.argsort(table["key"].to_numpy(), kind="stable")[: config.n_sentences]
    texts: list[str] = table["text"].take(pa.array(chosen)).to_pylist()
    return texts


def _target(config: EnsembleConfig, ensemble: Ensemble) -> Encoder:
    """Load the encoder whose similarities a distilled table learns."""
    if config.target == "ensemble":
        return ensemble
    teacher = Teacher.load(config.teacher)
    # Make its `encode` put the recipe's prompt, or none, before each text.
    teacher.model.prompts = {"recipe": teacher.prompt}
    teacher.model.default_prompt_name = "recipe"
    return teacher.model if config.target == "teacher" else Ensemble([ensemble, teacher.model])


def _measured_pairs() -> tuple[list[str], list[str]]:
    """Pair sentences that every machine has: from the standard library's documentation."""
    distinct: dict[str, None] = {}
    for sentence in split_sentences(read_docstrings(["stdlib"])):
        distinct[sentence] = None
        if len(distinct) == 2 * _MEASURED_PAIRS:
            break
    texts, middle = list(distinct), len(distinct) // 2
    return texts[:middle], texts[middle : 2 * middle]


def record_agreement(folder: Path, figures: Figures) -> None:
    """Add the measured agreement to the model's record, and to its card if it has our markers."""
    with held(folder):  # else another process may put its model in the place meanwhile
        record = read_json(folder / RECORD_FILE)
        record["ensemble"]["agreement"] = figures
        write_json(folder / RECORD_FILE, record)
        try:
            notes = read_notes(folder / CARD_FILE)
        except (OSError, ValueError):
            return  # the card is not ours
        with atomic(folder / CARD_FILE) as partial:
            partial.write_text(render(CardFacts(folder.resolve().name, record), notes), "utf-8")
