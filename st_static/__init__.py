"""Static sentence embeddings: one vector per word, and a mean.

Encode
    `FastEncoder` encodes texts with a static model, `ArrowEncoder` columns of Arrow tables;
    `read_named` reads a model of another project by name; `accelerate` makes a static
    SentenceTransformer faster. `export_onnx` writes a model for other programs.
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

from typing import TYPE_CHECKING

from st_static.lazy import lazy_names

if TYPE_CHECKING:
    from st_static.distill.agreement import TeacherAgreement, cosine_agreement
    from st_static.distill.config import (
        BuildConfig,
        CorpusConfig,
        DistillationConfig,
        ExportConfig,
        PairsConfig,
        SelectionConfig,
        SentencePCAConfig,
        SentencesConfig,
        TeacherConfig,
        VocabularyConfig,
    )
    from st_static.distill.distillation import SparseTrainer
    from st_static.distill.loss import SimilarityDistillationLoss
    from st_static.distill.pipeline import build
    from st_static.distill.sentence_pca import SentencePCA
    from st_static.encode.accelerate import accelerate
    from st_static.encode.arrow_encoder import ArrowEncoder
    from st_static.encode.fast_encoder import FastEncoder
    from st_static.ensemble.distill_ensemble import distill_into
    from st_static.ensemble.ensemble import Ensemble
    from st_static.evaluate.figures import draw_tuning
    from st_static.model.model_name import read_named
    from st_static.model.onnx_export import export_onnx
    from st_static.model.static_word_embedding import StaticWordEmbedding

__version__ = "0.1.0"

# Loaded when first used, so that `import st_static` stays quick.
_HOME = {
    "ArrowEncoder": "st_static.encode.arrow_encoder",
    "BuildConfig": "st_static.distill.config",
    "CorpusConfig": "st_static.distill.config",
    "DistillationConfig": "st_static.distill.config",
    "Ensemble": "st_static.ensemble.ensemble",
    "ExportConfig": "st_static.distill.config",
    "FastEncoder": "st_static.encode.fast_encoder",
    "PairsConfig": "st_static.distill.config",
    "SelectionConfig": "st_static.distill.config",
    "SentencePCA": "st_static.distill.sentence_pca",
    "SentencePCAConfig": "st_static.distill.config",
    "SentencesConfig": "st_static.distill.config",
    "SimilarityDistillationLoss": "st_static.distill.loss",
    "SparseTrainer": "st_static.distill.distillation",
    "StaticWordEmbedding": "st_static.model.static_word_embedding",
    "TeacherAgreement": "st_static.distill.agreement",
    "TeacherConfig": "st_static.distill.config",
    "VocabularyConfig": "st_static.distill.config",
    "accelerate": "st_static.encode.accelerate",
    "build": "st_static.distill.pipeline",
    "cosine_agreement": "st_static.distill.agreement",
    "distill_into": "st_static.ensemble.distill_ensemble",
    "draw_tuning": "st_static.evaluate.figures",
    "export_onnx": "st_static.model.onnx_export",
    "read_named": "st_static.model.model_name",
}

__all__ = [
    "ArrowEncoder",
    "BuildConfig",
    "CorpusConfig",
    "DistillationConfig",
    "Ensemble",
    "ExportConfig",
    "FastEncoder",
    "PairsConfig",
    "SelectionConfig",
    "SentencePCA",
    "SentencePCAConfig",
    "SentencesConfig",
    "SimilarityDistillationLoss",
    "SparseTrainer",
    "StaticWordEmbedding",
    "TeacherAgreement",
    "TeacherConfig",
    "VocabularyConfig",
    "__version__",
    "accelerate",
    "build",
    "cosine_agreement",
    "distill_into",
    "draw_tuning",
    "export_onnx",
    "read_named",
]

__getattr__ = lazy_names(__name__, _HOME)
