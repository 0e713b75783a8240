"""The card of converted text vectors: what the record says, no stages, and scores if given."""

import re
from pathlib import Path

import pytest
from card_results import STS12_REVISION, write_result
from editing import add_notes, card_of, is_fit, problems_of, replace_in, set_in
from huggingface_hub import ModelCard

from st_static.cards import write_card
from st_static.cards.check_card import check_card
from st_static.cards.plan_card import check_same_model
from st_static.cli import main
from st_static.evaluate.models import revision_of
from st_static.files import LOCK_FILE, locked_by, read_json
from st_static.model.text_vectors import convert

SOURCE = {"teacher": "org/teacher", "license": "cc-by-4.0", "languages": ["en"]}


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A model, `models/words` in the folder in which the commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("read 1 0\nrows 0 1\nrains 1 1\nnew york 1 2\n")
    convert("v.txt", "models/words", limit=900, **SOURCE)
    return tmp_path / "models/words"


@pytest.fixture
def carded(words):
    """The model with its card."""
    assert main(["card", "models/words"]) == 0
    return words


def test_a_card_says_what_the_record_says_and_is_ready_to_be_published(words):
    assert "There is no README.md" in problems_of(words)[0]
    assert main(["card", "models/words", "--hub_id", "org/words-2"]) == 0
    card = card_of(words)
    data = ModelCard(card).data
    assert (data.base_model, data.license, data.language) == ("org/teacher", "cc-by-4.0", "en")
    assert "\n# words-2\n" in card
    assert "converted from the file `v.txt`" in card
    assert "those of the file in its first 900 rows, and were not trained further." in card
    assert "distilled from [org/teacher](https://huggingface.co/org/teacher)" in card
    assert "4 words have a vector of 2 dimensions (float32). Texts are lower-cased" in card
    assert "Punctuation has no vector." in card
    assert "Entries that are never found, because no text is split into them: 1." in card
    assert not re.search("stage|corpus|PCA|agreement|recipe", card)
    assert check_card(card) == []
    assert is_fit(words, "org/words-2")


def test_a_card_waits_for_another_process_that_writes_it(words, monkeypatch, capsys):
    """Else the figures of one might stand beside the text of the other."""
    monkeypatch.setattr(write_card, "PATIENCE", 0.1)
    with locked_by(words / LOCK_FILE, "it", 0):
        assert main(["card", "models/words"]) == 1
    assert "Another process is writing the card of models/words. Wait" in capsys.readouterr().err
    assert not (words / "README.md").exists()
    assert main(["card", "models/words"]) == 0
    assert not (words / LOCK_FILE).exists()


def test_a_card_says_which_entries_begin_sentences(words):
    Path("v.txt").write_text("read 1 0\nUS 0 1\nrains 1 1\n")
    convert("v.txt", "models/words")
    assert main(["card", "models/words"]) == 0
    assert "3 words have a vector of 2 dimensions (float32). Capitals count" in card_of(words)
    assert "\n\n2 entries are also found with a first capital, as at the begin" in card_of(words)


def test_the_example_on_the_card_runs(carded, capsys):
    exec(re.search(r"```python\n(.*?)```", card_of(carded), re.DOTALL)[1], {})
    assert "tensor(" in capsys.readouterr().out


def test_scores_and_notes_are_on_the_card(carded):
    add_notes(carded, "Mind the gap.")
    place = Path(f"results/local__words/{revision_of('models/words')}")
    write_result(place, "STS12", STS12_REVISION, {"test": [("default", 0.612345)]})
    assert main(["card", "models/words", "--results", str(place), "--cards", "cards"]) == 0
    card = card_of(carded)
    assert "Mind the gap." in card
    assert "| **words** | measured | 61.23 |" in card
    assert ModelCard(card).data.eval_results[0].metric_value == 0.612345
    assert check_card(card) == []
    facts = read_json(Path("cards/words.json"))
    assert facts["record"]["conversion"]["file"] == "v.txt"
    check_same_model(Path("cards"), "words", facts["record"], None)
    other = {"conversion": {"file": "w.txt", "dimension": 2}}
    with pytest.raises(ValueError, match=r"file v\.txt instead of w\.txt\. It would be"):
        check_same_model(Path("cards"), "words", other, None)
    ensemble = {"ensemble": {"form": "exact", "members": []}}
    with pytest.raises(ValueError, match="that of text vectors, not of an ensemble"):
        check_same_model(Path("cards"), "words", ensemble, None)


def test_without_a_licence_it_is_not_published(words):
    convert("v.txt", "models/words")
    assert main(["card", "models/words"]) == 0
    assert ModelCard(card_of(words)).data.license == "unknown"
    assert "distilled" not in card_of(words)
    assert "Convert again with --license LICENCE" in problems_of(words)[0]


def test_terms_of_another_licence_belong_into_the_notes(words):
    convert("v.txt", "models/words", license="other")
    assert main(["card", "models/words"]) == 0
    [problem] = problems_of(words)
    assert "has the license other: write its terms" in problem
    add_notes(words, "For research.")
    assert is_fit(words)


@pytest.mark.parametrize(
    ("stated", "changed"),
    [
        ("license: cc-by-4.0", "license: mit"),
        ("language: en", "language: de"),
        ("base_model: org/teacher", "base_model: org/other"),
    ],
)
def test_a_card_that_says_otherwise_is_told(carded, stated, changed):
    replace_in(carded / "README.md", stated, changed)
    assert f"says {changed}, but st_static.json " in problems_of(carded)[0]


def test_a_card_of_another_conversion_is_told(carded):
    set_in(carded / "st_static.json", {"conversion.teacher": None})
    assert "was written for another build" in " ".join(problems_of(carded))
