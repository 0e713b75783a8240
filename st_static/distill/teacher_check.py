"""Trying a teacher on a few sentences before hours of work: its weights may not be what they seem.

A checkpoint that fits its architecture only in part still loads, with random numbers in place of
what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers.sentence_transformer.modules import Pooling

from st_static.distill.config import TeacherConfig
from st_static.distill.paraphrases import paraphrases_in
from st_static.distill.teacher_modules import SINGLE_POOLINGS, check_weights_are_there, pooling_of
from st_static.model.vectors import unit_rows

if TYPE_CHECKING:
    from st_static.distill.teacher import Teacher

# Of a dozen sentences, for how many the paraphrase must be the nearest. Three real teachers have 11
# or 12 in the languages that they know; with random weights in all layers they have 9 at most.
_FEWEST_NEAREST = 10
# Another pooling that tells paraphrases from other sentences so much better was the trained one.
_MUCH_BETTER = 1.5
_TOLERANCE = 0.01

Floats = NDArray[np.floating]


def check_teacher(teacher: Teacher, config: TeacherConfig, languages: Sequence[str] | None) -> None:
    """Check that a teacher computes what it should.

    Args:
        teacher: The teacher as it was loaded, in float32.
        config: What the recipe says of it.
        languages: Those of the recipe, none being English; null leaves out what depends on them.

    Raises:
        ValueError: It lacks weights; its vectors are not finite, are others than the recipe
            expects, or do not put paraphrases together; or another pooling does so much better.
    """
    check_weights_are_there(teacher.model, config.model)
    check_finite(teacher)
    _check_expected(teacher, config.expect or {})
    if config.check and languages is not None:
        for language, texts in paraphrases_in(languages).items():
            _check_language(teacher, texts, language)


def _check_language(teacher: Teacher, texts: Sequence[str], language: str) -> None:
    tokens, vectors, mask = _run(teacher, texts)
    _check_paraphrases(vectors, texts, language)
    if (pooling := pooling_of(teacher.model)) is not None:
        separations = _separations(teacher.to_sentence_space(tokens), mask)
        separations[pooling] = _separation(vectors)  # the teacher's may leave out the prompt
        _check_pooling(separations, pooling, language)


def _run(teacher: Teacher, texts: Sequence[str]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Token vectors [B, T, h], sentence vectors [B, d] and the mask of tokens [B, T]."""
    batch = teacher.tokenize(list(texts))
    mask = torch.from_numpy(batch.attention_mask)
    tokens, vectors = teacher.forward(torch.from_numpy(batch.input_ids), mask)
    return tokens.float().cpu().numpy(), vectors.float().cpu().numpy(), batch.attention_mask


def check_finite(teacher: Teacher) -> None:
    """Check that a teacher's vectors of a dozen sentences are finite, in its number format.

    Raises:
        ValueError: One is not.
    """
    [texts] = paraphrases_in(["en"]).values()
    _, vectors, _ = _run(teacher, texts)
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        dtype = str(teacher.dtype).removeprefix("torch.")
        reason = (
            "Its weights are broken: get the model again."
            if dtype == "float32"
            else f"Its weights are broken, or too large for {dtype}: for that, give "
            "--teacher.dtype float32."
        )
        raise ValueError(
            f"The teacher's vector of {texts[broken[0]]!r} is not finite, nor those of "
            f"{len(broken) - 1} of {len(texts) - 1} other sentences. {reason}"
        )


def _check_paraphrases(vectors: Floats, texts: Sequence[str], language: str) -> None:
    cosines = _cosines(vectors)
    places = np.arange(len(texts))
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    wrong = np.flatnonzero(nearest != places ^ 1)
    if len(texts) - len(wrong) >= _FEWEST_NEAREST:
        return
    first = wrong[0]
    raise ValueError(
        f"The teacher does not seem to understand {language!r}: of {len(texts)} sentences it puts "
        f"only {len(texts) - len(wrong)} next to their paraphrases. {texts[first]!r} is nearer to "
        f"{texts[nearest[first]]!r} ({cosines[first, nearest[first]]:.2f}) than to "
        f"{texts[first ^ 1]!r} ({cosines[first, first ^ 1]:.2f}). Check that it was trained for "
        "this language, and that its weights are whole. If it is for another kind of text, give "
        "--teacher.check false."
    )


