"""`st-static convert`: a folder that loads everywhere, with vectors that are added up by hand."""

import gzip
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from st_static import FastEncoder
from st_static.cli import main
from st_static.evaluate.models import load_model
from st_static.evaluate.tasks import languages_of_model
from st_static.files import read_json
from st_static.model.model_folder import ModelFolder, read_static_model
from st_static.model.vectors import unit_rows

VECTORS = {
    "the": [1, 0, 0],
    "dog": [0, 2, 0],
    ".": [0, 0, 0.25],
    "ca": [1, 1, 0],
    "n't": [-3, 0, 1],
    "well-known": [0, 1, 4],
    "new_york": [2, 2, 1],
    "café": [5, 0, -1],
    "new york": [7, 7, 7],
}
# Each text with the words that it has, counted by hand.
TEXTS = {
    "The dog.": ["the", "dog", "."],
    "THE well-known dog can't!": ["the", "well-known", "dog", "ca", "n't"],
    "Can\N{RIGHT SINGLE QUOTATION MARK}t": ["ca", "n't"],
    "new_york, New York... café cafe": ["new_york", ".", ".", ".", "café"],
    "nothing here": [],
    "": [],
    "the " * 700: ["the"],
}
EXPECTED = unit_rows(
    np.array([np.sum([VECTORS[w] for w in words], 0) if words else [0] * 3 for words in
              TEXTS.values()])
)  # fmt: skip


def clients(model):
    encoders = FastEncoder.from_pretrained(model), StaticModel.from_pretrained(model)
    return [*encoders, SentenceTransformer(str(model), device="cpu")]


