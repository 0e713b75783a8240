"""Probing: the classes of texts by hand, and encoders that see exactly one property."""

import lzma
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from small_build import generated_sentences

from st_static.evaluate.built_model import Student
from st_static.lab import probing
from st_static.lab.probing import make_tasks, probe, read_sentences
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import sentence_means
from st_static.tokens.fast_tokenizer import FastTokenizer

NOUNS = ["dog", "cat", "bird", "girl", "boy", "horse", "king", "queen", "cook", "nurse"]
ADVERBS = ["here", "now", "then", "so"]
PAST = ["walked", "jumped", "slept", "sang", "left", "stayed", "wept", "spoke", "fell", "rose"]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Of generated sentences, by name."""
    file = tmp_path_factory.mktemp("plain") / "texts.txt"
    file.write_text("\n".join(generated_sentences(1500)))
    return {task.name: task for task in make_tasks(file)}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """Tasks of tagged sentences, by name: numbers and tenses in all combinations."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(1200):
        noun, verb, place = rng.choice(NOUNS), rng.choice(PAST), rng.choice(NOUNS)
        is_plural, is_past = rng.integers(2, size=2)
        subject = f"{noun}s/nns" if is_plural else f"{noun}/nn"
        said = f"{verb}/vbd" if is_past else f"{verb}s/vbz"
        more = " ".join(f"{word}/rb" for word in rng.choice(ADVERBS, rng.integers(9)))
        lines.append(
            f"``/`` The/at-tl old/jj {subject} {said} {more} near/in the/at {place}/nn ./."
        )
    file = tmp_path_factory.mktemp("tagged") / "brown.txt.xz"
    file.write_bytes(lzma.compress("\n".join(lines).encode()))
    return {task.name: task for task in make_tasks(file)}


def static_model(texts, dimension=16):
    """A model with one stage: a random table of the texts' words."""
    words = sorted({word.strip(".").lower() for text in texts for word in text.split()})
    tokenizer = build_tokenizer(words)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(tokenizer.get_vocab_size(), dimension)).astype(np.float32)
    tokenize = FastTokenizer(tokenizer)
    student = Student("stage", "stage", lambda texts: sentence_means(table, tokenize(texts)))
    return SimpleNamespace(students=lambda: [student])


def test_word_order_is_exactly_at_chance_for_a_static_table(tasks):
    """It gives a sentence and its swapped one the same vector, so that one of two is found."""
    task = tasks["word order"]
    chance, row = probe(static_model(task.texts), {}, list(tasks.values())).to_dicts()
    assert chance == {
        **{"model": "chance", "sentence length": 50, "word order": 50},
        "word content": pytest.approx(100 / len(np.unique(tasks["word content"].labels))),
    }
    assert row["model"] == "stage"
    assert row["word order"] == 50
    # The same vectors do tell what words there are.
    assert row["word content"] > 3 * chance["word content"]


def test_word_order_is_found_by_an_encoder_that_sees_it(tasks):
    """A column for each pair of neighbours would need more texts, so this one looks them up."""
    task = tasks["word order"]
    neighbours = {
        pair
        for text, swapped in zip(task.texts, task.labels, strict=True)
        if not swapped
        for pair in zip(text.split(), text.split()[1:], strict=False)
    }

    def unseen(texts):
        """The number of pairs of neighbours that no sentence has as it was."""
        of = (zip(text.split(), text.split()[1:], strict=False) for text in texts)
        return np.array([[sum(pair not in neighbours for pair in pairs)] for pairs in of])

    assert task.accuracy(unseen) > 70


def test_two_neighbours_within_a_sentence_are_swapped(tasks):
    task = tasks["word order"]
    n = len(task.texts) // 2
    assert task.labels.tolist() == [0] * n + [1] * n
    for text, swapped in zip(task.texts[:n], task.texts[n:], strict=True):
        words, others = text.split(), swapped.split()
        first, second = (i for i, word in enumerate(words) if word != others[i])
        assert second == first + 1
        assert (words[first], words[second]) == (others[second], others[first])
        assert first > 0
        assert second < len(words) - 1  # behind the last word is a full stop
    assert task.is_held_out[:n].tolist() == task.is_held_out[n:].tolist()


def test_classes_have_equally_many_texts_and_a_fourth_is_held_out(tasks, tagged):
    for task in [*tasks.values(), *tagged.values()]:
        assert len(set(Counter(task.labels.tolist()).values())) == 1
        assert task.chance == pytest.approx(100 / len(set(task.labels)))
        assert task.is_held_out.mean() == pytest.approx(0.25, abs=0.06)


def test_lengths_are_those_of_sentevals_ranges(tasks):
    task = tasks["sentence length"]
    assert (
        len({*zip(task.labels, (len(text.split()) > 8 for text in task.texts), strict=True)}) == 2
    )
    assert {len(text.split()) for text in task.texts} == set(range(5, 13))
    one_hot = np.eye(29)
    assert task.accuracy(lambda texts: one_hot[[len(text.split()) for text in texts]]) == 100
    rng = np.random.default_rng(0)
    # A classifier that had seen the held-out texts would be far better with so many dimensions.
    noise = task.accuracy(lambda texts: rng.normal(size=(len(texts), 200)))
    assert noise == pytest.approx(50, abs=8)


