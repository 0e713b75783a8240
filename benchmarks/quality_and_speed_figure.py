"""The README's figure: quality against speed of our models, their teacher and peers.

    python benchmarks/quality_and_speed_figure.py [--measured FILE.csv] [--output FILE]

draws what the CSV file says: one point per model and encoder, and the teacher, which is hundreds of
times slower, as a line. A row names the card that holds its score, if one does, and a test compares
the two; `each_encoder.py` measured the speeds. `--output` ends with .png, .svg or .pdf.
"""

from __future__ import annotations

import csv
from itertools import cycle
from pathlib import Path

from measuring import parser_of

from st_static.evaluate.figures import OTHERS, OURS, TEACHER, draw_quality_and_speed, new_axes, save
from st_static.evaluate.speed import MeasuredSpeed

FIGURES = Path(__file__).parents[1] / "docs" / "figures"


def main() -> None:
    """Draw the figure."""
    parser = parser_of(__doc__)
    parser.add_argument("--measured", type=Path, default=FIGURES / "quality_and_speed.csv")
    parser.add_argument("--output", type=Path, default=FIGURES / "quality_and_speed.png")
    options = parser.parse_args()
    with options.measured.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    [teacher] = (row for row in rows if row["role"] == "teacher")
    rows.remove(teacher)
    speeds = [
        MeasuredSpeed(row["model"], row["encoder"], int(row["sentences_per_second"]))
        for row in rows
    ]
    quality = {row["model"]: float(row["score"]) for row in rows}
    roles, grays = {row["model"]: row["role"] for row in rows}, cycle(OTHERS)
    colors = {model: OURS if role == "ours" else next(grays) for model, role in roles.items()}
    labels = {m: m if role == "peer" else f"{m} ({role})" for m, role in roles.items()}
    figure, axes = new_axes()
    score = float(teacher["score"])
    axes.axhline(score, color=TEACHER, linewidth=1, linestyle="--")
    name = teacher["model"].rpartition("/")[2]
    axes.annotate(
        f"{name}, its first teacher: {int(teacher['sentences_per_second']):,} sentences per second",
        (0.01, score),
        (0, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color=TEACHER,
        fontsize=8,
    )
    axes.set_xlabel("sentences per second, two CPU cores (log scale)")
    axes.set_ylabel("mean of 9 MTEB tasks, x 100")
    draw_quality_and_speed(axes, speeds, quality, labels, colors)
    save(figure, options.output)
    print(f"{len(speeds)} points in {options.output}")


if __name__ == "__main__":
    main()