def _separations(tokens: Floats, mask: NDArray[np.int64]) -> dict[str, float]:
    """How well each pooling separates paraphrases; token vectors [B, T, d], their mask [B, T]."""
    return {mode: _separation(_pooled(tokens, mask, mode)) for mode in SINGLE_POOLINGS}


def _check_pooling(separations: Mapping[str, float], pooling: str, language: str) -> None:
    """Check that the teacher's pooling separates paraphrases as other ones do."""
    best = max(separations, key=lambda mode: separations[mode])
    if separations[best] > _MUCH_BETTER * separations[pooling]:
        raise ValueError(
            f"The teacher pools by {pooling}, but {best} tells paraphrases in {language!r} from "
            f"other sentences much better: their cosines differ by {separations[best]:.1f} "
            f"standard deviations, and by {separations[pooling]:.1f} with {pooling}. Give "
            f"--teacher.pooling {best}, or, if the teacher's own folder says {pooling} "
            f"(1_Pooling/config.json), say {best} there; or give --teacher.check false if you are "
            "sure."
        )


def _pooled(tokens: Floats, mask: NDArray[np.int64], mode: str) -> Floats:
    """Sentence vectors of token vectors by another pooling, [B, h]."""
    features = {
        "token_embeddings": torch.from_numpy(tokens),
        "attention_mask": torch.from_numpy(mask),
    }
    pooled: torch.Tensor = Pooling(tokens.shape[2], mode)(features)["sentence_embedding"]
    return pooled.numpy()


def _separation(vectors: Floats) -> float:
    """How many standard deviations the cosines of paraphrases lie above those of strangers."""
    cosines = _cosines(vectors)
    rows = np.arange(len(vectors))
    are_strangers = (rows[:, None] // 2) != (rows // 2)
    strangers = cosines[are_strangers]
    return float((cosines[rows, rows ^ 1].mean() - strangers.mean()) / strangers.std())


def _cosines(vectors: Floats) -> Floats:
    unit = unit_rows(vectors)
    cosines: Floats = unit @ unit.T
    return cosines


def _check_expected(teacher: Teacher, expect: Mapping[str, list[Any]]) -> None:
    for text, values in expect.items():
        tokens, vectors, _ = _run(teacher, [text])
        of_tokens = any(isinstance(row, list) for row in values)
        found = tokens[0] if of_tokens else vectors
        rows = values if of_tokens else [values]
        if len(rows) > len(found) or max(len(row or []) for row in rows) > found.shape[1]:
            raise ValueError(
                f"teacher.expect has more numbers for {text!r} than the teacher gives: "
                f"{len(found)} tokens of {found.shape[1]} dimensions."
            )
        for place, row in enumerate(rows):
            what = f"token {place} of {text!r}" if of_tokens else f"{text!r}"
            _check_values(found[place], row or [], what)


def _check_values(found: Floats, expected: Sequence[float | None], what: str) -> None:
    values = np.array([np.nan if value is None else value for value in expected])
    known = ~np.isnan(values)
    computed = found[: len(values)]
    largest = np.abs(values[known]).max(initial=0)
    if not np.allclose(computed[known], values[known], rtol=0, atol=_TOLERANCE * largest):
        raise ValueError(
            "The teacher is not the one that the recipe is for, or is broken: the vector of "
            f"{what} should begin with {_listed(expected)}, but it begins with "
            f"{_listed(computed.tolist())}. Check teacher.model and teacher.pooling; for another "
            "teacher give --teacher.expect null."
        )


def _listed(values: Sequence[float | None]) -> str:
    return f"[{', '.join('null' if v is None else f'{v:.4f}' for v in values)}]"
