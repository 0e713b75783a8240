"""The shapes of a model's record, `st_static.json`, which says how the model was made.

Anybody may have written a record. Its values must have the types below; a model's card needs all of
them, other readers any.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

_TEXT = str | None
_TEXTS = str | list[str] | None


def _all(kind: Any, keys: str) -> dict[str, Any]:
    return dict.fromkeys(keys.split(), kind)


_MEMBER = {"name": str, "width": int, "weight": float, "license": _TEXT}
_MEMBER |= {"languages?": list[str] | None}
# A "?" marks a key that even the records of new builds may leave out.
_KINDS: dict[str, dict[str, Any]] = {
    "recipe": {
        "recipe": {
            "teacher": {
                "model": str,
                **_all(_TEXT, "revision sha256 hub_id? description? license?"),
            },
            "corpus": {
                **_all(_TEXTS, "files dataset_config"),
                **_all(_TEXT, "dataset description? license?"),
                "docstrings": list[str] | None,
                "redistributable?": bool,
            },
            "selection": {"sentences_per_word": int},
            "pca": {"n_components": int},
            "export": {"license?": _TEXT, "normalize?": bool},
            "language?": _TEXTS,
            "pairs?": dict[str, Any] | None,
        },
        "stages": {
            "sentences": {"hash": str, **_all(int, "kept bytes")},
            "vocabulary": {"hash": str, **_all(int, "words tokens smallest_count")},
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
            "agreement?": {"random_pairs": int, **_all(float, "fused_agreement model_agreement")},
        }
    },
    "conversion": {
        "conversion": {
            **_all(str, "file dtype"),
            "limit": int | None,
            **_all(int, "words dimension punctuation spellings never_found"),
            **_all(bool, "lowercase strip_accents"),
            **_all(_TEXT, "teacher license"),
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