def lines(vectors=VECTORS):
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items())


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A folder in which the command ran, in a process of its own: `v.txt.gz` to `model`."""
    folder = tmp_path_factory.mktemp("convert")
    rows = lines() + "the 9 9 9\n[UNK] 9 9 9\n"
    (folder / "v.txt.gz").write_bytes(gzip.compress(rows.encode()))
    command = [sys.executable, "-m", "st_static.cli", "convert", "v.txt.gz", "deep/model"]
    options = ["--teacher", "org/teacher", "--license", "cc-by-4.0", "--language", "en-GB"]
    result = subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    (folder / "stdout").write_text(result.stdout, "utf-8")
    (folder / "stderr").write_text(result.stderr, "utf-8")
    return folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def convert(home, capsys):
    """Converts words with vectors, or the text of a file, in this process: to the folder `model`.
    Gives the lines on stdout and on stderr."""

    def run(content=VECTORS, *options, status=0):
        text = content if isinstance(content, str) else lines(content)
        (home / "v.txt").write_text(text, "utf-8")
        assert main(["convert", "v.txt", "model", *options]) == status
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err.splitlines()

    return run


@pytest.fixture(scope="module")
def model(converted):
    return converted / "deep/model"


@pytest.fixture(scope="module")
def encoders(converted, model):
    return FastEncoder.from_pretrained(model), load_model(f"glove:{converted / 'v.txt.gz'}")


def test_the_command_says_what_it_did(converted):
    assert (converted / "stdout").read_text("utf-8").splitlines() == [
        "deep/model: 9 words, 3 dimensions",
        "Capitals: texts are lower-cased (no word has a capital)",
        "Accents: stay",
        "Canonical form: texts are brought to NFC, that of the words",
        "Punctuation: 1 of the words; any other has no vector",
        "Next: st-static evaluate deep/model …, st-static card deep/model",
    ]
    assert (converted / "stderr").read_text("utf-8").splitlines() == [
        "Warning: rows left out, for their words came before: 1 ('the' (line 10))",
        "Warning: rows left out, for unknown words have no vector: 1 ('[UNK]' (line 11))",
        "Warning: words that are never found, for texts are split otherwise: 1 ('new york')",
    ]


def test_every_client_has_the_vectors(model):
    for encoder in clients(model):
        np.testing.assert_allclose(encoder.encode(list(TEXTS)), EXPECTED, atol=1e-6)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_texts_of_either_canonical_form_are_known(convert, form):
    """French, Vietnamese, Japanese, Arabic, Hindi, Korean and Greek; Hindi has a form for each."""
    words = ["été", "déjà", "việt", "nghiệp", "ガイド", "ございます", "أحمد", "القرآن"]
    words += ["क़लम", "सड़क", "한국어", "학교", "ΐ", "ẖ"]
    rows = unit_rows(np.arange(1.0, 3 * len(words) + 1).reshape(-1, 3) ** 1.5 % 7 - 3)
    in_file = [unicodedata.normalize(form, word) for word in words]
    in_file[8] = "क" + "लम".join(["\u093c", ""]) if form == "NFD" else "\u0958लम"
    said, warned = convert(dict(zip(in_file, rows.tolist(), strict=True)))
    [of_form] = [line for line in said if line.startswith("Canonical form:")]
    assert of_form.startswith(f"Canonical form: texts are brought to {form}, that of the words")
    assert ("; so are 1 (" in of_form) == (form == "NFC")
    assert "never found" not in "".join(warned)
    texts = [
        unicodedata.normalize(other, text)
        for word in words
        for text in (word, word.title())
        for other in ("NFC", "NFD")
    ]
    expected = np.repeat(rows, 4, axis=0)
    for encoder in (*clients("model"), load_model("glove:v.txt")):
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "is_found"),
    [([], True), (["--language", "tr"], True), (["--language", "de"], False)],
)
def test_turkish_text_vectors_know_turkish_capitals(convert, options, is_found):
    table = {"istanbul": [1, 0], "ışık": [0, 1], "çok": [-1, 0], "ilk": [0, -1]}
    says = "Capitals: texts are lower-cased, I to ı and İ to i as in Turkish"
    assert any(line.startswith(says) for line in convert(table, *options)[0]) == is_found
    texts = ["İSTANBUL", "I\u0307stanbul", "i\u0307stanbul", "IŞIK", "ÇOK", "ilk"]
    expected = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [-1, 0], [0, -1]])
    expected[:4] *= is_found
    for encoder in clients("model"):
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)


def test_of_words_that_are_one_in_the_form_of_the_file_the_first_row_counts(home, convert):
    table = {"e\u0301": [1, 0], "dog": [0, 1], "é": [-1, 0], "è": [1, 1], "à": [2, 0]}
    said, warned = convert(table)
    assert said[0] == "model: 4 words, 2 dimensions"
    assert "brought to NFC, that of the words; so are 1 ('e\u0301') of the words" in said[3]
    assert warned == [
        "Warning: rows left out, for their words came before in another canonical form: 1 ('é')"
    ]
    vectors = FastEncoder.from_pretrained("model").encode(["é", "e\u0301", "dog"])
    np.testing.assert_allclose(vectors, [[1, 0], [1, 0], [0, 1]])
    facts = read_json(home / "model/st_static.json")["conversion"]
    assert (facts["words"], facts["form"], facts["alike"]) == (4, "NFC", 1)


pieces = st.sampled_from([*VECTORS, "Dog", "can't", "…", ",", "x", " ", "  ", "\n", "e\u0301"])


@given(texts=st.lists(st.lists(pieces, max_size=9).map("".join), min_size=1, max_size=4))
def test_a_peer_has_the_vectors_of_the_model(encoders, texts):
    fast, peer = encoders
    np.testing.assert_allclose(peer.encode(texts), fast.encode(texts), atol=1e-6)


def test_what_is_stated_is_known_to_other_commands(model):
    facts = read_json(model / "st_static.json")["conversion"]
    assert (facts["file"], facts["words"], facts["dimension"]) == ("v.txt.gz", 9, 3)
    left_out = ("never_found", "repeated", "reserved")
    assert [facts[name] for name in left_out] == [1, 1, 1]
    assert facts["limit"] is None
    assert ModelFolder(model).stated().license == "cc-by-4.0"
    assert languages_of_model(str(model)) == ["en"]


def test_a_limit_and_a_number_format(convert):
    said, _ = convert(VECTORS, "--limit", "2", "--dtype", "float16")
    assert any(line.startswith("Punctuation: 0 of the words") for line in said)
    encoder = FastEncoder.from_pretrained("model")
    assert sorted(encoder.model.tokenizer.get_vocab()) == ["[PAD]", "[UNK]", "dog", "the"]
    assert read_static_model("model").table.dtype == np.float16
    assert encoder.model.table.tolist() == [[0] * 3, [0] * 3, [1, 0, 0], [0, 2, 0]]


def test_capitals_count_if_a_word_has_one(convert):
    words = ["The", "the", "Paris", "US", "A", "I", "Ö", "<UNK>"]
    said, _ = convert({word: [1, 2] for word in words})
    assert "Capitals: count, for words have them: 6 ('The', 'Paris', 'US', 'A', 'I', …)" in said
    assert not any(line.startswith("Added") for line in said)
    assert FastEncoder.from_pretrained("model").encode(["paris"]).tolist() == [[0, 0]]


@pytest.mark.parametrize("n_rows", [5, 500])
def test_a_word_is_found_where_it_begins_a_sentence(home, convert, n_rows):
    """In a file with capitals, and in one with so few that texts are lower-cased."""
    vectors = {"the": [1, 0], "dog": [0, 2], "cat": [2, 1], "X": [9, 9], "Cat": [1, 8]}
    said, warned = convert(vectors | {f"w{i}": [0, 1] for i in range(n_rows - len(vectors))})
    is_cased = n_rows == 5
    cased, lower_cased = (
        ["Capitals: count, for words have them: 2 ('X', 'Cat')"],
        ["Capitals: texts are lower-cased (only a few words have one: 2 ('X', 'Cat'))"],
    )
    cased.append("Added, to find words that begin a sentence: 2 ('The', 'Dog')")
    assert set(said) >= set(cased if is_cased else lower_cased)
    assert set(said).isdisjoint(lower_cased if is_cased else cased)
    never_found = "never found, for texts are split otherwise: 2 ('X'"
    assert (never_found in "".join(warned)) != is_cased
    texts = ["The dog", "Dog", "Cat", "the cat", "DOG X"]
    cat, last = ([1, 8], [9, 9]) if is_cased else ([2, 1], [0, 2])
    expected = unit_rows(np.array([[1, 2], [0, 2], cat, [3, 1], last]))
    for encoder in (*clients("model"), load_model("glove:v.txt")):
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)
    tokens = FastEncoder.from_pretrained("model").model.tokenizer.get_vocab_size()
    assert tokens == 2 + n_rows + 2 * is_cased
    assert read_json(home / "model/st_static.json")["conversion"]["spellings"] == 2 * is_cased


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("a 1 2\nb 3\n", [], "v.txt, line 2: expected 2 numbers after the word, but got 1."),
        ("a 1 2\nb 3 70000\n", ["--dtype", "float16"], "too large for float16. Take float32."),
        ("a b 1 2\nc d 1 2\n", [], "No text is split into any of the 2 words of v.txt"),
        ("a 1 2\n", ["--limit", "0"], "limit must be at least 1, but got 0."),
        ("a 1 2\n", ["--license", "free"], "--license: Expected a license that the Hub knows"),
        ("a 1 2\n", ["--teacher", "gte"], "Expected the repository as ORG/NAME, but got 'gte'."),
        ("a 1 2\n", ["--language", "English"], "--language must be a BCP 47 tag"),
    ],
)
@pytest.mark.parametrize("is_there", [False, True])
def test_after_an_error_nothing_is_written(home, convert, content, options, says, is_there):
    def written():
        return sorted((str(path), path.stat().st_mtime_ns) for path in home.glob("model/**/*"))

    if is_there:
        convert()
    before = written()
    assert says in "".join(convert(content, *options, status=1)[1])
    assert written() == before
    assert sorted(path.name for path in home.iterdir()) == ["model"] * is_there + ["v.txt"]


def test_a_folder_of_something_else_is_not_written_over(home, capsys):
    (home / "v.txt").write_text(lines(), "utf-8")
    (home / "mine").mkdir()
    (home / "mine/notes.txt").write_text("Mine.")
    assert main(["convert", "v.txt", "mine"]) == 1
    assert "holds something that is not a model of st_static" in capsys.readouterr().err
    assert [path.name for path in (home / "mine").iterdir()] == ["notes.txt"]
    assert main(["convert", "v.txt", "v.txt"]) == 1
    assert (home / "v.txt").read_text("utf-8") == lines()


def test_a_model_is_replaced_and_what_lies_beside_it_stays(home, convert):
    convert()
    (home / "model/notes.txt").write_text("Mine.")
    convert(VECTORS, "--limit", "3")
    assert read_json(home / "model/st_static.json")["conversion"]["words"] == 3
    assert (home / "model/notes.txt").read_text() == "Mine."
