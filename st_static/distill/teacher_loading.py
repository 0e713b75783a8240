"""A teacher from its folder or the Hub: a SentenceTransformer, or a transformer and a pooling."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import is_sentence_transformer_model
from transformers import PretrainedConfig

from st_static.distill.config import TeacherConfig
from st_static.distill.sources import require_teacher
from st_static.hub import downloading, whole_path
from st_static.model.model_name import locate, no_model
from st_static.model.modules import check_for_others

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# By default transformers computes in the format that the weights are stored in.
_AS_FLOAT32: dict[str, Any] = {"dtype": torch.float32}
# Checkpoints that need code from the Hub, which fails with transformers 5, and the same in the
# format that transformers has itself.
_OLD_MODEL_TYPE = "new"
_NATIVE = {
    "gte-base-en-v1.5": "alibaba-nlp-community/gte-base-en-v1.5",
    "gte-large-en-v1.5": "alibaba-nlp-community/gte-large-en-v1.5",
    "gte-multilingual-base": "alibaba-nlp-community/gte-multilingual-base",
}


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """The number format to run in; `auto` is bfloat16 where the processor computes it fast."""
    if name != "auto":
        return _DTYPES[name]
    if device.type == "cuda":
        return torch.bfloat16
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    fast = capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")
    return torch.bfloat16 if fast else torch.float32


def load_modules(config: TeacherConfig) -> SentenceTransformer:
    """Load a teacher's modules as a recipe describes them, in float32.

    Raises:
        ValueError: It cannot be loaded, has other weights than expected, or its pooling is not
            known, or not what the recipe says.
    """
    folder = locate(config.model)
    from_cache = require_teacher(config) is not None
    check_for_others(folder)
    with downloading("model", config.model, config.revision):
        return _load(config, folder, from_cache)


def _load(config: TeacherConfig, folder: str, from_cache: bool) -> SentenceTransformer:
    """Load the modules of a teacher that can be had, perhaps from the cache alone."""
    description = _description(config, folder, from_cache)
    _refuse_old_format(config, description)
    has_modules = is_sentence_transformer_model(
        folder, revision=config.revision, local_files_only=from_cache
    )
    if not has_modules:
        _check_transformer(config, description)
    try:
        if not has_modules:
            return _with_pooling(config, folder, from_cache)
        model = SentenceTransformer(
            whole_path(folder),
            device=config.device,
            revision=config.revision,
            trust_remote_code=config.trust_remote_code,
            local_files_only=from_cache,
            model_kwargs=_AS_FLOAT32 | _code_revision(config),
            config_kwargs=_code_revision(config),
        )
    except Exception as error:  # of the libraries, for files, packages or devices
        kind = "SentenceTransformer" if has_modules else "transformer"
        raise ValueError(
            f"The teacher {config.model!r} cannot be loaded as a {kind}: {error}"
        ) from error
    _check_modules(model, config)
    return model


def _with_pooling(config: TeacherConfig, folder: str, from_cache: bool) -> SentenceTransformer:
    """A transformer with the pooling that the recipe says."""
    source = {
        "revision": config.revision,
        "local_files_only": from_cache,
        "trust_remote_code": config.trust_remote_code,
    }
    code = source | _code_revision(config)
    transformer = Transformer(
        whole_path(folder),
        model_kwargs=_AS_FLOAT32 | code,
        config_kwargs=code,
        processor_kwargs=source,
    )
    pooling = Pooling(int(transformer.get_embedding_dimension()), pooling_mode=config.pooling)
    last = [Normalize()] if config.normalize else []
    return SentenceTransformer(modules=[transformer, pooling, *last], device=config.device)


def _check_modules(model: SentenceTransformer, config: TeacherConfig) -> None:
    """Check that a repository's own modules are what the recipe says of them.

    Raises:
        ValueError: They are not.
    """
    found = {
        "pooling": next((m.pooling_mode for m in model if isinstance(m, Pooling)), None),
        "normalize": any(isinstance(m, Normalize) for m in model),
    }
    for name, has in found.items():
        says = getattr(config, name)
        if says is not None and says != has:
            raise ValueError(
                f"teacher.{name} is {_in_yaml(says)}, but the teacher {config.model!r} comes with "
                f"{_in_yaml(has)} in its own modules.json. Leave it out: --teacher.{name} null."
            )


def _in_yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _description(config: TeacherConfig, folder: str, from_cache: bool) -> dict[str, Any]:
    """A transformer's config.json; nothing if it has none beside the other files."""
    try:
        description: dict[str, Any]
        description, _ = PretrainedConfig.get_config_dict(
            folder, revision=config.revision, local_files_only=from_cache
        )
    except OSError:  # the transformer may lie in a folder of its own
        return {}
    except Exception as error:  # of JSON that is no object
        raise ValueError(
            f"The config.json of the teacher {config.model!r} cannot be read: {error}."
        ) from error
    return description


def _check_transformer(config: TeacherConfig, description: dict[str, Any]) -> None:
    """Check that what is no SentenceTransformer is a transformer, and its pooling given.

    Raises:
        ValueError: It is not.
    """
    if "model_type" not in description:
        raise no_model(config.model)
    if config.pooling is None:
        raise ValueError(
            f"The teacher {config.model!r} is no SentenceTransformer: it has no modules.json, "
            "which would say how it pools. Say it by --teacher.pooling mean (or cls, lasttoken): "
            "its authors' page names the one that it was trained with; for a base model, take mean."
        )


def _refuse_old_format(config: TeacherConfig, description: dict[str, Any]) -> None:
    """Refuse a checkpoint that needs code which fails, in favour of one that needs none.

    Raises:
        ValueError: It is one.
    """
    if description.get("model_type") == _OLD_MODEL_TYPE:
        name = (config.hub_id or config.model).rstrip("/").rpartition("/")[2].lower()
        raise ValueError(
            f"The teacher {config.model!r} is in an old format (model_type "
            f"{_OLD_MODEL_TYPE!r}), whose code fails with transformers 5. Take one in the format "
            f"of transformers itself (model_type 'gte'): {_native(name)}."
        )


def _native(name: str) -> str:
    """What to give instead of a checkpoint in the old format."""
    if name in _NATIVE:
        return f"--teacher.model {_NATIVE[name]}"
    return " or ".join(_NATIVE.values())


def _code_revision(config: TeacherConfig) -> dict[str, str]:
    return {"code_revision": config.code_revision} if config.code_revision else {}
