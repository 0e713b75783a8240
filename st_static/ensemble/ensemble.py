"""Combine several static models (Wada et al. 2025, section 2.4)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsFloat

import numpy as np
from msgspec import to_builtins
from numpy.typing import ArrayLike, NDArray
from tokenizers import Tokenizer

from st_static.arguments import as_path, check_texts, check_type, require, shown
from st_static.cards.facts import CardFacts
from st_static.cards.render import render
from st_static.encode.encoder import Encoder, check_encoder, check_vectors
from st_static.encode.fast_encoder import FastEncoder
from st_static.encode.row_sums import sum_rows, used_rows
from st_static.model import records
from st_static.model.export import check_output, export_model
from st_static.model.modules import Segment
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import CONTINUATION, SPECIAL_TOKENS, build_tokenizer, is_punctuation
from st_static.model.vectors import unit_rows
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import ragged_of

_LOG_WEIGHTS = (-math.log(8), math.log(8))
# A weight to about 1 %; scores to about 0.001 of 100.
_POWELL: dict[str, Any] = {"xtol": 0.01, "ftol": 1e-5, "maxfev": 500}
_WHY_NOT_FINITE = (
    " sentence-transformers does so in float16 for a text without a known word: load the member in "
    "float32, or with FastEncoder."
)
# A word, to find the ids of a token that follows one.
_WORD = "a"


class Trial(NamedTuple):
    """Weights [L] that were tried, and their score."""

    weights: list[float]
    score: float


@dataclass(frozen=True)
class Tuning:
    """The result of `Ensemble.tune`: the best weights' ensemble, its score, and all trials."""

    ensemble: Ensemble
    score: float
    trials: list[Trial]


