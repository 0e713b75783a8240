"""The model card of text vectors that were converted, a function of the model's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from st_static.ensemble.card_text import notes_part, short_metadata, usage_part
from st_static.languages import languages_of_record
from st_static.publish.card.render import lineage
from st_static.publish.checks.card import licence_fields


def converted_metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """The card's YAML, without results."""
    facts = record["conversion"]
    terms = licence_fields(facts["license"] or "unknown")
    return short_metadata(languages_of_record(record), terms) | lineage(facts["teacher"])


def converted_body(
    record: Mapping[str, Any], name: str, notes: str, model_id: str = "", scores: str = ""
) -> str:
    """The card's Markdown; for the arguments see `ensemble_card`."""
    facts = record["conversion"]
    parts = [
        f"# {name}",
        f"Word vectors as a sentence encoder, converted from the file `{facts['file']}`. The "
        "vector of a text is the mean of the vectors of its words, scaled to length 1; no neural "
        f"network runs. The vectors are those of the file{_changes(facts)}.",
        *_origin(facts),
        notes_part(notes),
        "## Use it",
        usage_part(model_id or f"models/{name}", languages_of_record(record)),
        "## Words",
        _words(facts),
        *([scores.strip("\n")] if scores else []),
    ]
    return "\n\n".join(parts) + "\n"


def _changes(facts: Mapping[str, Any]) -> str:
    rows = f" in its first {facts['limit']:,} rows" if facts["limit"] else ""
    return f"{rows}, and were not trained further"


def _origin(facts: Mapping[str, Any]) -> list[str]:
    if not facts["teacher"]:
        return []
    return [
        f"They were distilled from [{facts['teacher']}](https://huggingface.co/{facts['teacher']})."
    ]


def _words(facts: Mapping[str, Any]) -> str:
    """How texts are split into words, and which words have a vector."""
    dtype = facts["dtype"]
    dotless = ", I to ı and İ to i" if facts.get("dotless_i") else ""
    capitals = f"Texts are lower-cased{dotless}" if facts["lowercase"] else "Capitals count"
    accents = "accents are ignored" if facts["strip_accents"] else "accents count"
    lines = [
        f"{facts['words']:,} words have a vector of {facts['dimension']} dimensions ({dtype}). "
        f"{capitals}, and {accents}. From left to right, the longest entry of the file is a word, "
        "with its apostrophes, hyphens and dots; what is no entry has no vector.",
    ]
    if facts["spellings"]:
        lines.append(
            f"{facts['spellings']:,} entries are also found with a first capital, as at the "
            "beginning of a sentence; each has a row with the same vector."
        )
    if not facts["punctuation"]:
        lines.append("Punctuation has no vector.")
    if facts["never_found"]:
        lines.append(
            f"Entries that are never found, because no text is split into them: "
            f"{facts['never_found']:,}."
        )
    return "\n\n".join(lines)
