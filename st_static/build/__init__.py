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
from st_static.lazy import lazy_names

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

__getattr__ = lazy_names(__name__, _HOME)
