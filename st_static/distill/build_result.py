"""What a build leaves: the model, and its stages with their figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from st_static.distill.stages import Figures
from st_static.distill.work_directory import WorkDirectory


@dataclass(frozen=True)
class BuiltStage:
    """A complete stage.

    Attributes:
        name: The stage.
        folder: Its files.
        figures: What it measured.
        seconds: How long it took, in all its runs.
    """

    name: str
    folder: Path
    figures: Figures
    seconds: float


@dataclass(frozen=True)
class BuildResult:
    """A built model.

    Attributes:
        output: The folder that SentenceTransformer() loads.
        work: The stages' files.
        stages: The stages, in order.
        seconds: How long this run took; stages that were complete before took it no time.
    """

    output: Path
    work: WorkDirectory
    stages: list[BuiltStage]
    seconds: float = 0.0

    def stage(self, name: str) -> BuiltStage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)
