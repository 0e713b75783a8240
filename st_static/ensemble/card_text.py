"""The model card of an ensemble, a function of its record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from st_static.examples import usage_in
from st_static.languages import languages_of_members
from st_static.model.card_file import NOTES_END, NOTES_START

# Ids of the Hub for licences that let everybody pass on what was changed.
_OPEN_LICENSES = """
    apache-2.0 mit bsd bsd-2-clause bsd-3-clause cc0-1.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0
    cc-by-sa-4.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 odc-by odbl pddl
    unlicense isc zlib mpl-2.0 gpl-3.0 lgpl-3.0 agpl-3.0
""".split()  # noqa: SIM905 (a list of words reads better)
_TAGS = ["sentence-transformers", "static-embeddings", "st_static"]
_FORMS = {
    "exact": "The module that scales its parts comes with this repository, as a short Python file: "
    "load it with `trust_remote_code=True` and sentence-transformers 5.4 or later. Model2Vec does "
    "not know that module. The dot product of two vectors is the mean of the members' cosines, "
    "weighted by the squared weights.",
    "calibrated": "It loads with sentence-transformers alone. Each member is scaled to its mean "
    "length, so the weights hold on average, and not in each text.",
    "distilled": "It loads with sentence-transformers alone, and was distilled from the members "
    "into one vector per word.",
}
_HEAD = (
    " Behind the mean of these vectors is a head of {units} hidden units, a small network. "
    "Model2Vec, which knows tables only, does not load it."
)


def ensemble_card(
    record: Mapping[str, Any], name: str, notes: str = "", model_id: str = "", scores: str = ""
) -> str:
    """Write a card: how to use the ensemble, its members, their licences and what was measured.

    Args:
        record: What `st_static.json` holds.
        name: The model's name.
        notes: What a person wrote between the card's markers.
        model_id: What its example loads; by default `models/NAME`.
        scores: Markdown on scores, if there are any.

    Returns:
        YAML and Markdown, as the Hub wants a README.md.
    """
    metadata = yaml.safe_dump(card_metadata(record), sort_keys=False).strip()
    body = ensemble_body(record, name, notes, model_id, scores)
    return f"---\n{metadata}\n---\n\n{body}"


def card_metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """The card's YAML, without results."""
    members = record["ensemble"]["members"]
    licenses = {member["license"] for member in members}
    terms = _license_fields(licenses.pop() if len(licenses) == 1 else None)
    return short_metadata(languages_of_members(members), terms)


def short_metadata(languages: Sequence[str], terms: Mapping[str, str]) -> dict[str, Any]:
    """The YAML of a short card: of an ensemble, or of text vectors.

    Args:
        languages: The model's, without script and region.
        terms: The fields on its licence.
    """
    return {
        **(
            {"language": list(languages) if len(languages) > 1 else languages[0]}
            if languages
            else {}
        ),
        **terms,
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": list(_TAGS),
    }


def ensemble_body(
    record: Mapping[str, Any], name: str, notes: str, model_id: str = "", scores: str = ""
) -> str:
    """The card's Markdown; for the arguments see `ensemble_card`."""
    members = record["ensemble"]["members"]
    is_exact = record["ensemble"]["form"] == "exact"
    languages = languages_of_members(members)
    units = record["ensemble"].get("head_units", 0)
    network = "transformer" if units else "neural network"
    parts = [
        f"# {name}",
        f"A static sentence encoder: the weighted ensemble of {len(members)} static models, over "
        f"one table of words. No {network} runs. A member that tells capitals apart, or splits "
        "words by what stands beside them, is not quite what it is alone.",
        notes_part(notes),
        "## Use it",
        usage_part(model_id or f"models/{name}", languages, trust_remote_code=is_exact),
        _FORMS[record["ensemble"]["form"]] + (_HEAD.format(units=units) if units else ""),
        "## Members",
        _table(members),
        *_agreement(record),
        *_cautions(members),
        *([scores.strip("\n")] if scores else []),
    ]
    return "\n\n".join(parts) + "\n"


def notes_part(notes: str) -> str:
    """What a person wrote, between the card's markers."""
    notes = notes.strip("\n")
    return (
        "<!-- What stands between the next two comments is kept when the card is written again. "
        f"-->\n{NOTES_START}\n{notes}{chr(10) if notes else ''}{NOTES_END}"
    )


def usage_part(model_id: str, languages: Sequence[str], trust_remote_code: bool = False) -> str:
    """A program that loads a model and encodes sentences in one of its languages."""
    trust = ", trust_remote_code=True" if trust_remote_code else ""
    texts = usage_in(languages) or usage_in([])
    return f"""```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{model_id}"{trust})
embeddings = model.encode({json.dumps(texts, ensure_ascii=False)})
print(model.similarity(embeddings, embeddings))
```

With the package `st_static`, `FastEncoder.from_pretrained("{model_id}")` gives the same vectors
faster{", and does not run the repository's code" if trust else ""}."""


def _table(members: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"| {m['name']} | {m['width']} | {m['weight']:g} | {m['license'] or '?'} |" for m in members
    ]
    return "\n".join(["| member | dimensions | weight | licence |", "|---|---|---|---|", *rows])


def _agreement(record: Mapping[str, Any]) -> list[str]:
    """What was measured of the ensemble against its members side by side, if it was."""
    measured = record["ensemble"].get("agreement")
    if not measured:
        return []
    text = (
        f"On {measured['random_pairs']:,} random pairs of sentences of Python's documentation, "
        "cosines were compared with those of the members side by side, each with its own "
        "tokenizer (Pearson's correlation): "
        f"{measured['fused_agreement']:.4f} for the fused table, and "
        f"{measured['model_agreement']:.4f} for this model. Random pairs, whose cosines lie close "
        "together, show differences most."
    )
    return ["## Agreement with the members", text]


def _cautions(members: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = [f"- {m['name']} {note}" for m in members if (note := _caution(m["license"]))]
    return ["Before you pass this model on:", "\n".join(notes)] if notes else []


def _license_fields(license_id: str | None) -> dict[str, str]:
    """The card's metadata on one licence, or on several or an unknown one."""
    if str(license_id).lower() in _OPEN_LICENSES:
        return {"license": str(license_id).lower()}
    name = {"license_name": "those-of-the-members", "license_link": "README.md"}
    return {"license": "other", **name}


def _caution(license_id: str | None) -> str:
    """What a licence, by its id on the Hub, does not allow; empty for an open one."""
    terms = str(license_id).lower()
    if "nd" in terms.split("-"):
        return f"({license_id}) may not be redistributed in a changed form, as it is here."
    if terms not in _OPEN_LICENSES:
        named = f"has the licence {license_id}" if license_id else "names no licence"
        return f"{named}: see whether it may be redistributed, or ask its authors."
    return f"({license_id}) may not be used commercially." if "nc" in terms.split("-") else ""
