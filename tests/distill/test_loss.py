"""The distillation loss: by hand, against the formula in float64, in sentence-transformers."""

import math

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor

from st_static import SimilarityDistillationLoss, StaticWordEmbedding
from st_static.distill.loss import cosines_with_others, similarity_cross_entropy
from st_static.distill.static_word_embedding import TeacherEstimate
from st_static.model.tokenizer import build_tokenizer

TEXTS = ["the old keeper", "keeper of ships", "a ship", "sleep, old ship"]


def loss_of(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    cosines = cosines_with_others(student), cosines_with_others(teacher)
    return similarity_cross_entropy(*cosines, temperature)


def transcription(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    """loss = -(1/K) sum_i sum_{j != i} q_ij log p_ij, one number at a time."""
    size = len(student)

    def cosine(vectors: np.ndarray, i: int, j: int) -> float:
        x, y = (vectors[k].astype(np.float64) for k in (i, j))
        return float(x @ y / math.sqrt(x @ x) / math.sqrt(y @ y))

    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        s = {j: cosine(student, i, j) / temperature for j in others}
        t = {j: cosine(teacher, i, j) / temperature for j in others}
        # Shifted by the largest, so that no exponential overflows.
        s_sum = math.fsum(math.exp(s[k] - max(s.values())) for k in others)
        t_sum = math.fsum(math.exp(t[k] - max(t.values())) for k in others)
        for j in others:
            log_p = s[j] - max(s.values()) - math.log(s_sum)
            q = math.exp(t[j] - max(t.values())) / t_sum
            loss -= q * log_p
    return loss / size


@pytest.fixture
def model():
    tokenizer = build_tokenizer(["the", "old", "keeper", "of", "ships", "a", "ship", "sleep"])
    table = np.random.default_rng(0).normal(size=(10, 8)).astype(np.float32)
    module = StaticWordEmbedding(tokenizer, table, sparse=True)
    return SentenceTransformer(modules=[module], device="cpu")


@pytest.fixture
def labels():
    return torch.from_numpy(np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32))


def value(loss: torch.nn.Module, texts: list[str], labels: Tensor | None) -> Tensor:
    return loss([loss.model.preprocess(texts)], labels)


def test_three_sentences_by_hand():
    # Student: 1 and 2 are alike; teacher: 1 and 3 are. At temperature 1 a pair of similarities
    # (1, 0) gives the probabilities e/(1+e) and 1/(1+e), a pair (0, 0) gives 1/2 and 1/2.
    student = torch.tensor([[1.0, 0], [2, 0], [0, 1]])
    teacher = torch.tensor([[3.0, 0], [0, 1], [1, 0]])
    high, low = math.e / (1 + math.e), 1 / (1 + math.e)
    first = -(low * math.log(high) + high * math.log(low))
    second = -(math.log(high) + math.log(low)) / 2
    third = math.log(2)
    found = loss_of(student, teacher, 1.0)
    assert found.item() == pytest.approx((first + second + third) / 3, rel=1e-6)


def test_two_sentences_leave_nothing_to_compare():
    vectors = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    assert float(loss_of(vectors, vectors, 0.05)) == 0


vectors = st.tuples(
    st.integers(2, 9),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 10**6),
    st.sampled_from([0.02, 0.05, 0.3, 1.0]),
)


@given(vectors)
def test_loss_equals_the_formula_in_double_precision(example):
    size, d_student, d_teacher, seed, temperature = example
    rng = np.random.default_rng(seed)
    student, teacher = rng.normal(size=(size, d_student)), rng.normal(size=(size, d_teacher))
    expected = transcription(student, teacher, temperature)
    double = loss_of(torch.from_numpy(student), torch.from_numpy(teacher), temperature)
    assert float(double) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    single = loss_of(
        torch.from_numpy(student).float(), torch.from_numpy(teacher).float(), temperature
    )
    assert float(single) == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_gradient_equals_a_numeric_one_and_is_finite():
    rng = np.random.default_rng(0)
    student, teacher = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
    variable = torch.from_numpy(student).requires_grad_()
    loss_of(variable, torch.from_numpy(teacher), 0.05).backward()
    numeric = np.zeros_like(student)
    for index in np.ndindex(student.shape):
        step = np.zeros_like(student)
        step[index] = 1e-6
        high = transcription(student + step, teacher, 0.05)
        numeric[index] = (high - transcription(student - step, teacher, 0.05)) / 2e-6
    np.testing.assert_allclose(variable.grad, numeric, rtol=1e-4, atol=1e-6)
    assert np.isfinite(variable.grad.numpy()).all()


