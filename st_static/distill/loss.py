"""The distillation loss: the student's similarities within a batch follow the teacher's."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional as F

from st_static.arguments import check_type
from st_static.distill.static_word_embedding import TEACHER_ESTIMATE, StaticWordEmbedding

_TARGET = "similarity_distillation_target"  # key in a student's features
CITATION = """
@inproceedings{wada-etal-2025-static,
    title = "Static Word Embeddings for Sentence Semantic Representation",
    author = "Wada, Takashi and Hirakawa, Yuki and Shimizu, Ryotaro and
      Kawashima, Takahiro and Saito, Yuki",
    booktitle = "Proceedings of the 2025 Conference on Empirical Methods in Natural
      Language Processing",
    pages = "6206--6222",
    year = "2025",
}
"""


class SimilarityDistillationLoss(nn.Module):
    """Cross-entropy between the teacher's and the student's similarities within a batch.

    With t_ij and s_ij the cosine similarities of sentences i and j under the teacher and the
    student, q and p their softmax over j != i at temperature τ (paper section 2.3):

        loss = -(1/K) sum_i sum_{j != i} q_ij log p_ij

    That is the paper's loss. It compares only the similarities of one text with each other, and
    fixes neither their size nor the rest of the teacher's space. Three further terms can be added,
    with K texts in a batch and u_i the student's vectors at length 1:

    - `cosines` times the mean over i != j of (s_ij - t_ij)^2: cosines as large as the teacher's;
    - `spread` times |(1/K) sum_i u_i|^2: vectors in all directions, which linear classifiers need;
    - `estimate` times the mean of 1 - cos(W u_i, target), where the target is by default the
      teacher's vector, and a `TeacherEstimate` behind the student learns the linear map W.

    A share `words` of the target can be the student's own words: the teacher's vector then has the
    plain mean of the student's word vectors beside it, each of these at length 1, so that t_ij is
    (1 - words) times the teacher's cosine, plus words times that of the means. A teacher passes
    over words such as "wish" or "had", by which a classifier can tell texts apart.

    Args:
        model: The student.
        temperature: Softmax temperature τ of both.
        cosines: Weight of the first further term.
        spread: Weight of the second.
        estimate: Weight of the third; if not 0, the student ends with a `TeacherEstimate`.
        words: Share of the student's own words in the target, 0 to less than 1; if not 0, its
            first module is a `StaticWordEmbedding`.

    Requirements:
        1. One text column, and the teacher's sentence vectors in the `label` column.
        2. At least two texts in a batch; use a batch size that divides the data, or
           `dataloader_drop_last=True`.

    Inputs:
        +-------+---------------------------------------------+
        | Texts | Labels                                      |
        +=======+=============================================+
        | text  | the teacher's vector of the text, d floats  |
        +-------+---------------------------------------------+

    Raises:
        ValueError: The temperature is not positive, a weight is negative, the share is not
            between 0 and 1, or the student does not begin with words.
        TypeError: The student is not a model, or a value is not a number.

    Example:
        ::

            dataset = Dataset.from_dict({"text": texts, "label": teacher.encode(texts)})
            loss = SimilarityDistillationLoss(model)
            arguments = SentenceTransformerTrainingArguments("checkpoints")
            SparseTrainer(model, arguments, train_dataset=dataset, loss=loss).train()

        `st_static.SparseTrainer` trains a word table with sparse gradients, which is many times as
        fast; with dense ones, `SentenceTransformerTrainer` itself serves.
        `examples/distill_by_hand.py` is a whole program.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        temperature: float = 0.05,
        cosines: float = 0.0,
        spread: float = 0.0,
        estimate: float = 0.0,
        words: float = 0.0,
    ) -> None:
        super().__init__()
        check_type(model, nn.Module, "a SentenceTransformer", "Load it: SentenceTransformer(…).")
        check_type(temperature, Real, "a number as the temperature")
        if not temperature > 0:
            raise ValueError(f"Expected a positive temperature, but got {temperature}.")
        self.model = model
        self.temperature = temperature
        self.weights = {"cosines": cosines, "spread": spread, "estimate": estimate}
        for name, weight in self.weights.items():
            check_type(weight, Real, f"a number as the weight {name}")
            if not weight >= 0:
                raise ValueError(f"Expected a weight of at least 0 as {name}, but got {weight}.")
        check_type(words, Real, "a number as the share words")
        if not 0 <= words < 1:
            raise ValueError(f"Expected 0 to less than 1 as the share words, but got {words}.")
        self.words = words
        if words:
            self._word_table()

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of a batch.

        Args:
            sentence_features: The preprocessed text column, of K texts.
            labels: The teacher's sentence vectors, [K, d].

        Raises:
            ValueError: There is more than one text column or fewer than two texts; or vectors are
                missing, of another number, or not finite.
        """
        columns = list(sentence_features)
        if len(columns) != 1:
            raise ValueError(
                f"Expected one text column beside the label, but got {len(columns)}. Keep only the "
                'columns of the text and of the teacher\'s vectors, "label".'
            )
        features = self.model(columns[0])
        student = features["sentence_embedding"]
        _check_teacher_vectors(labels, len(student))
        if not bool(torch.isfinite(student).all()):
            raise ValueError(
                "The student's vectors are not finite: the training has diverged. Lower the "
                "learning rate, or check the word table that it starts from."
            )
        cosines = cosines_with_others(student)
        target, its_cosines = self._target(features, labels)
        loss = similarity_cross_entropy(cosines, its_cosines, self.temperature)
        if weight := self.weights["cosines"]:
            loss = loss + weight * (cosines - its_cosines).square().mean()
        if weight := self.weights["spread"]:
            loss = loss + weight * F.normalize(student, dim=1).mean(dim=0).square().sum()
        if weight := self.weights["estimate"]:
            estimate = features.get(TEACHER_ESTIMATE)
            if estimate is None:
                raise ValueError(
                    "The weight estimate needs a student that ends with a TeacherEstimate. Add "
                    "one to its modules, or set the weight to 0."
                )
            # A teacher's vector may have a column of zeros more, see `TrainingData`.
            padded, width = target.shape[1], estimate.shape[1]
            if width != padded and (width != padded - 1 or bool(target[:, -1].any())):
                raise ValueError(
                    f"Expected a TeacherEstimate of {padded} dimensions, those of the teacher's "
                    f"vectors{' and of the words beside them' if self.words else ''}, but it has "
                    f"{width}."
                )
            loss = loss + weight * (1 - F.cosine_similarity(estimate, target[:, :width])).mean()
        return loss

    def _target(self, features: dict[str, Any], labels: Tensor) -> tuple[Tensor, Tensor]:
        """Put the means of the student's words beside the teacher's vectors, [K, D + d]; also
        return the cosines, [K, K - 1]."""
        step = self._word_table().embedding.weight._version if self.words else None
        # MatryoshkaLoss comes with the same features, labels and table for each dimension.
        if _TARGET in features:
            loss, last_labels, last_step, target, cosines = features[_TARGET]
            if loss is self and last_labels is labels and last_step == step:
                return target, cosines
        target = labels.to(features["sentence_embedding"].dtype)
        if self.words:
            means = self._word_table().plain_means(features)
            parts = (self.words, means), (1 - self.words, target)
            target = torch.cat([w**0.5 * F.normalize(part, dim=1) for w, part in parts], dim=1)
        cosines = cosines_with_others(target)
        features[_TARGET] = self, labels, step, target, cosines
        return target, cosines

    def _word_table(self) -> StaticWordEmbedding:
        module = next(iter(self.model.children()), None)
        if not isinstance(module, StaticWordEmbedding):
            raise ValueError(
                "The share words needs a student that begins with a StaticWordEmbedding, but this "
                f"one begins with a {type(module).__name__}. Load its first module as one, or set "
                "words to 0."
            )
        return module

    def get_config_dict(self) -> dict[str, Any]:
        """Describe the loss in a model card."""
        weights = self.weights | {"words": self.words}
        return {"temperature": self.temperature} | {k: v for k, v in weights.items() if v}

    @property
    def citation(self) -> str:
        """BibTeX of the paper that the loss comes from."""
        return CITATION


def similarity_cross_entropy(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Compute the paper's loss on cosines of the student and of the teacher, [K, K - 1].

    >>> cosines = cosines_with_others(torch.eye(3))
    >>> round(float(similarity_cross_entropy(cosines, cosines, 0.05)), 4)  # ln 2
    0.6931
    """
    # Not the logarithm of softmax: at a temperature of 0.01, cosines that differ by more than 1
    # give probabilities that underflow to 0, whose logarithm is -inf.
    log_p = (student / temperature).log_softmax(dim=1)
    q = (teacher / temperature).softmax(dim=1)
    return -(q * log_p).sum(dim=1).mean()


