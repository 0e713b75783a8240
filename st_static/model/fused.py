"""A fused ensemble: one table whose rows hold the members' parts, and the ways to save it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.model.export import check_output, export_model
from st_static.model.fast_encoder import FastEncoder
from st_static.model.static_model import Segment, StaticModel

# Ids of the Hub for licences that let everybody pass on what was changed.
_OPEN_LICENSES = """
    apache-2.0 mit bsd bsd-2-clause bsd-3-clause cc0-1.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0
    cc-by-sa-4.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 odc-by odbl pddl
    unlicense isc zlib mpl-2.0 gpl-3.0 lgpl-3.0 agpl-3.0
""".split()  # noqa: SIM905 (a list of words reads better)


class FusedMember(NamedTuple):
    """One member of a fused ensemble.

    Attributes:
        name: The model.
        license: Its licence, if its card names one.
        width: Number of its dimensions D_i.
        weight: Its weight a_i.
    """

    name: str
    license: str | None
    width: int
    weight: float


class FusedEnsemble:
    """An `Ensemble` over one vocabulary, as made by `Ensemble.fuse`.

    Args:
        tokenizer: Tokenizer of the vocabulary.
        table: One row a token, the members' vectors side by side, [V, D_1 + ... + D_L].
        members: The members, L of them.
    """

    def __init__(
        self, tokenizer: Tokenizer, table: NDArray[np.float32], members: list[FusedMember]
    ) -> None:
        self.tokenizer = tokenizer
        self.table = table
        self.members = members
        segments = tuple(Segment(member.width, member.weight) for member in members)
        self.model = StaticModel(tokenizer, table, normalize=False, segments=segments)
        self._encoder = FastEncoder(self.model)

    def encode(self, texts: Any) -> NDArray[np.floating]:
        """Texts [B], as `FastEncoder.encode` takes them, to vectors [B, D]."""
        return self._encoder.encode(texts)

    def save_pretrained(
        self, path: str | Path, dtype: Literal["float32", "float16"] = "float32"
    ) -> None:
        """Save it exactly, as a repository that brings the code of one module.

        `SentenceTransformer(path, trust_remote_code=True)` loads it without st_static, and
        `FastEncoder.from_pretrained(path)` without running that code.

        Args:
            path: Folder to write.
            dtype: Number format of the table.

        Raises:
            ValueError: The folder holds something else.
        """
        export_model(
            path,
            self.table,
            self.tokenizer,
            self.record("exact"),
            dtype,
            segments=self.model.segments,
            card=self.card(
                "Its module's code is in this repository: load it with `trust_remote_code=True` "
                "and sentence-transformers 5.4 or later, and not with Model2Vec, which does not "
                "know it. The dot product of two vectors is the mean of their parts' cosines, "
                "weighted by the squared weights."
            ),
        )

    def export_calibrated(
        self, path: str | Path, texts: Any, dtype: Literal["float32", "float16"] = "float32"
    ) -> None:
        """Save it with sentence-transformers' own modules only, nearly exact.

        Each member's part is scaled once by a_i / E|E_i(z)|, the mean length over texts, and the
        vector as a whole is scaled to length 1; so the weights hold on average, and not in each
        text.

        Args:
            path: Folder to write.
            texts: Texts like those that will be encoded, as `FastEncoder.encode` takes them.
            dtype: Number format of the table. In float16 a text without any known word gets NaN
                from sentence-transformers' Normalize.

        Raises:
            ValueError: The folder holds something else, a member knows no word of the texts, or
                texts is a single one.
        """
        check_output(Path(path), with_card=True)
        export_model(
            path,
            self.calibrated_table(texts),
            self.tokenizer,
            self.record("calibrated"),
            dtype,
            card=self.card("Members are scaled to their mean length: nearly the exact ensemble."),
        )

    def calibrated_table(self, texts: Any) -> NDArray[np.float32]:
        """The table with each member's part scaled by a_i / E|E_i(z)|, [V, D]."""
        if isinstance(texts, str):
            raise ValueError("Expected a list or column of texts, but got one str.")
        unscaled = StaticModel(self.tokenizer, self.table, normalize=False)
        means = FastEncoder(unscaled).encode(texts)
        table = self.table.copy()
        start = 0
        for member in self.members:
            part = slice(start, start + member.width)
            length = float(np.linalg.norm(means[:, part], axis=1).mean()) if len(means) else 0.0
            if not length:
                raise ValueError(
                    f"{member.name} knows no word of the {len(means)} texts: expected texts like "
                    "those that will be encoded."
                )
            table[:, part] *= member.weight / length
            start += member.width
        return table

    def record(self, form: str) -> dict[str, Any]:
        """What goes into `st_static.json`."""
        return {
            "ensemble": {"form": form, "members": [member._asdict() for member in self.members]},
            "versions": {"st-static": metadata.version("st-static")},
        }

    def card(self, remark: str) -> str:
        """A short model card: members, weights, licences, and what these do not allow."""
        licenses = {member.license for member in self.members}
        lines = [
            "---",
            "language: en",
            *_license_lines(licenses.pop() if len(licenses) == 1 else None),
            "library_name: sentence-transformers",
            "pipeline_tag: sentence-similarity",
            "tags:",
            "- sentence-transformers",
            "- static-embeddings",
            "- st_static",
            "---",
            "",
            f"# Ensemble of {len(self.members)} static models",
            "",
            "A static sentence encoder, the weighted ensemble of the models below over one table "
            "of words: a member that tells capitals apart, or splits words by what stands beside "
            f"them, is not quite what it is alone. {remark}",
            "",
            "| member | dimensions | weight | licence |",
            "|---|---|---|---|",
            *(
                f"| {m.name} | {m.width} | {m.weight:g} | {m.license or '?'} |"
                for m in self.members
            ),
        ]
        notes = [f"- {m.name} {note}" for m in self.members if (note := _caution(m.license))]
        if notes:
            lines += ["", "Before you pass this model on:", "", *notes]
        return "\n".join(lines) + "\n"


def _license_lines(license_id: str | None) -> list[str]:
    """The card's metadata on one licence, or on several or an unknown one."""
    if str(license_id).lower() in _OPEN_LICENSES:
        return [f"license: {str(license_id).lower()}"]
    return ["license: other", "license_name: those-of-the-members", "license_link: README.md"]


def _caution(license_id: str | None) -> str:
    """What a licence, by its id on the Hub, does not allow; empty for an open one."""
    terms = str(license_id).lower()
    if "nd" in terms.split("-"):
        return f"({license_id}) may not be redistributed in a changed form, as it is here."
    if terms not in _OPEN_LICENSES:
        named = f"has the licence {license_id}" if license_id else "names no licence"
        return f"{named}: see whether it may be redistributed, or ask its authors."
    return f"({license_id}) may not be used commercially." if "nc" in terms.split("-") else ""