def test_gradients_stay_finite_where_students_are_equal_or_zero():
    student = torch.zeros(4, 3)
    student[2:] = 1.0
    student.requires_grad_()
    loss = loss_of(student, torch.eye(4), 0.02)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(student.grad).all()


def test_the_module_gives_the_loss_of_the_models_vectors(model, labels):
    found = value(SimilarityDistillationLoss(model), TEXTS, labels)
    expected = transcription(model.encode(TEXTS), labels.numpy(), 0.05)
    assert found.item() == pytest.approx(expected, rel=1e-4)
    warm = value(SimilarityDistillationLoss(model, temperature=0.5), TEXTS, labels)
    expected = transcription(model.encode(TEXTS), labels.numpy(), 0.5)
    assert warm.item() == pytest.approx(expected, rel=1e-4)


def test_half_precision_labels_do_as_well(model, labels):
    found = value(SimilarityDistillationLoss(model), TEXTS, labels.half())
    expected = transcription(model.encode(TEXTS), labels.half().numpy(), 0.05)
    assert found.item() == pytest.approx(expected, rel=1e-3)


def test_the_table_gets_a_sparse_finite_gradient_and_the_labels_none(model, labels):
    labels.requires_grad_()
    value(SimilarityDistillationLoss(model), TEXTS, labels.detach()).backward()
    gradient = model[0].embedding.weight.grad
    assert gradient.is_sparse
    assert torch.isfinite(gradient.to_dense()).all()
    assert gradient.to_dense().any()
    assert labels.grad is None


def test_matryoshka_adds_up_the_losses_of_truncated_vectors(model, labels):
    loss = SimilarityDistillationLoss(model)
    found = MatryoshkaLoss(model, loss, [8, 4, 2], matryoshka_weights=[1, 2, 3])(
        [model.preprocess(TEXTS)], labels
    )
    student = model.encode(TEXTS)
    expected = sum(
        weight * transcription(student[:, :dimension], labels.numpy(), 0.05)
        for dimension, weight in [(8, 1), (4, 2), (2, 3)]
    )
    assert found.item() == pytest.approx(expected, rel=1e-4)
    found.backward()
    assert torch.isfinite(model[0].embedding.weight.grad.to_dense()).all()


def test_the_words_of_a_batch_are_averaged_once_for_all_dimensions(model, labels, monkeypatch):
    means, calls = StaticWordEmbedding.plain_means, []
    monkeypatch.setattr(
        StaticWordEmbedding, "plain_means", lambda *given: calls.append(1) or means(*given)
    )
    loss = SimilarityDistillationLoss(model, words=0.2)
    features = model.preprocess(TEXTS)
    nested = MatryoshkaLoss(model, loss, [8, 4, 2])
    found = nested([features], labels)
    assert len(calls) == 1
    nested([features], labels.clone())  # of other labels
    with torch.no_grad():
        model[0].embedding.weight.mul_(torch.rand(10, 1) + 1)
    changed = nested([features], labels)  # by a step of training
    assert len(calls) == 3
    SimilarityDistillationLoss(model, words=0.5)([features], labels)
    assert len(calls) == 4
    assert changed.item() != pytest.approx(found.item())
    assert changed.item() == pytest.approx(nested([model.preprocess(TEXTS)], labels).item())


def test_a_plain_trainer_takes_texts_and_labels(model, labels, tmp_path):
    model = SentenceTransformer(
        modules=[StaticWordEmbedding(model[0].tokenizer, model[0].embedding.weight)], device="cpu"
    )
    dataset = Dataset.from_dict({"text": TEXTS, "label": labels.tolist()})
    loss = SimilarityDistillationLoss(model)
    before = value(loss, TEXTS, labels).item()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=15,
        per_device_train_batch_size=4,
        learning_rate=0.05,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=dataset, loss=loss
    ).train()
    assert value(loss, TEXTS, labels).item() < before - 0.1