class Ensemble:
    """Puts the vectors of several models side by side, each scaled to its weight.

    With f for scaling to length 1, members E_i and weights a_i (equations 1 and 2)::

        E(z) = [a_1 f(E_1(z)), ..., a_L f(E_L(z))] / sqrt(a_1^2 + ... + a_L^2)

    so that the dot product of two texts' vectors is the mean of the members' cosines, weighted by
    a_i^2. A member that knows no word of a text contributes zeros, which makes the vector shorter
    than 1.

    Args:
        members: The models, L of them.
        weights: Their weights a_i, positive, [L]; by default all the same.

    Raises:
        ValueError: There are no members, or the weights do not fit.
        TypeError: Members or weights are not a list.

    Example:
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[text.count("a"), text.count("b")] for text in texts])
        >>> class Length:
        ...     def encode(self, texts):
        ...         return np.array([[len(text)] for text in texts])
        >>> Ensemble([Letters(), Length()], weights=[2, 1]).encode(["ab"]).round(3)
        array([[0.632, 0.632, 0.447]], dtype=float32)
    """

    def __init__(self, members: Sequence[Encoder], weights: Sequence[float] | None = None) -> None:
        members = _listed(members, "members", " Put one into a list.")
        if not members:
            raise ValueError("Expected at least one member, but got none.")
        for i, member in enumerate(members):
            check_encoder(member, f"member {i}")
        self.members = members
        self.weights = _checked_weights(weights, len(members))

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Encode texts.

        Args:
            texts: A list of str, [B].

        Returns:
            Vectors [B, D_1 + ... + D_L].

        Raises:
            ValueError: A member gives another number of vectors than there are texts, or one that
                is not finite; or texts is a single one.
            TypeError: Texts are not a list.
        """
        check_texts(texts)
        scale = 1 / math.hypot(*self.weights)
        segments = []
        for i, (member, weight) in enumerate(zip(self.members, self.weights, strict=True)):
            vectors = np.asarray(member.encode(texts), dtype=np.float32)
            check_vectors(vectors, texts, f"Member {i}", _WHY_NOT_FINITE)
            segments.append(unit_rows(vectors) * np.float32(weight * scale))
        return np.concatenate(segments, axis=1)

    def tune(self, objective: Callable[[Ensemble], float]) -> Tuning:
        """Find the weights with the best score.

        The first weight stays 1. The others are searched for on a log scale from 1/8 to 8, by
        Powell's method (Powell 1964), starting from equal weights. It is deterministic.
        `st_static.draw_tuning` draws the curve.

        Args:
            objective: Scores an ensemble; higher is better. `st_static.TeacherAgreement` needs no
                labels; a score on validation data works, too. Never use a test split.

        Raises:
            ValueError: The score is not finite.
            TypeError: The objective is not a function, or does not return a number.
            ImportError: There are several members, and scipy is not installed.
        """
        if not callable(objective):
            raise TypeError(f"Expected a function of an ensemble, but got {shown(objective)}.")
        members = [_Remembering(member) for member in self.members]
        trials: list[Trial] = []

        def loss(logs: NDArray[np.float64]) -> float:
            """Return the negative score, given the logarithms of all weights but the first."""
            weights = [1.0, *np.exp(logs).tolist()]
            result = objective(Ensemble(members, weights))
            if not _is_number(result):
                raise TypeError(f"Expected a number from the objective, but got {shown(result)}.")
            score = float(result)
            if not math.isfinite(score):
                raise ValueError(f"The objective is {score} for the weights {weights}.")
            trials.append(Trial(weights, score))
            return -score

        start = np.zeros(len(members) - 1)
        if len(start):
            from scipy.optimize import minimize  # slow to import

        loss(start)
        if len(start):
            bounds = [_LOG_WEIGHTS] * len(start)
            minimize(loss, start, method="Powell", bounds=bounds, options=_POWELL)
        best = max(trials, key=lambda trial: trial.score)
        return Tuning(Ensemble(self.members, best.weights), best.score, trials)

    def fuse(self, vocabulary: Iterable[str] | None = None) -> FusedEnsemble:
        """Make one table over one vocabulary: one look-up for a word instead of one per member.

        The row of a word holds the members' vectors of it side by side; a member that splits the
        word contributes the sum of its pieces (section 2.4, last paragraph). Text that no word or
        piece of the vocabulary covers gets zeros. So the result is exact if all members tokenise
        each word on its own, without regard to case and as the vocabulary does, and have no vector
        for unknown words; `st_static.cosine_agreement` measures the difference.

        A `FastEncoder` knows its model's name and licence, for the card; a SentenceTransformer does
        not.

        Args:
            vocabulary: Lower-cased words, and `##` pieces for other words; by default those of the
                first member.

        Raises:
            ValueError: A member has no table of tokens, has a prompt, or has fewer dimensions than
                its table; or there is no vocabulary.
            TypeError: The vocabulary is not a list of words.
        """
        if vocabulary is not None:
            wanted = "a list of words as the vocabulary"
            require(not isinstance(vocabulary, str), f"Expected {wanted}, but got one str.")
            check_type(vocabulary, Iterable, wanted)
            vocabulary = list(vocabulary)
            for i, word in enumerate(vocabulary):
                check_type(word, str, f"a word as a str at position {i} of the vocabulary")
        models = [_static_model(i, member) for i, member in enumerate(self.members)]
        tokenizer = fused_tokenizer(vocabulary, models[0])
        vocabulary_ids = tokenizer.get_vocab()
        tokens = sorted(vocabulary_ids, key=vocabulary_ids.__getitem__)
        table = np.concatenate([token_rows(model, tokens) for model in models], axis=1)
        members = []
        for i, (m, weight) in enumerate(zip(models, self.weights, strict=True)):
            name, width = m.name or f"member {i}", m.table.shape[1]
            members.append(records.Member(name, m.license, width, weight, m.languages))
        return FusedEnsemble(tokenizer, table, members)


def _listed(values: Any, name: str, remedy: str = "") -> list[Any]:
    """Check that values come in an order, and list them."""
    if isinstance(values, str | Mapping | Set) or not isinstance(values, Iterable):
        raise TypeError(f"Expected a list of {name}, but got {shown(values)}.{remedy}")
    return list(values)


def _checked_weights(weights: Any, n_members: int) -> list[float]:
    """Check the weights: one positive number for each member, by default 1."""
    if weights is None:
        return [1.0] * n_members
    listed = _listed(weights, "weights, one for each member")
    if len(listed) != n_members:
        raise ValueError(
            f"Expected a weight for each of the {n_members} members, but got {len(listed)}."
        )
    for i, weight in enumerate(listed):
        if not (_is_number(weight) and math.isfinite(weight) and weight > 0):
            raise ValueError(f"Expected positive weights, but weight {i} is {weight!r}.")
    return [float(weight) for weight in listed]


def _is_number(value: Any) -> bool:
    """Tell whether a value is a single number, of Python, numpy or torch."""
    return isinstance(value, SupportsFloat) and not getattr(value, "ndim", 0)


class _Remembering:
    """A member that encodes the same texts only once."""

    def __init__(self, member: Encoder) -> None:
        self.member = member
        self._vectors: dict[tuple[str, ...], ArrayLike] = {}

    def encode(self, texts: list[str]) -> ArrayLike:
        """Encode texts [B] into vectors [B, D]."""
        key = tuple(texts)
        if key not in self._vectors:
            self._vectors[key] = self.member.encode(texts)
        return self._vectors[key]


def _static_model(i: int, member: Encoder) -> StaticModel:
    """Get the tokenizer and table of a member."""
    if isinstance(member, _Remembering):  # if an objective fuses the ensemble that it scores
        member = member.member
    library = sys.modules.get("sentence_transformers")  # imported if the member is one of its
    if isinstance(member, FastEncoder):
        model = member.model
    elif library is not None and isinstance(member, library.SentenceTransformer):
        from st_static.distill.static_word_embedding import as_static_model

        model = as_static_model(member)
    else:
        raise ValueError(
            "Only a FastEncoder or a static SentenceTransformer can be fused, but member "
            f"{i} is a {type(member).__name__}. Load it with FastEncoder.from_pretrained."
        )
    if model.prompt or model.segments or model.truncate_dim or model.head:
        raise ValueError(
            f"Member {i} ({model.name}) cannot be fused: expected a model without a default "
            "prompt, segments, a truncated dimension or a head. Ensemble.encode takes any."
        )
    return model


# -- fused -----------------------------------------------------------------------------


class FusedEnsemble:
    """An `Ensemble` over one vocabulary, as made by `Ensemble.fuse`: members' rows side by side."""

    def __init__(
        self, tokenizer: Tokenizer, table: NDArray[np.float32], members: list[records.Member]
    ) -> None:
        self.tokenizer, self.table, self.members = tokenizer, table, members
        segments = tuple(Segment(member.width, member.weight) for member in members)
        self.model = StaticModel(tokenizer, table, normalize=False, segments=segments)
        self._encoder = FastEncoder(self.model)

    def encode(self, texts: Any) -> NDArray[np.floating]:
        """Encode texts [B], as for `FastEncoder.encode`, into vectors [B, D]."""
        return self._encoder.encode(texts)

    def save_pretrained(
        self, path: str | Path, dtype: Literal["float32", "float16"] = "float32"
    ) -> None:
        """Save it exactly, as a repository with the code of one module.

        `SentenceTransformer(path, trust_remote_code=True)` loads it without st_static, and
        `FastEncoder.from_pretrained(path)` without running that code.

        Args:
            path: Folder to write.
            dtype: Number format of the table.

        Raises:
            ValueError: The folder holds something else.
        """
        self.export(path, self.record("exact"), self.table, dtype, segments=self.model.segments)

    def export_calibrated(
        self, path: str | Path, texts: Any, dtype: Literal["float32", "float16"] = "float32"
    ) -> None:
        """Save it with sentence-transformers' own modules only, nearly exact.

        Each member's part is scaled once by a_i / E|E_i(z)|, the mean length over texts, and the
        whole vector is scaled to length 1; so the weights hold on average, not in each text.

        Args:
            path: Folder to write.
            texts: Texts like those that will be encoded, as for `FastEncoder.encode`.
            dtype: Number format of the table. In float16 a text without any known word gets NaN
                from sentence-transformers' Normalize.

        Raises:
            ValueError: The folder holds something else, a member knows no word of the texts, or
                texts is a single one.
        """
        check_output(as_path(path, "a folder to write"), with_card=True)
        self.export(path, self.record("calibrated"), self.calibrated_table(texts), dtype)

    def export(
        self,
        path: str | Path,
        record: dict[str, Any],
        table: NDArray[Any],
        dtype: str,
        **parts: Any,
    ) -> None:
        """Write a table with a card; other parts are those of `export_model`."""
        folder = as_path(path, "a folder to write")
        card = render(CardFacts(folder.resolve().name, record))
        export_model(folder, table, self.tokenizer, record, dtype=dtype, card=card, **parts)

    def calibrated_table(self, texts: Any) -> NDArray[np.float32]:
        """Scale each member's part of the table by a_i / E|E_i(z)|, [V, D]."""
        wanted = "a list or column of texts"
        require(not isinstance(texts, str), f"Expected {wanted}, but got one str.")
        check_type(texts, Iterable, wanted)
        unscaled = StaticModel(self.tokenizer, self.table, normalize=False)
        means = FastEncoder(unscaled).encode(texts)
        table = self.table.copy()
        for member, (part, _) in zip(self.members, self.model.scaled, strict=True):
            length = float(np.linalg.norm(means[:, part], axis=1).mean()) if len(means) else 0.0
            if not length:
                raise ValueError(
                    f"{member.name} knows no word of the {len(means)} texts: expected texts like "
                    "those that will be encoded."
                )
            table[:, part] *= member.weight / length
        return table

    def record(self, form: records.Form, head_units: int | None = None) -> dict[str, Any]:
        """Make the content of `st_static.json`; only what was distilled may have a head."""
        made = records.Ensemble(form, self.members, head_units)
        versions = {"st-static": metadata.version("st-static")}
        record: dict[str, Any] = to_builtins(records.Record(ensemble=made, versions=versions))
        return record