def cosines_with_others(vectors: Tensor) -> Tensor:
    """Compute the cosines of each vector [K, D] with the others, [K, K - 1]."""
    # A vector of zeros stays zero: such a text has the cosine 0 with all others.
    unit = F.normalize(vectors, dim=1)
    size = len(unit)
    # The diagonal is left out rather than set to -inf, which would give 0 * -inf = NaN in the loss.
    # Without the last element, each run of K + 1 elements begins with one of the diagonal.
    cosines = (unit @ unit.T).flatten()[:-1].view(size - 1, size + 1)
    return cosines[:, 1:].reshape(size, size - 1)


def _check_teacher_vectors(labels: Tensor | None, n_texts: int) -> None:
    """Check the label column of a batch: [n_texts, d], finite, and of at least two texts."""
    if not isinstance(labels, Tensor) or labels.ndim != 2 or len(labels) != n_texts:
        shape = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(
            f"Expected the teacher's vectors in the column 'label', shaped [{n_texts}, d], but "
            f"got {shape}. Add them with dataset.add_column('label', list(teacher.encode(texts)))."
        )
    if n_texts < 2:
        raise ValueError(
            "Expected at least two texts in a batch, to compare, but got one. Raise the batch "
            "size, or set dataloader_drop_last=True."
        )
    if not bool(torch.isfinite(labels).all()):
        rows = (~torch.isfinite(labels)).any(dim=1).nonzero().flatten().tolist()
        raise ValueError(f"The teacher's vectors of texts {rows[:5]} of the batch are not finite.")