def test_one_of_the_words_is_in_each_sentence(tasks):
    task = tasks["word content"]
    of = [set(text.lower().rstrip(".").split()) for text in task.texts]
    targets = {}
    for label in np.unique(task.labels):
        common = set.intersection(*(of[i] for i in np.flatnonzero(task.labels == label)))
        [targets[label]] = common - set(targets.values())
    for words, label in zip(of, task.labels, strict=True):
        assert words & set(targets.values()) == {targets[label]}


def test_the_tasks_of_tagged_text(tagged):
    assert list(tagged) == [
        *("sentence length", "word content", "word order", "tense", "subject number", "odd word")
    ]
    # Properties that only one class has, and forms that are learnt from or held out, not both.
    for name, place, properties in (("tense", 3, PAST), ("subject number", 2, NOUNS)):
        task = tagged[name]
        words = np.array([text.split()[place] for text in task.texts])
        assert len({*zip(task.labels, np.isin(words, properties), strict=True)}) == 2
        assert not {*words[task.is_held_out]} & {*words[~task.is_held_out]}


TAGGED = {
    # A sentence, its tense, and the number of its subject, if both are clear.
    "The/at dogs/nns that/wps I/ppss saw/vbd ran/vbd home/nr ./.": (None, None),
    "The/at jury/nn said/vbd it/pps was/bedz late/jj ,/, too/ql ./.": (None, "singular"),
    "His/pp$ two/cd dogs/nns bark/vb at/in night/nn now/rb ./.": (None, "plural"),
    "The/at city's/nn$ parks/nns close/vb ,/, he/pps says/vbz ./.": ("present", "plural"),
    "She/pps says/vbz that/cs he/pps came/vbd here/rb ./.": (None, None),
    "She/pps says/vbz that/cs he/pps can/md go/vb ./.": (None, None),
    "He/pps is/bez here/rb and/cc says/vbz nothing/pn ./.": (None, None),
    "She/pps says/vbz that/cs he/pps isn't/bez* here/rb ./.": (None, None),
    "She/pps says/vbz it's/pps+bez late/jj and/cc dark/jj ./.": (None, None),
    "In/in town/nn the/at dogs/nns barked/vbd all/abn night/nn ./.": ("past", None),
    "County/nn-tl judges/nns-tl were/bed in/in the/at house/nn ./.": (None, "plural"),
}


@pytest.mark.parametrize(("line", "expected"), TAGGED.items())
def test_tense_and_number_of_a_sentence(tmp_path, line, expected):
    (tmp_path / "tagged.txt").write_text(line)
    sentences = read_sentences(tmp_path / "tagged.txt")
    assert len(sentences) == 1
    found = tuple(
        next(iter(classes), None)
        for classes in (probing._by_tense(sentences), probing._by_subject(sentences))
    )
    assert found == expected


def test_texts_of_tagged_sentences(tmp_path):
    (tmp_path / "tagged.txt").write_text(
        "``/`` Yes/rb ,/, 1/2/cd of/in them/ppo ''/'' ,/, he/pps said/vbd ./."
    )
    [sentence] = read_sentences(tmp_path / "tagged.txt")
    assert sentence.text == "Yes, 1/2 of them, he said."
    (tmp_path / "plain.txt").write_text("One and/or two of them came.\n\nToo short.\n" + "a " * 29)
    [sentence] = read_sentences(tmp_path / "plain.txt")
    assert sentence == ("One and/or two of them came.", ())


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["Not enough of them here."],
            r"probe of sentence length .* of the 1 lines .* only 0 came",
        ),
        (
            [f"w{i} is one of them all" for i in range(50)],
            "probe of sentence length .* only 1 came",
        ),
        ([""], "of the 0 lines of 5 to 28 words only 0 came"),
    ],
)
def test_a_text_that_is_too_short(tmp_path, lines, says):
    (tmp_path / "file.txt").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=says):
        make_tasks(tmp_path / "file.txt")


OBJECTS = {
    "The/at cat/nn ate/vbd two/cd old/jj fish/nns ./.": "plural",
    "She/pps reads/vbz his/pp$ long/jj letter/nn today/nr ./.": None,
    "She/pps reads/vbz his/pp$ long/jj letter/nn ./.": "singular",
    "She/pps reads/vbz his/pp$ letter/nn files/nns now/rb ./.": "plural",
    "She/pps slept/vbd in/in the/at old/jj house/nn ./.": None,
    "He/pps saw/vbd cats/nns and/cc heard/vbd dogs/nns ./.": None,
    "They/ppss want/vb to/to see/vb the/at house/nn ./.": None,
}


