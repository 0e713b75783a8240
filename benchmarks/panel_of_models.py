"""The development panel of finished models, also of their first dimensions.

    python benchmarks/panel_of_models.py MODEL [MODEL@256 ...] --data DIR

MODEL is a folder of a table that SentenceTransformer loads; `MODEL@256` takes the first 256
dimensions of its vectors. Prints the scores of `benchmarks/panel.py` and their mean, a row per
model. Choices are made on this panel: its figures are not those of a test.
"""

import tempfile
from pathlib import Path

from measuring import parser_of
from panel import score_table, scores
from sentence_transformers import SentenceTransformer

from st_static.evaluate.tables import as_markdown


def truncated(folder: Path, dimension: int, output: Path) -> Path:
    """Write a copy of a model with the first dimensions of its table."""
    model = SentenceTransformer(str(folder.resolve()), device="cpu")
    words = model[0].embedding
    words.weight.data = words.weight.data[:, :dimension].contiguous()
    words.embedding_dim = model[0].embedding_dim = dimension
    model.save(str(output), create_model_card=False)
    return output


def main() -> None:
    """Score and print."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL[@DIMENSIONS]")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    rows = {}
    for name in options.models:
        folder, mark, dimension = name.partition("@")
        with tempfile.TemporaryDirectory() as copies:
            place = Path(folder)
            if mark:
                place = truncated(place, int(dimension), Path(copies) / "model")
            rows[name] = scores(place, options.data)
    print(as_markdown(score_table(rows)))


if __name__ == "__main__":
    main()
