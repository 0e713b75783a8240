"""The README's figure: quality against speed of our models, their teacher and peers.

    python benchmarks/quality_and_speed_figure.py [--measured FILE.csv] [--output FILE]

draws what the CSV file says: one point per model and encoder. Each row names the file that holds
both numbers and the command that measured them; a test compares the two. `--output` ends with .png,
.svg or .pdf.
"""

from __future__ import annotations

import argparse
import csv
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from st_static.evaluate.figure_style import OURS, PEERS, TEACHER, legend_above, new_axes, save
from st_static.evaluate.point_labels import Point, label_points

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
# Of encoders; unlike colours they can be told apart where points of one model are close.
MARKERS = {
    "FastEncoder, texts seen before": "o",
    "FastEncoder, texts new": "s",
    "sentence-transformers": "^",
    "Model2Vec": "x",
    "st_static": "v",
}
STYLE: dict[str, Any] = {"markersize": 8, "markerfacecolor": "none", "markeredgewidth": 1.6}


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measured", type=Path, default=FIGURES / "quality_and_speed.csv")
    parser.add_argument("--output", type=Path, default=FIGURES / "quality_and_speed.png")
    options = parser.parse_args()
    with options.measured.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    figure, axes = new_axes()
    points = draw_models(axes, rows)
    for encoder, marker in MARKERS.items():
        axes.plot([], [], marker, color="#444444", label=f"by {encoder}", **STYLE)
    axes.set(xscale="log", xlabel="sentences per second, two CPU cores (log scale)")
    axes.set_ylabel("mean of 9 MTEB tasks, x 100")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.12, y=0.2)
    legend_above(axes)
    label_points(axes, points, fontsize=9)
    save(figure, options.output)
    print(f"{len(points)} points in {options.output}")


def draw_models(axes: Axes, rows: list[dict[str, str]]) -> list[Point]:
    """Draw each model's encoders on a line of its own; the label goes to its fastest."""
    grays = cycle(PEERS)
    points = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = sorted(
            (row for row in rows if row["model"] == model),
            key=lambda row: -float(row["sentences_per_second"]),
        )
        color = {"ours": OURS, "teacher": TEACHER}.get(own[0]["role"]) or next(grays)
        speeds = [float(row["sentences_per_second"]) for row in own]
        scores = [float(row["score"]) for row in own]
        axes.plot(speeds, scores, color=color, linewidth=1, alpha=0.5)
        mark = {"ours": " (ours)", "teacher": " (teacher)"}.get(own[0]["role"], "")
        labels = [model + mark] + [""] * (len(own) - 1)
        for row, speed, score, label in zip(own, speeds, scores, labels, strict=True):
            axes.plot(speed, score, MARKERS[row["encoder"]], color=color, **STYLE)
            points.append(Point(speed, score, label, color))
    return points


if __name__ == "__main__":
    main()