def test_config_and_citation(model):
    loss = SimilarityDistillationLoss(model, temperature=0.1)
    assert loss.get_config_dict() == {"temperature": 0.1}
    assert loss.citation.strip().startswith("@inproceedings{")
    assert "Static Word Embeddings for Sentence Semantic Representation" in loss.citation


def test_a_batch_of_one_is_refused(model, labels):
    with pytest.raises(ValueError, match=r"at least two texts.*dataloader_drop_last=True"):
        value(SimilarityDistillationLoss(model), TEXTS[:1], labels[:1])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda labels: labels[:3],
        lambda labels: torch.cat([labels, labels]),
        lambda labels: labels[:, 0],
        lambda labels: labels[:, :, None],
        lambda labels: torch.arange(4),
    ],
)
def test_labels_of_another_shape_are_refused(model, labels, wrong):
    shape = str(tuple(wrong(labels).shape)).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=rf"shaped \[4, d\], but got {shape}"):
        value(SimilarityDistillationLoss(model), TEXTS, wrong(labels))


def test_missing_labels_are_refused(model):
    with pytest.raises(ValueError, match=r"column 'label'.*got NoneType.*add_column"):
        value(SimilarityDistillationLoss(model), TEXTS, None)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_labels_that_are_not_finite_are_refused_with_their_rows(model, labels, bad):
    labels[2, 5] = bad
    with pytest.raises(ValueError, match=r"texts \[2\] of the batch are not finite"):
        value(SimilarityDistillationLoss(model), TEXTS, labels)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_student_vectors_that_are_not_finite_are_refused(model, labels, bad):
    with torch.no_grad():
        model[0].embedding.weight[4] = bad  # keeper
    with pytest.raises(ValueError, match="not finite"):
        value(SimilarityDistillationLoss(model), TEXTS, labels)


def test_two_text_columns_are_refused(model, labels):
    loss = SimilarityDistillationLoss(model)
    features = [model.preprocess(TEXTS), model.preprocess(TEXTS)]
    with pytest.raises(ValueError, match="one text column beside the label, but got 2"):
        loss(features, labels)


