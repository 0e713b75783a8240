"""Text and a teacher to a word table; `build` runs a whole recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from st_static.build.config import (
    BuildConfig,
    CorpusConfig,
    DistillationConfig,
    ExportConfig,
    SelectionConfig,
    SentencePCAConfig,
    SentencesConfig,
    TeacherConfig,
    VocabularyConfig,
)

if TYPE_CHECKING:
    from st_static.build.recipe import build

__all__ = [
    "BuildConfig",
    "CorpusConfig",
    "DistillationConfig",
    "ExportConfig",
    "SelectionConfig",
    "SentencePCAConfig",
    "SentencesConfig",
    "TeacherConfig",
    "VocabularyConfig",
    "build",
]


def __getattr__(name: str) -> object:
    # Loaded when first used: it brings torch.
    if name == "build":
        from st_static.build.recipe import build

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
