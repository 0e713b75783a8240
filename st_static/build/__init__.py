"""Text and a teacher to a word table; `build` runs a whole recipe."""

from __future__ import annotations

import importlib
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
    from st_static.build.agreement import TeacherAgreement, cosine_agreement
    from st_static.build.ensemble import distill_into
    from st_static.build.recipe import build

__all__ = [
    "BuildConfig",
    "CorpusConfig",
    "DistillationConfig",
    "ExportConfig",
    "SelectionConfig",
    "SentencePCAConfig",
    "SentencesConfig",
    "TeacherAgreement",
    "TeacherConfig",
    "VocabularyConfig",
    "build",
    "cosine_agreement",
    "distill_into",
]

# Loaded when first used: they bring torch.
_HOME = {
    "TeacherAgreement": "st_static.build.agreement",
    "build": "st_static.build.recipe",
    "cosine_agreement": "st_static.build.agreement",
    "distill_into": "st_static.build.ensemble",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