@pytest.mark.parametrize("temperature", [0, -0.05, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(model, temperature):
    with pytest.raises(ValueError, match="positive temperature"):
        SimilarityDistillationLoss(model, temperature=temperature)


def unit(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_cosines_as_large_as_the_teachers(model, labels):
    plain = value(SimilarityDistillationLoss(model), TEXTS, labels).item()
    found = value(SimilarityDistillationLoss(model, cosines=20), TEXTS, labels).item()
    student, teacher = unit(model.encode(TEXTS)), unit(labels.numpy())
    squares = [
        (student[i] @ student[j] - teacher[i] @ teacher[j]) ** 2
        for i in range(4)
        for j in range(4)
        if i != j
    ]
    assert found == pytest.approx(plain + 20 * np.mean(squares), rel=1e-4)


def test_vectors_in_all_directions(model, labels):
    plain = value(SimilarityDistillationLoss(model), TEXTS, labels).item()
    found = value(SimilarityDistillationLoss(model, spread=3), TEXTS, labels).item()
    mean = unit(model.encode(TEXTS)).mean(axis=0)
    assert found == pytest.approx(plain + 3 * mean @ mean, rel=1e-4)


def test_the_teachers_vectors_are_estimated(model, labels):
    estimate = TeacherEstimate(8, 6)
    student = SentenceTransformer(modules=[*model, estimate], device="cpu")
    plain = value(SimilarityDistillationLoss(model), TEXTS, labels).item()
    padded = torch.nn.functional.pad(labels, (0, 1))  # as `TrainingData` gives them
    weight = estimate.linear.weight.detach().numpy().astype(np.float64)
    guesses = unit(math.sqrt(8) * unit(model.encode(TEXTS)) @ weight[:, :8].T + weight[:, 8])
    expected = plain + 2 * np.mean(1 - (guesses * unit(labels.numpy())).sum(axis=1))
    for teacher in (labels, padded):
        loss = SimilarityDistillationLoss(student, estimate=2)
        assert value(loss, TEXTS, teacher).item() == pytest.approx(expected, rel=1e-4)
    np.testing.assert_array_equal(student.encode(TEXTS), model.encode(TEXTS))


def test_an_estimate_needs_its_module(model, labels):
    loss = SimilarityDistillationLoss(model, estimate=1)
    with pytest.raises(ValueError, match="needs a student that ends with a TeacherEstimate"):
        value(loss, TEXTS, labels)


def test_the_students_own_words_are_a_share_of_what_it_follows(model, labels):
    table = model[0].embedding.weight.detach().numpy().astype(np.float64)
    table[0] *= 5  # the length of a row says nothing
    ids = [model[0].tokenizer.encode(text).ids for text in TEXTS]
    plain = unit(np.array([unit(table[i]).mean(axis=0) for i in ids]))
    teacher = unit(labels.numpy())
    cosines = 0.7 * teacher @ teacher.T + 0.3 * plain @ plain.T
    # Vectors with these cosines, by another way than putting two vectors side by side.
    values, vectors = np.linalg.eigh(cosines)
    target = vectors * np.sqrt(np.maximum(values, 0))
    student = model.encode(TEXTS)
    loss = SimilarityDistillationLoss(model, words=0.3)
    expected = transcription(student, target, 0.05)
    assert value(loss, TEXTS, labels).item() == pytest.approx(expected, rel=1e-4)
    assert expected != pytest.approx(transcription(student, labels.numpy(), 0.05), rel=1e-2)
    both = SimilarityDistillationLoss(model, words=0.3, cosines=20)
    cosines_of = unit(student) @ unit(student).T - cosines
    squares = cosines_of[~np.eye(4, dtype=bool)] ** 2
    found = value(both, TEXTS, labels).item()
    assert found == pytest.approx(expected + 20 * squares.mean(), rel=1e-4)


def test_the_words_are_estimated_beside_the_teachers_vectors(model, labels):
    estimate = TeacherEstimate(8, 8 + 6)
    student = SentenceTransformer(modules=[*model, estimate], device="cpu")
    plain = value(SimilarityDistillationLoss(model, words=0.2), TEXTS, labels).item()
    means = unit(model[0].plain_means(model.preprocess(TEXTS)).numpy())
    followed = np.hstack([0.2**0.5 * means, 0.8**0.5 * unit(labels.numpy())])
    guesses = unit(student[-1](model(model.preprocess(TEXTS)))["teacher_estimate"].detach().numpy())
    expected = plain + 2 * np.mean(1 - (guesses * followed).sum(axis=1))
    padded = torch.nn.functional.pad(labels, (0, 1))
    for teacher in (labels, padded):
        loss = SimilarityDistillationLoss(student, estimate=2, words=0.2)
        assert value(loss, TEXTS, teacher).item() == pytest.approx(expected, rel=1e-4)


def test_the_words_of_a_text_without_any_are_zeros_and_no_gradient_passes(model, labels):
    features = model.preprocess(["the old", ""])
    means = model[0].plain_means(features)
    assert not means.requires_grad
    assert not means[1].any()
    loss = SimilarityDistillationLoss(model, words=0.3)
    loss([features], labels[:2]).backward()
    assert torch.isfinite(model[0].embedding.weight.grad.coalesce().values()).all()


def test_a_share_that_is_none_or_of_no_words_is_refused(model):
    for share in (1.0, -0.1):
        with pytest.raises(ValueError, match=f"0 to less than 1 as the share words, .* {share}"):
            SimilarityDistillationLoss(model, words=share)
    dense = SentenceTransformer(modules=[Dense(4, 4)], device="cpu")
    with pytest.raises(ValueError, match=r"begins with a StaticWordEmbedding, .* with a Dense"):
        SimilarityDistillationLoss(dense, words=0.1)


@pytest.mark.parametrize("name", ["cosines", "spread", "estimate"])
def test_a_negative_weight_is_refused(model, name):
    with pytest.raises(ValueError, match=f"at least 0 as {name}, but got -1"):
        SimilarityDistillationLoss(model, **{name: -1})
    with pytest.raises(TypeError, match=f"a number as the weight {name}"):
        SimilarityDistillationLoss(model, **{name: "much"})


def test_the_card_names_the_weights_that_are_given(model):
    loss = SimilarityDistillationLoss(model, cosines=2.0, words=0.1)
    assert loss.get_config_dict() == {"temperature": 0.05, "cosines": 2.0, "words": 0.1}
