"""Build a static model of your language from a text file.

    python examples/build_in_your_language.py FILE LANGUAGE TEACHER

Writes the model to models/LANGUAGE, and prints the sentences nearest to FILE's first line.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from st_static import (
    BuildConfig,
    CorpusConfig,
    DistillationConfig,
    FastEncoder,
    SelectionConfig,
    SentencePCAConfig,
    TeacherConfig,
    VocabularyConfig,
    build,
)
from st_static.cli import run_command


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="a text file with a document per line")
    parser.add_argument("language", help="its BCP 47 tag, such as tr")
    parser.add_argument(
        "teacher",
        help="a SentenceTransformer that knows it, such as intfloat/multilingual-e5-small",
    )
    options = parser.parse_args(arguments)

    output = f"models/{options.language}"
    config = BuildConfig(
        output=output,
        work_dir=f"{output}-work",
        # Decides how the text is split into sentences and words, and what a card says.
        language=options.language,
        teacher=TeacherConfig(model=options.teacher),
        corpus=CorpusConfig(files=options.file),
        # Small numbers, for little text; the recipes show those for much.
        vocabulary=VocabularyConfig(size=100, min_count=2, pieces="used"),
        selection=SelectionConfig(sentences_per_word=5, held_out=64),
        pca=SentencePCAConfig(n_components=128),
        distillation=DistillationConfig(max_steps=400, batch_size=64, eval_steps=100),
    )
    result = build(config)
    print(f"{result.stage('vocabulary').figures['words']:,} words")

    encoder = FastEncoder.from_pretrained(result.output)
    lines = Path(options.file).read_text("utf-8").splitlines()[:1000]
    scores = encoder.encode(lines) @ encoder.encode(lines[:1])[0]
    print(f"Nearest to {lines[0]!r}:")
    for place in scores.argsort()[::-1][1:4]:
        print(f"{scores[place]:.2f}  {lines[place]}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
