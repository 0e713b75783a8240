"""Static sentence embeddings: one vector per word, and a mean.

Encode
    `FastEncoder` encodes texts with a static model, `ArrowEncoder` columns of Arrow tables;
    `read_named` reads a model of another project by name. `export_onnx` writes a model for other
    programs.
Search
    `SearchIndex` finds texts by their meaning and by their words; `read_folder` reads documents.
Build
    `build` makes a model as a `BuildConfig` says. `SentencePCA`, `SimilarityDistillationLoss`,
    `StaticWordEmbedding` and `SparseTrainer` are its parts, for training loops of your own.
Combine
    `Ensemble` puts several models together; `TeacherAgreement`, `cosine_agreement` and
    `draw_tuning` help to choose its weights; `distill_into` makes one small table of it.

Example:
    >>> import numpy as np
    >>> import st_static
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[text.count(c) for c in "ab"] for text in texts])
    >>> ensemble = st_static.Ensemble([Letters(), Letters()], weights=[1, 0.5])
    >>> ensemble.encode(["a", "ab"]).shape
    (2, 4)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from st_static.dependencies import (
    GONE,
    DependencyError,
    extra_of,
    has_room,
    is_installed,
    needed_by,
)
from st_static.threads import forks_wait

if TYPE_CHECKING:
    # isort: off
    from st_static.distill.agreement import (
        TeacherAgreement as TeacherAgreement,
        cosine_agreement as cosine_agreement,
    )
    from st_static.distill.config import (
        BuildConfig as BuildConfig,
        CorpusConfig as CorpusConfig,
        DistillationConfig as DistillationConfig,
        ExportConfig as ExportConfig,
        PairsConfig as PairsConfig,
        SelectionConfig as SelectionConfig,
        SentencePCAConfig as SentencePCAConfig,
        SentencesConfig as SentencesConfig,
        VocabularyConfig as VocabularyConfig,
    )
    from st_static.distill.distillation import SparseTrainer as SparseTrainer
    from st_static.distill.loss import SimilarityDistillationLoss as SimilarityDistillationLoss
    from st_static.distill.pipeline import build as build
    from st_static.distill.sentence_pca import SentencePCA as SentencePCA
    from st_static.distill.teacher_config import (
        TeacherConfig as TeacherConfig,
        WeightedTeacher as WeightedTeacher,
    )
    from st_static.encode.arrow_encoder import ArrowEncoder as ArrowEncoder
    from st_static.encode.fast_encoder import FastEncoder as FastEncoder
    from st_static.ensemble.distill_ensemble import distill_into as distill_into
    from st_static.ensemble.ensemble import Ensemble as Ensemble
    from st_static.ensemble.tuning_figure import draw_tuning as draw_tuning
    from st_static.model.model_name import read_named as read_named
    from st_static.web.onnx_export import export_onnx as export_onnx
    from st_static.distill.static_word_embedding import StaticWordEmbedding as StaticWordEmbedding
    from st_static.search.search_index import SearchIndex as SearchIndex
    from st_static.texts.folder import read_folder as read_folder

__version__ = "0.2.0"

# Loaded when first used, so that `import st_static` stays quick.
_NAMES = {
    "distill.agreement": ["TeacherAgreement", "cosine_agreement"],
    "distill.config": [
        *["BuildConfig", "CorpusConfig", "DistillationConfig", "ExportConfig", "PairsConfig"],
        *["SelectionConfig", "SentencePCAConfig", "SentencesConfig", "VocabularyConfig"],
    ],
    "distill.distillation": ["SparseTrainer"],
    "distill.loss": ["SimilarityDistillationLoss"],
    "distill.pipeline": ["build"],
    "distill.sentence_pca": ["SentencePCA"],
    "distill.teacher_config": ["TeacherConfig", "WeightedTeacher"],
    "encode.arrow_encoder": ["ArrowEncoder"],
    "encode.fast_encoder": ["FastEncoder"],
    "ensemble.distill_ensemble": ["distill_into"],
    "ensemble.ensemble": ["Ensemble"],
    "ensemble.tuning_figure": ["draw_tuning"],
    "model.model_name": ["read_named"],
    "web.onnx_export": ["export_onnx"],
    "distill.static_word_embedding": ["StaticWordEmbedding"],
    "search.search_index": ["SearchIndex"],
    "texts.folder": ["read_folder"],
}
_HOME = {name: f"st_static.{home}" for home, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_HOME]  # type checkers go by the imports above


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not has_room(_HOME[name]):
        raise DependencyError(GONE.format(f"with {name}"))
    with needed_by(f"{__name__}.{name}", extra_of(_HOME[name])), forks_wait:
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    # Without the names of what is not installed: `help` gets all that are listed.
    here = (name for name, home in _HOME.items() if has_room(home) and is_installed(extra_of(home)))
    return sorted({"__version__", "__doc__", *here})
