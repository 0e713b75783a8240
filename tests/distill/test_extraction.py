"""Word and sentence vectors from one pass: by hand, by a slow loop, through faults."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_build import forward, model_bytes, with_batch_tokens
from telling import Telling
from test_alignment import text_tokens
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from st_static.distill import extraction
from st_static.distill.alignment import WordBags
from st_static.distill.engines import Processes
from st_static.distill.extraction import (
    ShardWork,
    TeacherShard,
    cut_shards,
    extract,
    extracted_table,
    isolated_work,
    merge_sums,
    run_shards,
    sentence_work,
    summed,
)
from st_static.distill.stages import SENTENCE_VECTORS_FILE, Selected
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_pass import (
    IsolatedTokens,
    WordSums,
    WordVectorSums,
    isolated_vectors,
    read_batches,
    sentence_lengths,
    sum_tokens,
    token_batches,
)
from st_static.files import read_arrays, write_arrays
from st_static.model.tokenizer import build_tokenizer
from st_static.tokens.ragged import Ragged, offsets_of

FAMILIES = ("wordpiece", "unigram", "byte_level")


def select(teacher: Teacher, texts: list[str], words: list[list[int]]) -> Selected:
    """What the selection stage would give for these sentences and words."""
    lengths = [len(teacher.tokenizer.encode(t, add_special_tokens=False)) for t in texts]
    order = np.argsort(lengths, kind="stable")
    ids = np.array([w for i in order for w in words[i]], dtype=np.int32)
    return Selected(
        texts=pa.array([texts[i] for i in order]),
        lengths=np.array(lengths, dtype=np.int32)[order],
        words=Ragged(ids, offsets_of(np.array([len(words[i]) for i in order]))),
    )


class Texts(NamedTuple):
    """What the teacher reads, in memory."""

    selected: Selected
    tokenizer: Tokenizer
    teacher_tokenizer: Tokenizer | None = None


def run(teacher: Teacher, tokenizer, selected: Selected) -> tuple[WordSums, np.ndarray]:
    sums = WordSums.zeros(tokenizer.get_vocab_size(), teacher.token_dimension)
    batches = token_batches(sentence_lengths(teacher, selected), teacher.batch_tokens)
    vectors = []
    for sentences, words in read_batches(teacher, tokenizer, selected, batches):
        sums.add(words)
        vectors.append(sentences)
    return sums, np.concatenate(vectors)


# -- golden: three words, four sentences -----------------------------------------------

# All-MiniLM-L6-v2's tokens:  0     1     2       3       4        5
#                             [CLS] the   cat     sat     [SEP]
#                             [CLS] a     cat     saw     a        cat   [SEP]
#                             [CLS] token ##ization sat   [SEP]
#                             [CLS] cat   ,       token   ##ization here [SEP]
GOLDEN = ["The cat sat", "A cat saw a cat", "Tokenization sat", "Cat, tokenization here"]
CAT, SAT, TOKENIZATION = 2, 3, 4
# Sentence 3 is not taken for "sat"; "cat" in sentence 3 is not selected either, though it occurs.
GOLDEN_WORDS = [[CAT, SAT], [CAT], [SAT, TOKENIZATION], [TOKENIZATION]]


@pytest.fixture
def golden_tokenizer():
    return build_tokenizer(["cat", "sat", "tokenization"])


class Stub(Teacher):
    """A teacher whose token vector is (position in the sentence, 1)."""

    def forward(self, input_ids, attention_mask):
        positions = torch.arange(input_ids.shape[1], dtype=torch.float32).expand(input_ids.shape)
        tokens = torch.stack([positions, torch.ones_like(positions)], dim=-1)
        return tokens, tokens.sum(dim=1)

    token_dimension = 2
    dimension = 2


def test_three_words_by_hand(make_model, golden_tokenizer, tmp_path):
    teacher = Stub(make_model(), batch_tokens=16)
    selected = select(teacher, GOLDEN, GOLDEN_WORDS)
    sums = extract(teacher, Texts(selected, golden_tokenizer), tmp_path, Processes(1))
    assert sums.counts.tolist() == [0, 0, 2, 2, 2]
    np.testing.assert_allclose(
        sums.means(),
        [
            [0, 0],  # [PAD]
            [0, 0],  # [UNK]
            [(2 + (2 + 5) / 2) / 2, 1],  # cat: 2 in the first, 2 and 5 in the second
            [(3 + 3) / 2, 1],  # sat: 3 in the first and in the third
            [((1 + 2) / 2 + (3 + 4) / 2) / 2, 1],  # tokenization: 1, 2 and 3, 4
        ],
    )


def test_three_words_by_a_slow_loop_over_plain_transformers(
    make_model, transformer_folders, golden_tokenizer, tmp_path
):
    tokenizer = AutoTokenizer.from_pretrained(transformer_folders["wordpiece"])
    model = AutoModel.from_pretrained(transformer_folders["wordpiece"]).eval()

    def vectors_of(sentence: str, positions: list[int]) -> torch.Tensor:
        with torch.no_grad():
            tokens = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0]
        return tokens[positions].double().mean(dim=0)

    expected = {
        CAT: [vectors_of(GOLDEN[0], [2]), vectors_of(GOLDEN[1], [2, 5])],
        SAT: [vectors_of(GOLDEN[0], [3]), vectors_of(GOLDEN[2], [3])],
        TOKENIZATION: [vectors_of(GOLDEN[2], [1, 2]), vectors_of(GOLDEN[3], [3, 4])],
    }
    teacher = Teacher(make_model(), batch_tokens=16)
    selected = select(teacher, GOLDEN, GOLDEN_WORDS)
    means = extract(teacher, Texts(selected, golden_tokenizer), tmp_path, Processes(1)).means()
    for word, vectors in expected.items():
        np.testing.assert_allclose(means[word], sum(vectors) / len(vectors), atol=1e-5)
    vectors = np.load(tmp_path / SENTENCE_VECTORS_FILE)
    own = teacher.model.encode(selected.texts.to_pylist())
    np.testing.assert_allclose(vectors, own, atol=2e-3)  # kept in float16


# -- real sentences --------------------------------------------------------------------


def slow_extraction(teacher: Teacher, tokenizer, texts, words) -> tuple[np.ndarray, np.ndarray]:
    """The definition, a sentence, a word and a token at a time."""
    size = tokenizer.get_vocab_size()
    sums, counts = np.zeros((size, teacher.token_dimension)), np.zeros(size, dtype=np.int64)
    for text, wanted in zip(texts, words, strict=True):
        tokens = forward(teacher, [text])[0][0]
        teacher_tokens = [
            (start, end, tokens[column].double())
            for column, start, end in text_tokens(teacher, text)
            if end > 0
        ]
        encoding = tokenizer.encode(text)
        is_piece = [token.startswith("##") for token in [*encoding.tokens, ""]]
        occurrences = [
            (word, start, end)
            for i, (word, (start, end)) in enumerate(
                zip(encoding.ids, encoding.offsets, strict=True)
            )
            if not is_piece[i] and not is_piece[i + 1]
        ]
        for word in wanted:
            places = []
            for start, end in (place for found, *place in occurrences if found == word):
                pieces = [
                    vector
                    for token_start, token_end, vector in teacher_tokens
                    if token_start < end and token_end > start
                ]
                if pieces:
                    places.append(sum(pieces) / len(pieces))
            if places:
                sums[word] += (sum(places) / len(places)).numpy()
                counts[word] += 1
    return sums, counts


@pytest.fixture(scope="module")
def wanted_words(student, sentences):
    """For each sentence about two thirds of its words."""
    rng = np.random.default_rng(0)
    return [
        sorted({i for i in student.encode(s).ids if i > 1 and rng.random() < 0.7})
        for s in sentences
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prompt", [None, "query: "])
def test_sums_equal_a_slow_loop(make_model, student, sentences, wanted_words, family, prompt):
    teacher = Teacher(make_model(family), prompt=prompt, batch_tokens=128)
    texts = [*sentences, " ".join(sentences)]
    words = [*wanted_words, sorted({w for row in wanted_words for w in row})]
    sums, counts = slow_extraction(teacher, student, texts, words)
    found, vectors = run(teacher, student, select(teacher, texts, words))
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.sums, sums, atol=1e-4)
    assert (counts > 0).sum() > 80
    own = teacher.model.encode(select(teacher, texts, words).texts.to_pylist(), prompt=prompt)
    np.testing.assert_allclose(vectors, own, atol=5e-3)


def test_a_word_that_the_teacher_cuts_off_does_not_count(make_model, golden_tokenizer):
    model = make_model()
    model.max_seq_length = 4
    teacher = Teacher(model)
    sums, _ = run(teacher, golden_tokenizer, select(teacher, ["cat cat sat"], [[CAT, SAT]]))
    assert sums.counts.tolist() == [0, 0, 1, 0, 0]


def test_sentences_without_any_selected_word_give_their_vector(tiny_teacher, golden_tokenizer):
    sums, vectors = run(tiny_teacher, golden_tokenizer, select(tiny_teacher, GOLDEN, [[]] * 4))
    assert vectors.shape == (4, 32)
    assert not sums.counts.any()
    assert not sums.sums.any()


def test_bfloat16_tokens_are_summed_in_float32():
    tokens = torch.full((1, 300, 1), 1.0, dtype=torch.bfloat16)
    bags = WordBags(
        word=np.array([2]),
        counts=np.array([300]),
        tokens=Ragged(np.arange(300, dtype=np.int32), np.array([0, 300])),
        weights=np.ones(300, dtype=np.float32),
    )
    # In bfloat16 the sum would stop growing at 256.
    assert sum_tokens(tokens, bags).tolist() == [[300.0]]


# -- faults ----------------------------------------------------------------------------


def limit_memory(monkeypatch: pytest.MonkeyPatch, n_tokens: int) -> list[int]:
    """Let the teacher run out of memory above a number of tokens; returns the sizes it ran."""
    sizes: list[int] = []
    forward = Teacher.forward

    def limited(self, input_ids, attention_mask):
        if input_ids.numel() > n_tokens:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {input_ids.numel()} tokens")
        sizes.append(input_ids.numel())
        return forward(self, input_ids, attention_mask)

    monkeypatch.setattr(Teacher, "forward", limited)
    return sizes


def test_a_memory_limit_is_met_by_smaller_batches(
    tiny_teacher, student, sentences, wanted_words, monkeypatch, caplog
):
    teacher = with_batch_tokens(tiny_teacher, 400)
    selected = select(teacher, sentences, wanted_words)
    expected, expected_vectors = run(teacher, student, selected)
    sizes = limit_memory(monkeypatch, 60)
    with caplog.at_level(logging.WARNING):
        found, vectors = run(teacher, student, selected)
    assert max(sizes) <= 60
    assert "do not fit into memory: halving" in caplog.text
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.sums, expected.sums, atol=1e-4)
    np.testing.assert_allclose(vectors, expected_vectors, atol=2e-3)


def test_a_sentence_too_long_is_an_error(
    tiny_teacher, student, sentences, wanted_words, monkeypatch
):
    selected = select(tiny_teacher, sentences, wanted_words)
    limit_memory(monkeypatch, 5)
    with pytest.raises(torch.OutOfMemoryError):
        run(tiny_teacher, student, selected)


def test_other_errors_are_no_lack_of_memory(
    tiny_teacher, student, sentences, wanted_words, monkeypatch
):
    def fail(*_):
        raise RuntimeError("wrong shapes")

    monkeypatch.setattr(Teacher, "forward", fail)
    with pytest.raises(RuntimeError, match="wrong shapes"):
        run(tiny_teacher, student, select(tiny_teacher, sentences, wanted_words))


def test_a_memory_limit_holds_for_isolated_words_too(teachers, monkeypatch):
    words = [f"keeper{i}" for i in range(40)]
    expected = isolated_vectors(teachers["byte_level"], words)
    sizes = limit_memory(monkeypatch, 60)
    np.testing.assert_allclose(isolated_vectors(teachers["byte_level"], words), expected, atol=1e-5)
    assert max(sizes) <= 60


class Work(NamedTuple):
    """The stages before."""

    selected: Selected
    tokenizer: Tokenizer
    words: pa.Table
    teacher_tokenizer: Tokenizer | None = None


@pytest.fixture
def cut_off(make_model, golden_tokenizer):
    """A teacher of few tokens, and the stages before: each "sat" is cut off, and a word is new."""
    model = make_model()
    model.max_seq_length = 4  # [CLS], two tokens, [SEP]
    teacher = Teacher(model)
    words = ["cat", "sat", "tokenization", "new"]
    selected = select(teacher, GOLDEN, GOLDEN_WORDS)
    return teacher, Work(selected, build_tokenizer(words), pa.table({"text": words}))


def test_words_that_the_teacher_cuts_off_get_their_vectors_alone(
    cut_off, golden_tokenizer, tmp_path
):
    teacher, work = cut_off
    work = work._replace(tokenizer=golden_tokenizer, words=work.words[:3])
    with extracted_table(tmp_path, teacher, work, Processes(1)) as (table, figures):
        pass
    sums, _ = run(teacher, golden_tokenizer, work.selected)
    assert sums.counts[SAT] == 0 < sums.counts[CAT]
    np.testing.assert_allclose(table[SAT], isolated_vectors(teacher, ["sat"])[0], atol=1e-6)
    np.testing.assert_allclose(table[CAT], sums.means()[CAT], atol=1e-6)
    assert figures["words_alone"] == 1
    assert not table[:2].any()


def test_shards_of_isolated_words_stay_until_the_table_is_stored(cut_off, tmp_path, counted):
    teacher, work = cut_off

    def store(error: type[BaseException] | None = None) -> np.ndarray:
        with extracted_table(tmp_path, teacher, work, Processes(1)) as (table, _):
            if error:
                raise error
        return table

    with pytest.raises(KeyboardInterrupt):
        store(KeyboardInterrupt)
    shards = {f"{name}-00000.safetensors" for name in ("no_sentence", "cut_off")}
    files = {"sums.safetensors", SENTENCE_VECTORS_FILE, "device.json"}
    assert {path.name for path in tmp_path.iterdir()} == files | shards
    counted.runs = 0
    table = store()
    assert counted.runs == 0
    assert {path.name for path in tmp_path.iterdir()} == files
    # A kill while they were removed costs their tokens alone, again.
    np.testing.assert_array_equal(store(), table)
    assert counted.runs == 2


def test_an_extraction_goes_on_only_on_the_kind_of_device_that_it_began_on(cut_off, tmp_path):
    teacher, work = cut_off
    with extracted_table(tmp_path, teacher, work, Processes(1)):
        pass
    teacher.runs_on = "cuda"
    with (
        pytest.raises(ValueError, match=r"began to run on cpu, and now has cuda.*device cpu"),
        extracted_table(tmp_path, teacher, work, Processes(1)),
    ):
        pass


def test_what_an_engine_gets_says_what_it_is(cut_off, tmp_path):
    engine = Telling()
    with extracted_table(tmp_path, *cut_off, engine):
        pass
    assert engine.said == [
        "texts 0 to 3 of the selection",
        "words and pieces 0 to 0 that the teacher reads alone",
        "sums of the tokens 0 to 5",
        "words and pieces 0 to 0 that the teacher reads alone",
    ]


# -- going on --------------------------------------------------------------------------


class Counted:
    """Counts the teacher's runs; may look on, or end it all, at one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        self.before: Callable[[], None] = lambda: None
        forward = Teacher.forward

        def counted(teacher, input_ids, attention_mask):
            self.before()
            self.runs += 1
            return forward(teacher, input_ids, attention_mask)

        patch.setattr(Teacher, "forward", counted)