@pytest.mark.parametrize(("line", "number"), OBJECTS.items())
def test_number_of_the_only_object(tmp_path, line, number):
    (tmp_path / "tagged.txt").write_text(line)
    [*found] = probing._by_object(read_sentences(tmp_path / "tagged.txt"))
    assert found == ([number] if number else [])


CLAUSES = {
    "The/at dog/nn barked/vbd ,/, and/cc the/at cats/nns ran/vbd off/rp ./.": (
        "The cats ran off, and the dog barked."
    ),
    "I/ppss saw/vbd Rome/np ,/, but/cc he/pps can/md stay/vb ./.": ("He can stay, but I saw Rome."),
    "Anna/np came/vbd at/in six/cd ,/, or/cc they/ppss were/bed late/jj !/.": (
        "They were late, or Anna came at six!"
    ),
    "The/at dog/nn barked/vbd ,/, and/cc ran/vbd off/rp ./.": None,
    "The/at dog/nn and/cc the/at cats/nns ran/vbd off/rp ./.": None,
    "But/cc the/at dog/nn barked/vbd at/in him/ppo ./.": None,
    "It/pps rained/vbd ,/, and/cc he/pps slept/vbd ,/, but/cc she/pps left/vbd ./.": None,
}


@pytest.mark.parametrize(("line", "changed"), CLAUSES.items())
def test_two_clauses_change_places(tmp_path, line, changed):
    (tmp_path / "tagged.txt").write_text(line)
    [sentence] = read_sentences(tmp_path / "tagged.txt")
    classes = probing._by_clauses([sentence])
    pair = [(sentence.text, sentence.text)], [(changed, sentence.text)]
    assert (classes["as it was"], classes["changed"]) == (pair if changed else ([], []))


def test_a_word_is_replaced_by_one_of_its_form(tagged):
    task = tagged["odd word"]
    n = len(task.texts) // 2
    forms = {
        **dict.fromkeys(NOUNS, "singular"),
        **dict.fromkeys((f"{noun}s" for noun in NOUNS), "plural"),
        **dict.fromkeys(PAST, "past"),
        **dict.fromkeys((f"{verb}s" for verb in PAST), "present"),
    }
    replaced = Counter()
    for text, odd in zip(task.texts[:n], task.texts[n:], strict=True):
        pairs = zip(*(of.rstrip(".").split() for of in (text, odd)), strict=True)
        [(one, other)] = [pair for pair in pairs if pair[0] != pair[1]]
        assert forms[one] == forms[other]
        replaced[forms[one]] += 1
    assert set(replaced) == set(forms.values())


SPLIT = "tr\ta\tOne .\ntr\tb\tTwo .\n\nva\tc\tThree .\nte\tb\tFour , five .\nte\ta\tSix .\n"


def test_files_of_senteval_keep_their_splits(tmp_path):
    (tmp_path / "tree_depth.txt").write_text(SPLIT)
    (tmp_path / "odd_man_out.txt.xz").write_bytes(lzma.compress(SPLIT.encode()))
    files = [tmp_path / "tree_depth.txt", tmp_path / "odd_man_out.txt.xz"]
    first, second = probing.read_tasks(files)
    assert (first.name, second.name) == ("tree_depth", "odd_man_out")
    assert first.texts == second.texts == ["One .", "Two .", "Four , five .", "Six ."]
    assert first.labels.tolist() == [0, 1, 1, 0]
    assert first.is_held_out.tolist() == [False, False, True, True]
    assert first.chance == 50
    with pytest.raises(ValueError, match="Two files give the probe tree_depth"):
        probing.read_tasks([files[0], files[0]])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (SPLIT + "dev\ta\tSeven .", "line 7: expected tr, va or te, a label and a sentence"),
        (SPLIT + "te\ta", "line 7: expected tr, va or te"),
        (SPLIT + "te\t\tSeven .", "line 7: expected tr, va or te"),
        (SPLIT + "te\tc\tSeven .", "of 3 labels 2 are in tr, and 3 lines are of te"),
        ("tr\ta\tOne .\ntr\tb\tTwo .", "of 2 labels 2 are in tr, and 0 lines are of te"),
    ],
)
def test_files_with_a_split_that_cannot_be_learnt(tmp_path, lines, says):
    (tmp_path / "tense.txt").write_text(lines)
    with pytest.raises(ValueError, match=says):
        make_tasks(tmp_path / "tense.txt")


def test_a_probe_of_tags_without_sentences_is_left_out_aloud(tmp_path, caplog):
    """Those of any text are errors instead."""
    rng = np.random.default_rng(0)
    lines = [
        " ".join(f"{word}/nn" for word in rng.choice(NOUNS, rng.integers(5, 13)))
        for _ in range(400)
    ]
    (tmp_path / "tagged.txt").write_text("\n".join(lines))
    names = [task.name for task in make_tasks(tmp_path / "tagged.txt")]
    assert names == ["sentence length", "word content", "word order", "odd word"]
    assert "the probe of order of clauses needs two classes of 20 sentences" in caplog.text
    assert caplog.text.count("It is left out.") == 4
