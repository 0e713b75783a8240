"""The shapes of a model's record, `st_static.json`, which says how the model was made.

Anybody may have written a record. Its values must have the types below; a model's card needs all of
them, other readers any.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

_TEXT = str | None
_TEXTS = str | list[str] | None
# A "?" marks a key that even the records of new builds may leave out.
_MEMBER = {
    "name": str,
    "width": int,
    "weight": float,
    "license": _TEXT,
    "languages?": list[str] | None,
}
_KINDS: dict[str, dict[str, Any]] = {
    "recipe": {
        "recipe": {
            "teacher": {
                "model": str,
                "revision": _TEXT,
                "sha256": _TEXT,
                "hub_id?": _TEXT,
                "description?": _TEXT,
                "license?": _TEXT,
            },
            "corpus": {
                "files": _TEXTS,
                "docstrings": list[str] | None,
                "dataset": _TEXT,
                "dataset_config": _TEXTS,
                "description?": _TEXT,
                "license?": _TEXT,
                "redistributable?": bool,
            },
            "selection": {"sentences_per_word": int},
            "pca": {"n_components": int},
            "export": {"license?": _TEXT, "normalize?": bool},
            "language?": _TEXTS,
            "pairs?": dict[str, Any] | None,
        },
        "stages": {
            "sentences": {"hash": str, "kept": int, "bytes": int},
            "vocabulary": {"hash": str, "words": int, "tokens": int, "smallest_count": int},
            "selection": {"hash": str, "sentences": int},
            "pca": {"hash": str, "removed": int},
        },
        "versions": dict[str, str],
    },
    "ensemble": {
        "ensemble": {
            "form": Literal["exact", "calibrated", "distilled"],
            "members": [_MEMBER],
            "head_units?": int,
            "agreement?": {"random_pairs": int, "fused_agreement": float, "model_agreement": float},
        }
    },
    "conversion": {
        "conversion": {
            "file": str,
            "limit": int | None,
            "dtype": str,
            "words": int,
            "dimension": int,
            "punctuation": int,
            "lowercase": bool,
            "strip_accents": bool,
            "spellings": int,
            "never_found": int,
            "teacher": _TEXT,
            "license": _TEXT,
            "languages": list[str],
        }
    },
}


def _shape(keys: Any, is_whole: bool) -> Any:
    """Make the type of a JSON object; all keys are optional unless it is whole."""
    if isinstance(keys, list):
        return list[_shape(keys[0], is_whole)]  # type: ignore[misc]
    if not isinstance(keys, dict):
        return keys if is_whole else keys | None
    fields: list[Any] = []
    for key, value in keys.items():
        kind = _shape(value, is_whole)
        optional = (kind | None, None) if key.endswith("?") or not is_whole else (kind,)
        fields.append((key.removesuffix("?"), *optional))
    return msgspec.defstruct("Part", fields, kw_only=True)


STATED = _shape({key: value for kind in _KINDS.values() for key, value in kind.items()}, False)
"""The shape of any record; each part may be missing."""

WHOLE = {kind: _shape(keys, True) for kind, keys in _KINDS.items()}
"""The shapes of whole records, by the part that tells how the model was made."""
