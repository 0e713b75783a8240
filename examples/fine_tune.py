"""Fine-tune a built model with a standard sentence-transformers loss.

    python examples/fine_tune.py [MODEL]

A built model is made of sentence-transformers' own modules, so that everything that trains a
SentenceTransformer trains it. Here `SparseTrainer` does, with sparse gradients, which makes a step
on a large vocabulary many times as fast, and the word table is loaded as `StaticWordEmbedding`,
which tokenizes fast and is saved as the `StaticEmbedding` that it was.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData
from sentence_transformers.sentence_transformer.modules import Normalize

from st_static import StaticWordEmbedding
from st_static.cli import run_command
from st_static.distill.distillation import SparseTrainer
from st_static.model.card_file import training_of
from st_static.model.export import export_model

PAIRS = [
    ("How do I open a file?", "open(path) returns a file object."),
    ("How do I sort a list?", "sorted(values) returns a new sorted list."),
    ("How do I join strings?", "str.join puts strings together."),
    ("How do I parse JSON?", "json.loads turns text into objects."),
]


OUTPUT = "models/fine-tuned"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="models/quickstart",
        help="its name, folder or Hub id; it has no head (default: models/quickstart)",
    )
    path = parser.parse_args(arguments).model

    words = StaticWordEmbedding.load(path)
    about = SentenceTransformerModelCardData(language="en", license="apache-2.0")  # for its card
    about.base_model = Path(path).name  # or its id on the Hub
    modules = [words, Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu", model_card_data=about)
    questions, answers = zip(*PAIRS, strict=True)
    dataset = Dataset.from_dict({"anchor": questions, "positive": answers})

    def n_right() -> int:
        scores = model.similarity(model.encode(questions), model.encode(answers))
        return sum(int(row.argmax()) == i for i, row in enumerate(scores))

    before = n_right()
    trainer = SparseTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=f"{OUTPUT}-checkpoints",
            num_train_epochs=50,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=dataset,
        loss=MultipleNegativesRankingLoss(model),
    )
    trainer.train()
    print(f"questions nearest to their own answer: {before} before, {n_right()} after")

    # Published again as a repository that loads with sentence-transformers alone.
    table = words.embedding.weight.detach().numpy()
    record = {"fine_tuning": training_of(vars(model.model_card_data))}
    export_model(OUTPUT, table, words.tokenizer, record)
    print(f"written to {OUTPUT}. Write its card, and see whether it can be published:")
    print(f"st-static card {OUTPUT} --hub_id ORG/NAME")
    print(f"st-static publish {OUTPUT} ORG/NAME --dry_run")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