@pytest.fixture
def counted(monkeypatch):
    """Counts the runs of a teacher, whose shards have two batches or so."""
    monkeypatch.setattr(extraction, "LEAST_TOKENS", 60)
    return Counted(monkeypatch)


@pytest.fixture
def extract_into(make_model, student, sentences, wanted_words, counted):
    """Runs the whole extraction, or the rest of it, into a folder."""
    teacher = Teacher(make_model(), batch_tokens=40)
    texts = Texts(select(teacher, sentences, wanted_words), student)

    def extract_into(folder: Path) -> list[TeacherShard]:
        folder.mkdir(exist_ok=True)
        extract(teacher, texts, folder, Processes(1))
        return sentence_work(teacher, texts, folder).shards

    return extract_into


@pytest.fixture
def pieces_into(teachers, counted):
    """Runs the teacher over words on their own, or over the rest of them."""
    teacher = with_batch_tokens(teachers["byte_level"], 30)
    isolated = IsolatedTokens(teacher, [f"keeper{i}" for i in range(40)])

    def pieces_into(folder: Path) -> list[TeacherShard]:
        folder.mkdir(exist_ok=True)
        work = isolated_work(isolated, folder, "isolated")
        run_shards([work], Processes(1))
        parts = [read_arrays(work.path(shard))["vectors"] for shard in work.shards]
        np.save(folder / "vectors.npy", isolated.gather(parts))
        return work.shards

    return pieces_into


