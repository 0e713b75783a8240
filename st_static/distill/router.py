"""Write a `Router` of sentence-transformers, which encodes documents with the teacher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router

from st_static.distill.sources import check_router
from st_static.distill.teacher import load_modules
from st_static.distill.teacher_config import TeacherConfig
from st_static.files import write_json
from st_static.hub import whole_path
from st_static.model.modules import ROUTER_FILES, ROUTER_RECORD
from st_static.model.replacement import replacing


def write_router(folder: Path, model: Path, teacher: TeacherConfig, record: dict[str, Any]) -> None:
    """Write a router of a model, with its record, and of a copy of its teacher in float32."""
    queries: Any = SentenceTransformer(whole_path(model), device="cpu")
    documents: Any = load_modules(teacher)
    default = documents.default_prompt_name
    router = SentenceTransformer(
        modules=[Router.for_query_document([*queries], [*documents], default_route="document")],
        # The model has learnt the teacher's vectors of queries behind its prompt, and needs none.
        prompts=documents.prompts | {"query": ""},
        default_prompt_name=None if default == "query" else default,
        similarity_fn_name="cosine",
        device="cpu",
    )
    check_router(folder)
    with replacing(folder, lambda _, name: ROUTER_FILES.fullmatch(name) is not None) as partial:
        router.save(str(partial), create_model_card=False)
        write_json(partial / ROUTER_RECORD, record | {"router": {"queries": model.resolve().name}})
