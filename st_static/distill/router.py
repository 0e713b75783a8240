"""A `Router` of sentence-transformers: queries by a static model, documents by its teacher."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from st_static.arguments import require
from st_static.distill.config import TeacherConfig
from st_static.files import write_json
from st_static.hub import whole_path
from st_static.model.replacement import check_output_folder, replacing

_RECORD = "st_static_router.json"  # tells that st_static wrote the folder
_OWN = re.compile(
    rf"{_RECORD}|modules\.json|config_sentence_transformers\.json|router_config\.json"
    r"|(query|document)_\d+_[A-Z]\w*(/.*)?"
)


def check_router(folder: Path, *others: Path) -> None:
    """Raise a ValueError if a folder is neither new, nor empty, nor a router of st_static, or is or
    holds one of `others`, the folders of the build."""
    for other in others:
        apart = not other.resolve().is_relative_to(folder.resolve())
        require(apart, f"export.router ({folder}) is or holds {other}: name another folder.")
    check_output_folder(folder, _RECORD, "a router of st_static")


def write_router(folder: Path, model: Path, teacher: TeacherConfig) -> None:
    """Write a router of the model in a folder, and of a copy of its teacher in float32."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    from st_static.distill.teacher import load_modules

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
    with replacing(folder, lambda _, name: _OWN.fullmatch(name) is not None) as partial:
        router.save(str(partial), create_model_card=False)
        write_json(partial / _RECORD, {"documents": teacher.hub_id or teacher.model})