@pytest.fixture(params=["extract_into", "pieces_into"])
def work(request):
    return request.getfixturevalue(request.param)


def test_a_kill_loses_the_shard_that_was_under_way(work, counted, tmp_path):
    def snapshot() -> None:
        """What a kill at this moment would leave."""
        shutil.copytree(tmp_path / "whole", tmp_path / f"killed-{counted.runs}")

    counted.before = snapshot
    shards = work(tmp_path / "whole")
    counted.before = lambda: None
    whole, n_batches = model_bytes(tmp_path / "whole"), counted.runs
    ends = np.cumsum([len(shard.batches) for shard in shards])
    assert len(shards) >= 4
    assert ends[-1] == n_batches > len(shards)
    for n_done in range(n_batches):
        counted.runs = 0
        work(tmp_path / f"killed-{n_done}")
        assert counted.runs == n_batches - max(ends[ends <= n_done], default=0)
        assert model_bytes(tmp_path / f"killed-{n_done}") == whole


@pytest.mark.parametrize("n_done", [0, 1, 4, 8])
def test_an_interrupt_keeps_all_whole_shards(work, counted, tmp_path, n_done):
    shards = work(tmp_path / "whole")
    ends = np.cumsum([len(shard.batches) for shard in shards])
    counted.runs = 0

    def interrupt() -> None:
        if counted.runs == n_done:
            raise KeyboardInterrupt

    counted.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path / "resumed")
    counted.before, counted.runs = lambda: None, 0
    work(tmp_path / "resumed")
    assert counted.runs == ends[-1] - max(ends[ends <= n_done], default=0)
    assert model_bytes(tmp_path / "resumed") == model_bytes(tmp_path / "whole")
    counted.runs = 0
    work(tmp_path / "resumed")
    assert counted.runs == 0


