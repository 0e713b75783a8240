"""Train a deep averaging network: a classifier behind the mean of word vectors, trained as a whole.

    python examples/deep_averaging_network.py [MODEL] [--output models/dan]

As in Iyyer et al. (2015), the mean of a text's words goes through layers with a nonlinearity, and a
softmax tells the class; in training, words are left out at random. The word vectors are MODEL's at
first, and trained with the layers: by `SparseTrainer` with sparse gradients and dense ones. Prints
how many held-out texts get the right class.

All modules are sentence-transformers' own, so the folder loads without st_static; `encode` gives a
number for each class, the largest for the likeliest.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import Dense
from torch import nn

from st_static import SparseTrainer, StaticWordEmbedding
from st_static.cli import run_command

HIDDEN = 64
# Of each class, the last three are held out.
TEXTS = {
    "account": [
        "I forgot my password and cannot log in.",
        "How do I change the e-mail address of my profile?",
        "My account was locked after too many attempts.",
        "Please delete my user data.",
        "The confirmation code for signing in never arrives.",
        "I want to turn on two-factor authentication.",
        "Can two colleagues share one login?",
        "My username is misspelled, how can I rename it?",
        "I am signed out of my account every few minutes.",
    ],
    "delivery": [
        "Where is my parcel?",
        "The courier left the package at the wrong door.",
        "When will the order be shipped?",
        "Can you deliver to an island?",
        "The tracking number shows no movement for a week.",
        "I would like a later delivery date.",
        "The box arrived late and was torn open.",
        "Does the shipment need a signature?",
        "Nobody was at home when the driver came with the parcel.",
    ],
    "payment": [
        "My credit card was charged twice.",
        "I need an invoice with our tax number.",
        "Do you accept bank transfers?",
        "The refund has not reached my bank.",
        "Why is the price higher at the checkout?",
        "The discount was not subtracted from the bill.",
        "My card is declined when I pay.",
        "Can I pay in three instalments?",
        "You charged my bank account for last month again.",
    ],
    "product": [
        "The screen flickers after the update.",
        "The battery lasts only two hours.",
        "How do I clean the filter?",
        "One button of the remote control is broken.",
        "The device gets hot and makes a loud noise.",
        "Which cable fits this model?",
        "The speaker crackles at high volume.",
        "The machine does not switch on any more.",
        "Is there a manual for replacing the battery?",
    ],
}
HELD_OUT = 3


class CrossEntropy(nn.Module):
    """The cross-entropy of a softmax over the model's outputs."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: torch.Tensor
    ) -> torch.Tensor:
        [texts] = sentence_features
        logits = self.model(texts)["sentence_embedding"]  # [B, classes]
        return nn.functional.cross_entropy(logits, labels)


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    model, output = "st-static/english-384", Path("models/dan")
    help_model = f"its name, folder or Hub id; it has no head (default: {model})"
    add("model", nargs="?", default=model, help=help_model)
    add("--output", type=Path, default=output, help=f"folder for the network (default: {output})")
    add("--word_dropout", type=float, default=0.3, help="a probability (default: 0.3)")
    add("--epochs", type=int, default=30, help="of the training (default: 30)")
    options = parser.parse_args(arguments)
    if not 0 <= options.word_dropout < 1:
        parser.error(
            f"Expected --word_dropout from 0 to below 1, but it is {options.word_dropout}."
        )
    if options.epochs < 1:
        parser.error(f"--epochs must be positive, but it is {options.epochs}.")
    output = options.output
    if output.exists() and not (output / "modules.json").is_file():
        parser.error(f"--output {output} is no model: choose a folder that is not there yet.")
    return options


def train(model: SentenceTransformer, labelled: list[tuple[str, int]], epochs: int) -> None:
    texts, labels = zip(*labelled, strict=True)
    with tempfile.TemporaryDirectory() as empty:  # the Trainer wants a folder, and writes nothing
        arguments = SentenceTransformerTrainingArguments(
            output_dir=empty,
            num_train_epochs=epochs,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        )
        dataset = Dataset.from_dict({"text": texts, "label": labels})
        SparseTrainer(model, arguments, train_dataset=dataset, loss=CrossEntropy(model)).train()


def main(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    torch.manual_seed(0)  # of the layers' first weights
    words = StaticWordEmbedding.load(options.model)
    words.word_dropout = options.word_dropout
    layers = [
        Dense(words.get_embedding_dimension(), HIDDEN, activation_function=nn.Tanh()),
        Dense(HIDDEN, HIDDEN, activation_function=nn.Tanh()),
        Dense(HIDDEN, len(TEXTS), activation_function=nn.Identity()),
    ]
    model = SentenceTransformer(modules=[words, *layers], device="cpu")

    labelled = [[(text, label) for text in texts] for label, texts in enumerate(TEXTS.values())]
    train(model, [pair for pairs in labelled for pair in pairs[:-HELD_OUT]], options.epochs)
    held_out = [pair for pairs in labelled for pair in pairs[-HELD_OUT:]]

    names, n_right = list(TEXTS), 0
    found = model.encode([text for text, _ in held_out]).argmax(axis=1)
    for (text, label), guess in zip(held_out, found.tolist(), strict=True):
        n_right += guess == label
        print(f"{names[guess]}{'' if guess == label else ' (wrong)'}: {text}")
    print(f"held-out texts in the right class: {n_right} of {len(held_out)}")
    model.save_pretrained(str(options.output))
    print(f"written to {options.output}, with the classes {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
