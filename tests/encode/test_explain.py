"""A similarity in parts: they add up to what sentence-transformers says; every word is shown."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from small_build import WORDS

from st_static.cli import main
from st_static.commands.explain import largest_table
from st_static.encode.explain import Explanation, Word, explain, split_into_words
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.static_model import StaticModel
from st_static.model.table import Int8Table
from st_static.model.tokenizer import Normalization, build_piece_tokenizer, build_tokenizer

ANY_TEXT = st.text(max_size=60)
OF_WORDS = st.lists(st.sampled_from([*WORDS, "Baba,", "xbaz", "北", "[UNK]"]), max_size=20)
TEXTS = st.one_of(ANY_TEXT, OF_WORDS.map(" ".join))


@pytest.fixture(scope="module")
def model(built):
    return read_static_model(built / "model")


@pytest.fixture(scope="module")
def sentence_transformer(built):
    return SentenceTransformer(str(built / "model"), device="cpu")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=TEXTS, second=TEXTS)
def test_the_shares_add_up_to_the_models_similarity(model, sentence_transformer, first, second):
    vectors = sentence_transformer.encode([first, second], show_progress_bar=False)
    expected = float(sentence_transformer.similarity(vectors[:1], vectors[1:]))
    explanation = explain(model, first, second)
    assert explanation.contributions.sum() == pytest.approx(expected, abs=1e-6)
    assert explanation.of_known_words().similarity == pytest.approx(expected, abs=1e-6)


def test_a_pairs_share_is_the_product_of_its_words(model):
    explanation = explain(model, "Baba bade", "figo")
    first, second, other = (
        model.table[model.tokenizer.token_to_id(word)] for word in ("baba", "bade", "figo")
    )
    lengths = np.linalg.norm(first + second) * np.linalg.norm(other)
    np.testing.assert_allclose(
        explanation.contributions[:, 0], [first @ other / lengths, second @ other / lengths], 1e-5
    )


def test_every_word_says_what_it_became(model):
    explanation = explain(model, "Baba, bababa 北!", "")
    became = {word.text: word.became for word in explanation.first}
    assert became == {
        "bababa": "baba ##b ##a",
        "Baba": "",
        ",": "no vector",
        "北": "unknown: no vector",
        "!": "no vector",
    }
    assert explanation.similarity == 0


def test_a_word_that_is_spelled_by_pieces_says_all_of_them():
    tokenizer = build_tokenizer(["baba"], ["##ba", "##b"])
    table = np.ones((tokenizer.get_vocab_size(), 2), np.float32)
    pieces = explain(StaticModel(tokenizer, table, True), "bababab", "baba")
    assert [word.became for word in pieces.first] == ["baba ##ba ##b"]


def test_the_command_prints_the_table_and_draws_it(built, tmp_path, capsys):
    figure = tmp_path / "pair.svg"
    arguments = ["explain", str(built / "model"), "Baba [bold] bade", "figo 北 bababa"]
    assert main([*arguments, "--figure", str(figure)]) == 0
    printed = capsys.readouterr().out
    model = read_static_model(built / "model")
    explanation = explain(model, *arguments[2:])
    assert f"cosine: {explanation.similarity:.6f}" in printed
    assert "北 → unknown: no vector" in printed
    assert "bababa → baba ##b ##a\n" in printed
    for share in explanation.of_known_words().contributions.flat:
        assert f"{share:+.3f}" in printed
    assert "<svg" in figure.read_text("utf-8")


def test_the_largest_shares_of_long_texts_are_a_list(built, capsys):
    first, second = "baba bade bade figo", "bade baba dogo bade 北"
    assert main(["explain", str(built / "model"), first, second, "--top", "3"]) == 0
    printed = capsys.readouterr().out
    explanation = explain(read_static_model(built / "model"), first, second)
    shares = Counter()
    for i, one in enumerate(explanation.first):
        for j, other in enumerate(explanation.second):
            if one.known and other.known:
                shares[one.text, other.text] += explanation.contributions[i, j]
    largest = sorted(shares, key=lambda pair: -abs(shares[pair]))[:3]
    rest = explanation.similarity - sum(shares[pair] for pair in largest)
    rows = [line.strip("│┃ ").split("│") for line in printed.splitlines() if "│" in line]
    found = [tuple(cell.strip() for cell in row) for row in rows]
    expected = [(one, other, f"{shares[one, other]:+.3f}") for one, other in largest]
    assert found == [*expected, (f"{len(shares) - 3} other pairs", "", f"{rest:+.3f}")]
    assert f"cosine: {explanation.similarity:.6f}" in printed


def test_pairs_come_the_largest_first_and_equal_ones_are_one():
    first = [Word(text, [text], [2], True, 0) for text in ("a", "b", "a")]
    shares = np.array([[0.1], [-0.5], [0.2]])
    pairs = Explanation(first, first[1:2], shares).pairs()
    assert [pair[:2] for pair in pairs] == [("b", "b"), ("a", "b")]
    assert [pair.share for pair in pairs] == pytest.approx([-0.5, 0.3])


def test_a_table_in_int8_is_not_restored_as_a_whole(model, monkeypatch):
    stored = replace(model, table=Int8Table.of(np.asarray(model.table)))
    texts = "Baba, bababa 北!", "bade figo"
    expected = explain(replace(stored, table=np.asarray(stored.table)), *texts)
    monkeypatch.delattr(Int8Table, "__array__")
    found = explain(stored, *texts)
    np.testing.assert_allclose(found.contributions, expected.contributions, rtol=1e-6)
    assert found.first == expected.first
    assert explain(stored, "", "baba").similarity == 0


def test_shares_that_round_to_zero_have_no_sign():
    words = [Word(text, [text], [2], True, 0) for text in ("one", "two")]
    explanation = Explanation(words[:1], words, np.array([[-0.0004, 0.5]]))
    assert list(largest_table(explanation, 2).columns[2].cells) == ["+0.500", "0.000"]


def test_all_pairs_leave_no_others(built, capsys):
    assert main(["explain", str(built / "model"), "baba", "bade", "--top", "99"]) == 0
    printed = capsys.readouterr().out
    assert "other pair" not in printed
    assert printed.count("baba") == printed.count("bade") == 1


def test_a_text_without_a_known_word_gets_a_sentence_instead_of_an_empty_table(built, capsys):
    assert main(["explain", str(built / "model"), "北", "baba"]) == 0
    printed = capsys.readouterr().out
    assert "no known word" in printed
    assert "sum" not in printed
    assert "cosine: 0.000000" in printed
    assert "北 → unknown: no vector" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_folder/", "a", "b"], "no_such_folder"),
        (["MODEL", "baba", "北", "--figure", "x.png"], "no known word"),
        (["MODEL", "baba", "bade", "--top", "0"], "--top is a number of pairs, at least 1"),
    ],
)
def test_errors_that_the_user_can_mend(built, arguments, message, capsys):
    arguments = [str(built / "model") if a == "MODEL" else a for a in arguments]
    assert main(["explain", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_figure_of_an_unknown_format_is_refused_before_anything_is_done(capsys):
    arguments = ["explain", "no_such_folder/", "baba", "bade", "--figure", "x.bmp"]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert "end with .svg, .pdf, .png, but got x.bmp" in printed.err
    assert printed.out == ""


PIECES = ["▁", "▁token", "iza", "tion", "▁csv", "ファイル", "を", "読む", "犬", "行", "ไทย"]


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["as ours", "a beginning with a vector"])
def model_of_pieces(request):
    """A model of pieces; the beginning of a word alone has no vector in ours."""
    tokenizer = build_piece_tokenizer([(piece, -5.0) for piece in PIECES], Normalization())
    table = np.random.default_rng(0).normal(size=(len(PIECES) + 2, 8)).astype(np.float32)
    table[:2], table[2] = 0, request.param
    return StaticModel(tokenizer, table, normalize=True)


OF_PIECES = st.lists(st.sampled_from([*PIECES, " ", "、", "猫", "Tokenization", "が"]), max_size=12)


@settings(max_examples=100, deadline=None)
@given(first=st.one_of(ANY_TEXT, OF_PIECES.map("".join)), second=OF_PIECES.map("".join))
def test_shares_of_pieces_add_up_to_the_similarity(model_of_pieces, first, second):
    tokenizer, table = model_of_pieces.tokenizer, model_of_pieces.table.astype(np.float64)
    sums = [table[tokenizer.encode(text).ids].sum(axis=0) for text in (first, second)]
    lengths = np.linalg.norm(sums[0]) * np.linalg.norm(sums[1])
    expected = sums[0] @ sums[1] / lengths if lengths else 0
    assert explain(model_of_pieces, first, second).similarity == pytest.approx(expected, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(text=st.one_of(ANY_TEXT, OF_PIECES.map("".join), TEXTS))
def test_words_are_where_they_begin(model, model_of_pieces, text):
    for of in (model, model_of_pieces):
        for word in split_into_words(of, text):
            assert text[word.begin :].startswith(word.text)
            assert word.text == word.text.strip()


def test_each_piece_of_a_script_without_spaces_is_a_word():
    tokenizer = build_piece_tokenizer([(piece, -5.0) for piece in PIECES], Normalization())
    table = np.ones((len(PIECES) + 2, 2), np.float32)
    table[:3] = 0
    model = StaticModel(tokenizer, table, normalize=True)
    words = explain(model, "CSVファイルを読む猫。 Tokenizationไทย", "").first
    assert [(word.text, word.became) for word in words] == [
        *(("CSV", ""), ("ファイル", ""), ("を", ""), ("読む", "")),
        *(("猫", "unknown: no vector"), ("。", "no vector")),
        *(("Tokenization", "▁token iza tion"), ("ไทย", "")),
    ]


@pytest.fixture(scope="module")
def with_head(built, tmp_path_factory):
    """The built model with a head: many hidden units, so that words switch some on and off."""
    folder = tmp_path_factory.mktemp("explain") / "model"
    model, rng = read_static_model(built / "model"), np.random.default_rng(0)
    width = model.table.shape[1]
    first = rng.normal(size=(20, width)).astype(np.float32)
    head = Head(first, rng.normal(size=(width, 20)).astype(np.float32) / 4)
    export_model(folder, model.table, model.tokenizer, {}, head=head)
    return folder


@pytest.fixture(scope="module")
def cosine_of(with_head):
    """The cosine of two texts in sentence-transformers, of all or the first dimensions."""
    model = SentenceTransformer(str(with_head), device="cpu")

    def cosine(first, second, width=None):
        vectors = model.encode([first, second], show_progress_bar=False, truncate_dim=width)
        return float(model.similarity(vectors[:1], vectors[1:]))

    return cosine


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=TEXTS, second=TEXTS, width=st.sampled_from([None, 5]))
def test_behind_a_head_shares_add_up_to_the_similarity(with_head, cosine_of, first, second, width):
    model = replace(read_static_model(with_head), truncate_dim=width)
    explanation = explain(model, first, second)
    expected = cosine_of(first, second, width)
    assert explanation.contributions.sum() == pytest.approx(expected, abs=1e-5)
    assert explanation.of_known_words().similarity == pytest.approx(expected, abs=1e-5)


def test_behind_a_head_a_pairs_share_is_the_product_of_its_words_through_both_texts(with_head):
    model = read_static_model(with_head)
    texts = ["baba", "bade"], ["figo"]
    sides = []
    for words in texts:
        rows = [model.table[model.tokenizer.token_to_id(w)].astype(np.float64) for w in words]
        mask = np.diag((model.head.first @ sum(rows) > 0).astype(np.float64))
        through = np.eye(len(rows[0])) + model.head.second @ mask @ model.head.first
        vectors = np.array([through @ row for row in rows])
        sides.append(vectors / np.linalg.norm(vectors.sum(axis=0)))
        assert 0 < mask.sum() < 20
    explanation = explain(model, *map(" ".join, texts))
    np.testing.assert_allclose(explanation.contributions, sides[0] @ sides[1].T, rtol=1e-5)


KNOWN = st.lists(st.sampled_from([*WORDS[:20], "北"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=KNOWN, second=KNOWN, width=st.sampled_from([None, 5]))
def test_a_word_left_out_is_a_text_without_it(with_head, cosine_of, first, second, width):
    model = replace(read_static_model(with_head), truncate_dim=width)
    explanation = explain(model, " ".join(first), " ".join(second))
    whole = cosine_of(" ".join(first), " ".join(second), width)
    for words, other, falls in (
        (first, second, explanation.left_out[0]),
        (second, first, explanation.left_out[1]),
    ):
        expected = [
            whole - cosine_of(" ".join(words[:i] + words[i + 1 :]), " ".join(other), width)
            for i in range(len(words))
        ]
        np.testing.assert_allclose(falls, expected, atol=1e-5)


def test_without_a_head_nothing_is_left_out(built, model, capsys):
    assert explain(model, "baba", "bade").left_out is None
    for top in ([], ["--top", "2"]):
        assert main(["explain", str(built / "model"), "baba", "bade", *top]) == 0
        printed = capsys.readouterr().out
        assert "left out" not in printed
        assert "head" not in printed


def rows_of(printed):
    lines = [line.strip("│") for line in printed.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")] for line in lines]


def written(share):
    return "0.000" if abs(share) < 0.0005 else f"{share:+.3f}"


def test_the_command_says_what_a_share_means_behind_a_head(with_head, capsys, tmp_path):
    first, second = "baba, bade 北", "figo bade figo"
    figure = tmp_path / "pair.svg"
    assert main(["explain", str(with_head), first, second, "--figure", str(figure)]) == 0
    printed = capsys.readouterr().out
    shown = explain(read_static_model(with_head), first, second).of_known_words()
    falls = [[written(fall) for fall in side] for side in shown.left_out]
    assert rows_of(printed) == [
        *(
            [word.text, *map(written, [*row, row.sum()]), fall]
            for word, row, fall in zip(shown.first, shown.contributions, falls[0], strict=True)
        ),
        ["sum", *map(written, [*shown.contributions.sum(axis=0), shown.similarity]), ""],
        ["left out", *falls[1], "", ""],
    ]
    said = " ".join(printed.split())
    assert "hold for these two texts only" in said
    assert "how much the cosine falls when the word is left out of its text" in said
    assert f"cosine: {shown.similarity:.6f}" in said
    assert f"{shown.similarity:.3f} = the sum of all shares" in figure.read_text("utf-8")


def test_long_texts_list_the_words_that_change_most_when_left_out(with_head, capsys):
    first, second = "baba bade bade figo", "bade baba dogo"
    assert main(["explain", str(with_head), first, second, "--top", "3"]) == 0
    printed = capsys.readouterr().out
    explanation = explain(read_static_model(with_head), first, second)
    sides = zip(("first", "second"), (explanation.first, explanation.second), strict=True)
    falls = {
        (name, word.text): fall
        for (name, words), side in zip(sides, explanation.left_out, strict=True)
        for word, fall in zip(words, side, strict=True)
    }
    largest = sorted(falls, key=lambda key: -abs(falls[key]))[:3]
    assert rows_of(printed)[-3:] == [[*key, f"{falls[key]:+.3f}"] for key in largest]
    assert "hold for these two texts only" in " ".join(printed.split())
    assert main(["explain", str(with_head), first, second, "--top", "99"]) == 0
    rows = [row for row in rows_of(capsys.readouterr().out) if row[0] in ("first", "second")]
    assert sorted(tuple(row[:2]) for row in rows) == sorted(falls)  # a repeated word comes once


def test_a_wide_table_behind_a_head_comes_in_parts(with_head, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["explain", str(with_head), "baba a", " ".join(WORDS[:20])]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in WORDS[:20])
    assert max(map(len, printed.splitlines())) <= 60
    *_, header = [line for line in printed.splitlines() if line.startswith("┃")]
    assert [cell.strip() for cell in header.split("┃")][-3:-1] == ["sum", "left out"]


@pytest.mark.parametrize("program", [["-m", "st_static.cli"], None], ids=["module", "script"])
def test_texts_and_names_are_utf8_where_python_takes_them_for_ascii(tmp_path, program):
    words = build_tokenizer(["größe", "tiefe"])
    export_model(tmp_path / "wörter", np.eye(len(words.get_vocab()), dtype=np.float32), words, {})
    command = program or [str(Path(sys.executable).with_name("st-static"))]
    process = subprocess.run(
        [sys.executable, *command, "explain", str(tmp_path / "wörter"), "Größe", "größe"],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert "Größe" in process.stdout
    assert "cosine: 1.000000" in process.stdout


def test_a_text_that_is_not_utf8_is_refused_in_a_sentence(built, capsys):
    assert main(["explain", str(built / "model"), os.fsdecode(b"Gr\xf6\xdfe"), "baba"]) == 1
    assert capsys.readouterr().err.startswith("Error: Expected two texts in UTF-8")
