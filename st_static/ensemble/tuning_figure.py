"""Draw how the weights of an ensemble were tuned."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from st_static.arguments import as_path, check_type
from st_static.ensemble.ensemble import Tuning
from st_static.evaluate.figures import OTHERS, OURS, new_panels, save_both, write_plainly


def draw_tuning(tuning: Tuning, stem: str | Path) -> list[Path]:
    """Draw the score of each trial over each weight but the first, one panel per weight.

    Args:
        tuning: The result of `Ensemble.tune`.
        stem: File to write, without its suffix: an SVG and a PNG are written.

    Raises:
        ValueError: There is only one member.
        TypeError: An argument is of the wrong kind.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> from st_static.ensemble.ensemble import Ensemble
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[text.count(c) for c in "ab"] for text in texts])
        >>> tuning = Ensemble([Letters(), Letters()]).tune(lambda encoder: 1.0)
        >>> with TemporaryDirectory() as folder:
        ...     [file.name for file in draw_tuning(tuning, f"{folder}/tuning")]
        ['tuning.svg', 'tuning.png']
    """
    check_type(tuning, Tuning, "what Ensemble.tune returns")
    stem = as_path(stem, "a file to write")
    if len(tuning.ensemble.weights) < 2:
        raise ValueError("There is no curve to draw: an ensemble of one member has no weights.")
    weights = np.array([trial.weights for trial in tuning.trials])
    scores = [trial.score for trial in tuning.trials]
    figure, panels = new_panels(weights.shape[1] - 1)
    for i, axes in enumerate(panels, 1):
        axes.plot(weights[:, i], scores, ".", color=OTHERS[0], label="tried")
        best = tuning.ensemble.weights[i]
        axes.plot(best, tuning.score, "o", color=OURS, label=f"best: {best:.2f}")
        axes.set(xscale="log", xlabel=f"weight of member {i + 1}", ylabel="score")
        write_plainly(axes.xaxis, "{:g}")
        axes.legend(frameon=False)
    figure.suptitle("Weights of the ensemble that were tried", fontsize=11)
    return save_both(figure, stem)
