"""Whether the table of a queries' model should start from ridge regression.

    python benchmarks/ridge_start.py RECIPE --held_out 'held_out/*.txt.xz' --beir FOLDER \\
        [--penalties 0.1 1 10] [--rounds 30]

builds a recipe with `distillation.target: vectors`; stages that are complete are not run again. It
then fits the table by ridge regression and trains that, too. With the shares of words in the
training texts X [S, V], the teacher's vectors Y [S, d] and the extraction's table E [V, d], scaled
so that X E is nearest to Y, the fitted table T minimizes |X T - Y|^2 + p |T - E|^2, by `--rounds`
steps of conjugate gradients. The penalty p is the one whose table has the highest mean cosine with
the teacher's vectors of the build's own held-out texts.

It prints, for each table, that mean cosine, and nDCG@10 x 100 for the queries of
`hybrid_fusion.py`, by meaning alone, with documents that the teacher encodes: of paragraphs from
`--held_out`, and of FOLDER.
"""

import tempfile
from pathlib import Path

import numpy as np
from hybrid_fusion import EncodedTexts, by_meaning, sorts_of
from measuring import log_to_terminal, parser_of, print_heading, print_row
from numpy.typing import NDArray
from passages_as_targets import HELD_OUT_PARAGRAPHS
from scipy import sparse
from tqdm import tqdm

from st_static.commands.build import parse_build
from st_static.distill.distillation import distill, sentence_ids
from st_static.distill.pipeline import _running
from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.ragged import Ragged

Table = NDArray[np.float32]


def shares(ids: Ragged, n_words: int) -> sparse.csr_array:
    """The share of each word in each text, [S, V]."""
    weights = (1 / ids.lengths[ids.row_of_value]).astype(np.float32)
    return sparse.csr_array((weights, ids.values, ids.offsets), shape=(len(ids.lengths), n_words))


def ridge(x: sparse.csr_array, y: Table, near: Table, penalty: float, rounds: int) -> Table:
    """Minimize |X T - Y|^2 + p |T - E|^2 from T = E on, a step of all columns at a time."""
    columns = x.T.tocsr()
    table = near.copy()
    residual = columns @ (y - x @ table)
    direction, square = residual.copy(), (residual**2).sum(axis=0)
    for _ in tqdm(range(rounds), f"penalty {penalty}", disable=None):
        image = columns @ (x @ direction) + np.float32(penalty) * direction
        step = square / np.maximum((direction * image).sum(axis=0), 1e-30)
        table += step * direction
        residual -= step * image
        before, square = square, (residual**2).sum(axis=0)
        direction = residual + square / np.maximum(before, 1e-30) * direction
    return table


def main() -> None:
    """Build, fit, train and print a row for each table."""
    parser = parser_of(__doc__)
    parser.add_argument("recipe", metavar="RECIPE")
    parser.add_argument("--held_out", required=True)
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--penalties", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--rounds", type=int, default=30)
    arguments, overrides = parser.parse_known_args()
    log_to_terminal()
    config = parse_build([arguments.recipe, *overrides])
    if not config.is_for_queries or config.distillation.head:
        parser.error("the recipe must have distillation.target: vectors, and no head")
    with _running(config) as run:
        run.run()
        work, vectors, ids = run.work, run.work.sentence_vectors, run._ids
        train, development = run._training_sentences
        extraction, tokenizer = work.table("extraction"), work.tokenizer
        sorts = sorts_of(arguments.held_out, arguments.beir, HELD_OUT_PARAGRAPHS)
        documents = EncodedTexts(sorts, lambda texts: unit_rows(run.teacher.model.encode(texts)))
        goals = unit_rows(vectors[development].astype(np.float32))

        def fit_of(table: Table) -> float:
            means = unit_rows(sentence_means(table, ids.take(development)))
            return float((means * goals).sum(axis=1).mean())

        def row(name: str, table: Table) -> None:
            def vectors(queries: list[str]) -> Table:
                return unit_rows(sentence_means(table, sentence_ids(tokenizer, queries)))

            found = documents.found_by(vectors, by_meaning)
            scores = (of_sort["meaning"] for of_sort in found)
            print_row(name, f"{fit_of(table):.4f}", *scores)

        print_heading(["table", "cosine with the teacher", *documents.headings])
        row("extraction", extraction)
        row("extraction, trained", work.table("distillation"))
        x = shares(ids.take(train), len(extraction))
        y = unit_rows(vectors[train].astype(np.float32))
        image = x @ extraction
        near = extraction * np.float32((image * y).sum() / (image**2).sum())
        fitted = {}
        for penalty in arguments.penalties:
            fitted[penalty] = ridge(x, y, near, penalty, arguments.rounds)
            row(f"ridge, penalty {penalty}", fitted[penalty])
        best = max(fitted, key=lambda penalty: fit_of(fitted[penalty]))
        with tempfile.TemporaryDirectory() as folder:
            trained = distill(
                fitted[best],
                tokenizer,
                run._data,
                held_out=development,
                config=run._training,
                folder=Path(folder),
                seed=config.seed,
                train=train,
            )
        row(f"ridge, penalty {best}, trained", trained.table)


if __name__ == "__main__":
    main()
