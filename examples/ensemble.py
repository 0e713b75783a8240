"""Combine two static models: choose weights, fuse them into one table, save it in three ways.

    python examples/ensemble.py MODEL MODEL --teacher TEACHER --texts FILE [--output models]

Some of FILE's sentences are held out to choose the weights; the others train the smaller table.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sentence_transformers import SentenceTransformer

from st_static import (
    DistillationConfig,
    Ensemble,
    FastEncoder,
    TeacherAgreement,
    cosine_agreement,
    distill_into,
)
from st_static.cli import run_command
from st_static.hub import require_model
from st_static.model.model_name import locate, read_named


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "models",
        nargs=2,
        metavar="MODEL",
        help="named as in a recipe of an ensemble, such as models/quickstart and wordllama:256",
    )
    add(
        "--teacher",
        required=True,
        metavar="TEACHER",
        help="the SentenceTransformer that the ensemble shall follow",
    )
    add("--texts", type=Path, required=True, metavar="FILE", help="one sentence per line")
    add(
        "--output",
        type=Path,
        default=Path("models"),
        help="for the three folders (default: models)",
    )
    add("--held_out", type=int, default=4096, help="sentences (default: 4096)")
    add("--dim", type=int, default=256, help="of the smaller table (default: 256)")
    add("--steps", type=int, default=10_000, help="of its training (default: 10000)")
    options = parser.parse_args(arguments)
    for name in ("held_out", "dim", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be positive, but it is {getattr(options, name)}.")
    if not options.texts.is_file():
        raise ValueError(f"There is no file {options.texts}. Expected one sentence per line.")

    name = locate(options.teacher)
    require_model(name)
    teacher = SentenceTransformer(name)

    sentences = list(dict.fromkeys(options.texts.read_text("utf-8").splitlines()))
    if len(sentences) < 3 * options.held_out:
        parser.error(
            f"Expected {3 * options.held_out} different sentences, three times --held_out, but "
            f"{options.texts} has {len(sentences)}."
        )
    held_out, train = sentences[: options.held_out], sentences[options.held_out :]
    equal = Ensemble([FastEncoder(read_named(name)) for name in options.models])

    # The weights with which the ensemble ranks held-out pairs most like the teacher does.
    tuning = equal.tune(TeacherAgreement(held_out, teacher.encode(held_out)))
    ensemble = tuning.ensemble
    weights = " and ".join(f"{weight:.2f}" for weight in ensemble.weights)
    print(f"teacher agreement at equal weights: {tuning.trials[0].score:.2f}")
    print(f"teacher agreement at {weights}: {tuning.score:.2f}")

    # One table over the first model's words; how near it comes to the members' own tokenizers.
    fused = ensemble.fuse()
    middle = len(held_out) // 2
    pairs = held_out[:middle], held_out[middle:]
    print(f"Pearson of cosines, fused: {cosine_agreement(ensemble, fused, *pairs):.4f}")

    # 1. Exactly: loads with trust_remote_code=True.
    fused.save_pretrained(options.output / "ensemble")
    # 2. With sentence-transformers' own modules, nearly exactly.
    fused.export_calibrated(options.output / "ensemble-calibrated", train)
    # 3. As a smaller table, trained to give the same similarities.
    distill_into(
        fused,
        options.output / "ensemble-distilled",
        options.dim,
        train,
        target=ensemble,
        work_dir=Path("work") / "ensemble-distilled",
        config=DistillationConfig(max_steps=options.steps),
        held_out=options.held_out,
    )
    for name in ("ensemble", "ensemble-calibrated", "ensemble-distilled"):
        encoder = FastEncoder.from_pretrained(options.output / name)
        print(f"Pearson of cosines, {name}: {cosine_agreement(ensemble, encoder, *pairs):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