@pytest.mark.parametrize(
    ("owner", "step"),
    [(extraction, "gather_sentences"), (extraction, "merge_sums"), (ShardWork, "remove")],
)
def test_an_interrupt_of_merging_keeps_shards(
    extract_into, counted, tmp_path, monkeypatch, owner, step
):
    extract_into(tmp_path / "whole")

    def interrupt(*arguments) -> None:
        if owner is ShardWork:  # half of the tidying up
            [work] = arguments
            work.path(work.shards[0]).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            extract_into(tmp_path / "resumed")
    counted.runs = 0
    extract_into(tmp_path / "resumed")
    assert counted.runs == 0
    assert model_bytes(tmp_path / "resumed") == model_bytes(tmp_path / "whole")


class RecordedBar:
    """What a progress bar is told."""

    def __init__(self, label: str, total: int, unit: str, initial: int = 0) -> None:
        self.label, self.total, self.unit, self.steps = label, total, unit, [initial]
        self.postfix = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def update(self, n: int) -> None:
        self.steps.append(n)

    def set_postfix_str(self, text: str) -> None:
        self.postfix = text


def test_the_bar_goes_by_padded_tokens(work, counted, tmp_path, monkeypatch):
    """Short sentences come first: their number would promise an end that is far too near."""
    shards = work(tmp_path / "whole")
    sizes = [shard.tokens for shard in shards]
    n_first = sum(len(shard.batches) for shard in shards[:2])
    bars: list[RecordedBar] = []

    def recorded(*arguments: object, **options: object) -> RecordedBar:
        bars.append(RecordedBar(*arguments, **options))
        return bars[-1]

    def interrupt() -> None:
        if counted.runs == n_first and len(bars) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(extraction, "bar", recorded)
    counted.before, counted.runs = interrupt, 0
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path / "resumed")
    work(tmp_path / "resumed")
    first, second = bars
    assert first.unit == second.unit == "token"
    assert first.steps == [0, *sizes[:2]]
    assert second.steps == [sum(sizes[:2]), *sizes[2:]]
    assert first.total == second.total == sum(sizes)
    assert re.fullmatch(rf"2/{len(shards)} shards, [\d,]+ texts/s", first.postfix)
    assert second.postfix.startswith(f"{len(shards)}/{len(shards)} shards")


