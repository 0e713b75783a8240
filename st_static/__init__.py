"""st_static: static sentence embeddings from any SentenceTransformer.

`st_static.build.build` runs a whole recipe; the names below are its parts for use alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from st_static.lazy import lazy_names

if TYPE_CHECKING:
    from st_static.build.distillation import SparseTrainer
    from st_static.build.loss import SimilarityDistillationLoss
    from st_static.build.sentence_pca import SentencePCA
    from st_static.model.accelerate import accelerate
    from st_static.model.ensemble import Ensemble
    from st_static.model.fast_encoder import FastEncoder
    from st_static.model.static_word_embedding import StaticWordEmbedding

__version__ = "0.1.0"

__all__ = [
    "Ensemble",
    "FastEncoder",
    "SentencePCA",
    "SimilarityDistillationLoss",
    "SparseTrainer",
    "StaticWordEmbedding",
    "__version__",
    "accelerate",
]

# Loaded when first used, so that `import st_static` stays quick.
_HOME = {
    "Ensemble": "st_static.model.ensemble",
    "FastEncoder": "st_static.model.fast_encoder",
    "SentencePCA": "st_static.build.sentence_pca",
    "SimilarityDistillationLoss": "st_static.build.loss",
    "SparseTrainer": "st_static.build.distillation",
    "StaticWordEmbedding": "st_static.model.static_word_embedding",
    "accelerate": "st_static.model.accelerate",
}

__getattr__ = lazy_names(__name__, _HOME)