def fused_tokenizer(vocabulary: list[str] | None, first: StaticModel) -> Tokenizer:
    """Build the tokenizer of a vocabulary, by default that of the first member."""
    if vocabulary is None:
        model = json.loads(first.tokenizer.to_str())["model"]
        if model["type"] != "WordPiece" or model["continuing_subword_prefix"] != CONTINUATION:
            raise ValueError(
                "Expected a vocabulary of words, for the first member's tokenizer is not WordPiece "
                f"but {model['type']}. Give one, or put a member with words first."
            )
        vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    require(bool(vocabulary), "Expected at least one word in the vocabulary, but it is empty.")
    return build_tokenizer(vocabulary)


def token_rows(model: StaticModel, tokens: Sequence[str]) -> NDArray[np.float32]:
    """Compute a member's vector of each token [W], [W, D]: the row of the same `##` piece, else the
    sum of its tokens' rows, behind a word for pieces and punctuation; zeros for special tokens."""
    description = json.loads(model.tokenizer.to_str())["model"]
    pieces = description["vocab"] if description["type"] == "WordPiece" else {}
    encode = FastTokenizer(model.tokenizer)

    def ids_of(texts: list[str]) -> list[list[int]]:
        ids = encode(texts)
        values = ids.values.tolist()
        return [values[start:end] for start, end in pairwise(ids.offsets.tolist())]

    texts = [token.removeprefix(CONTINUATION) or token for token in tokens]
    alone, [word] = ids_of(texts), ids_of([_WORD])
    behind = ids_of([_WORD + text for text in texts])
    rows: list[list[int]] = []
    for i, (token, text) in enumerate(zip(tokens, texts, strict=True)):
        if token in SPECIAL_TOKENS:
            rows.append([])
        elif text != token and token in pieces:
            rows.append([pieces[token]])
        # If it changes the word before it, its own part is unknown.
        elif (text != token or is_punctuation(token)) and behind[i][: len(word)] == word:
            rows.append(behind[i][len(word) :])
        else:
            rows.append(alone[i])
    return sum_rows(*used_rows(model.table, ragged_of(rows)))
