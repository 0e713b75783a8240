"""Ensembles of static models in every form, on five tasks.

    python benchmarks/ensembles.py --data DIR --corpus FILE [FILE ...] --teacher MODEL \
        MODEL MODEL [MODEL ...] [--folder OUT]

scores each model, the pairs of the first with each other one, and all together: with equal
weights, and with those of the best teacher agreement on sentences of the corpus; both exact, fused,
calibrated and distilled into 256 dimensions, unless `--exact` leaves out all but the first. Exact
ones also with the weights of the best score on STSBenchmark's validation split. Tuning and
distillation never see a test split; but STSBenchmark's scores here are those of its validation
split, so weights tuned on it are to be compared by the other tasks. A MODEL is named as in a recipe
of an ensemble; DIR holds a folder a task; files hold a document a line. Under OUT it leaves the
models, results and the curves of the tuning, and takes up results and distilled tables from there
when it is run again.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from measuring import parser_of
from sentence_transformers import SentenceTransformer
from sts import load_pairs, score_pairs
from tqdm import tqdm

from st_static import TeacherAgreement, cosine_agreement, distill_into, draw_tuning
from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.encode.encoder import Encoder
from st_static.encode.fast_encoder import FastEncoder
from st_static.ensemble.ensemble import Ensemble
from st_static.evaluate.benchmark import run_tasks
from st_static.evaluate.models import EvaluatedModel
from st_static.evaluate.tables import as_markdown
from st_static.evaluate.tasks import find_tasks
from st_static.model.model_name import locate, read_named

TASKS = ["STSBenchmark", "STS12", "STS13", "Banking77Classification", "NFCorpus"]
DEV = TASKS[:3]
HELD_OUT = 4096
DIMENSION = 256
PROBES = 1000


def sample_sentences(files: list[str], n: int) -> list[str]:
    """Distinct sentences of 4 to 64 words, spread over the files: those of smallest hash."""
    chosen = []
    for file in tqdm(files, desc="sentences"):
        documents = Corpus(CorpusConfig(files=file))
        sentences = {s for s in split_sentences(documents) if 4 <= len(s.split()) <= 64}
        chosen += sorted(sentences, key=key_of)[: -(-n // len(files))]
    return sorted(chosen, key=key_of)


def key_of(text: str) -> bytes:
    """A hash, so that the order has nothing to do with the text."""
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


def fingerprint(encoder: Encoder, texts: list[str]) -> str:
    """Tells encoders apart by the vectors that they give."""
    vectors = np.asarray(encoder.encode(texts[:PROBES]), np.float32)
    return hashlib.md5(vectors.tobytes(), usedforsecurity=False).hexdigest()[:12]


def score(
    name: str, encoder: Encoder, revision: str, options: argparse.Namespace
) -> dict[str, float]:
    """Main scores x 100."""

    def encode(texts: list[str]) -> np.ndarray:
        """Vectors [B, D]."""
        return np.asarray(encoder.encode(texts))

    dimension = encode(["a"]).shape[1]
    model = EvaluatedModel(f"ensembles/{name}", revision, encode, dimension)
    outcome = run_tasks(model, find_tasks(tasks=TASKS), options.folder, options.data)
    if outcome.failures:
        raise SystemExit(f"{name}: {outcome.failures}")
    return outcome.scores


def forms(
    ensemble: Ensemble, name: str, texts: list[str], options: argparse.Namespace
) -> Iterator[tuple[str, Encoder]]:
    """One ensemble in its forms; a distilled table that is there is taken."""
    yield "exact", ensemble
    if options.exact:
        return
    fused = ensemble.fuse()
    yield "fused", fused
    stem = f"{name}-{fingerprint(ensemble, texts)}"
    calibrated = options.folder / "models" / f"{stem}-calibrated"
    fused.export_calibrated(calibrated, texts)
    yield "calibrated", FastEncoder.from_pretrained(calibrated)
    path, work = options.folder / "models" / f"{stem}-{DIMENSION}", options.folder / "work" / name
    if not path.is_dir():
        distill_into(fused, path, DIMENSION, texts, ensemble, work)
    yield f"distilled into {DIMENSION}", FastEncoder.from_pretrained(path)


def main() -> None:
    """Tune, score and print."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--corpus", nargs="+", required=True)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--exact", action="store_true", help="no other forms, which take an hour")
    parser.add_argument("--folder", type=Path, default=Path("work/ensembles"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    texts = sample_sentences(options.corpus, options.sentences + HELD_OUT)
    held_out, texts = texts[:HELD_OUT], texts[HELD_OUT:]
    teacher = SentenceTransformer(locate(options.teacher))
    objective = TeacherAgreement(held_out, teacher.encode(held_out, show_progress_bar=True))
    # Scaled to length 1, as members of an ensemble are.
    models = {name: replace(read_named(name), normalize=True) for name in options.models}
    encoders = {name: FastEncoder(model) for name, model in models.items()}
    pairs = load_pairs(options.data)
    first = [text for task in pairs.values() for text in task.sentences1]
    second = [text for task in pairs.values() for text in task.sentences2]
    middle = HELD_OUT // 2

    rows = []

    def add(name: str, form: str, encoder: Encoder, weights: list[float]) -> None:
        """Score an encoder, and add its row."""
        key = f"{name} {form}".replace("/", "_").replace(" ", "-")
        scores = score(key, encoder, fingerprint(encoder, texts), options)
        rows.append(
            {
                "model": name,
                "form": form,
                "weights": " : ".join(f"{weight:.2f}" for weight in weights),
                **scores,
                "dev mean": float(np.mean([scores[task] for task in DEV])),
                "agreement": objective(encoder),
            }
        )
        print(json.dumps(rows[-1]), flush=True)

    names = {spec: encoder.model.name for spec, encoder in encoders.items()}
    for spec, encoder in encoders.items():
        add(names[spec], "alone", encoder, [1.0])
    start, *others = options.models
    groups = [[start, other] for other in others] + ([options.models] if len(others) > 1 else [])
    for group in groups:
        name = " + ".join(names[spec] for spec in group)
        equal = Ensemble([encoders[spec] for spec in group])
        validated = equal.tune(lambda ensemble: score_pairs(ensemble, pairs["STSBenchmark"]))
        add(name, "exact, by validation", validated.ensemble, validated.ensemble.weights)
        tuning = equal.tune(objective)
        stem = name.replace(" ", "").replace("/", "_")
        draw_tuning(tuning, options.folder / f"{stem}-tuning")
        for ensemble in (equal, tuning.ensemble):
            for form, encoder in forms(ensemble, stem, texts, options):
                add(name, form, encoder, ensemble.weights)
                if form != "exact":
                    on_pairs = cosine_agreement(ensemble, encoder, first, second)
                    on_text = cosine_agreement(
                        ensemble, encoder, held_out[:middle], held_out[middle:]
                    )
                    print(
                        f"{name}, {ensemble.weights}, {form}: Pearson of cosines with the exact "
                        f"ensemble's {on_pairs:.4f} on {len(first)} sentence pairs of STS, "
                        f"{on_text:.4f} on {middle} random pairs of the corpus"
                    )
    print(as_markdown(pl.DataFrame(rows)))


if __name__ == "__main__":
    main()
