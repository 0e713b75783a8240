"""What the analyses are to read, checked before the libraries that they need are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from st_static.evaluate.models import require_named
from st_static.evaluate.tasks import check_data, check_names


@dataclass(frozen=True)
class Inputs:
    """What the analyses read beside the model; one that lacks its input is left out.

    Attributes:
        teacher: The teacher, for its second-order collapse: a folder or Hub id.
        texts: A file of texts, one per line, for second-order collapse.
        pairs: A file of two paraphrases per line, with a tab between them, for alignment and
            uniformity.
        tagged: A file of `word/TAG` tokens, for parts of speech.
        tasks: MTEB tasks for the ablation.
        data: Local copies of their datasets.

    Raises:
        ValueError: A file, a task or a copy of its dataset is not there, the teacher cannot be had,
            or comes without texts.
    """

    teacher: str | None = None
    texts: Path | None = None
    pairs: Path | None = None
    tagged: Path | None = None
    tasks: Sequence[str] = ()
    data: Path | None = None

    def __post_init__(self) -> None:
        for file in (self.texts, self.pairs, self.tagged):
            if file:
                _require(file)
        if self.teacher and not self.texts:
            raise ValueError("The teacher's second-order collapse needs texts to measure it on.")
        check_names("task", self.tasks)
        if self.data:
            check_data(self.data, self.tasks)
        if self.teacher:
            require_named(self.teacher)


def check_transformers(models: Sequence[str], texts: Path) -> None:
    """Check what second-order collapse is to be measured of, and on.

    Raises:
        ValueError: There is no such file or model.
    """
    _require(texts)
    for name in models:
        require_named(name)


def _require(file: Path) -> None:
    if not file.exists():
        raise ValueError(f"There is no {file}.")