# -- shards ----------------------------------------------------------------------------


@given(st.lists(st.integers(1, 50_000), max_size=200))
def test_shards_are_runs_of_whole_batches(tokens):
    batches = [slice(i, i + 1) for i in range(len(tokens))]
    shards = cut_shards(batches, np.array(tokens))
    assert [batch for shard in shards for batch in shard.batches] == batches
    assert [shard.number for shard in shards] == list(range(len(shards)))
    for shard in shards:
        rows = range(shard.rows.start, shard.rows.stop)
        assert shard.tokens == sum(tokens[row] for row in rows)
        assert sum(tokens[row] for row in rows[:-1]) < 65_536
    assert all(shard.tokens >= 65_536 for shard in shards[:-1])


def test_large_work_has_larger_shards():
    tokens = [4096] * 100_000
    shards = cut_shards([slice(i, i + 1) for i in range(len(tokens))], np.array(tokens))
    assert 1000 <= len(shards) <= 1024


@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 30), max_size=8, unique=True), min_size=1, max_size=4),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 12),
)
def test_sums_of_shards_add_up_by_ranges_of_words(tmp_path_factory, words, n_at_a_time):
    """Of batches in shards, each of some words; expected by adding one vector after the other."""
    rng = np.random.default_rng(len(words))
    folder, files, expected = tmp_path_factory.mktemp("sums"), [], WordSums.zeros(31, 3)
    for number, shard in enumerate(words):
        parts = []
        for batch in shard:
            vectors = rng.standard_normal((len(batch), 3)).astype(np.float32)
            counts = rng.integers(1, 9, len(batch))
            parts.append(WordVectorSums(np.array(batch, dtype=np.int64), vectors, counts))
        total = WordSums.zeros(31, 3)
        for part in parts:
            for word, vector, count in zip(*part, strict=True):
                total.sums[word] += vector
                total.counts[word] += count
        expected.sums[:] += total.sums
        expected.counts[:] += total.counts
        files.append(folder / f"{number}.safetensors")
        write_arrays(files[-1], summed(parts, 3)._asdict())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "_BYTES_AT_A_TIME", 4 * 3 * n_at_a_time)
        merged = merge_sums(files, 31, 3, Processes(1))
    np.testing.assert_array_equal(merged.sums, expected.sums)
    np.testing.assert_array_equal(merged.counts, expected.counts)


# -- sums ------------------------------------------------------------------------------
