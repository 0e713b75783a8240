"""The card of converted text vectors: what the record says, no stages, and scores if given."""

import re

import pytest
from card_results import STS12_REVISION, write_result
from huggingface_hub import ModelCard

from st_static.cards import write_card
from st_static.cards.check_card import check_card
from st_static.cards.check_folder import UnfitFolderError, check_folder
from st_static.cards.plan_card import check_same_model
from st_static.cli import main
from st_static.evaluate.models import revision_of
from st_static.files import LOCK_FILE, locked_by, read_json, write_json
from st_static.model.card_file import NOTES_START
from st_static.model.model_folder import ModelFolder
from st_static.model.text_vectors import convert

SOURCE = {"teacher": "org/teacher", "license": "cc-by-4.0", "languages": ["en"]}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with the model `models/words`, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("read 1 0\nrows 0 1\nrains 1 1\nnew york 1 2\n")
    convert("v.txt", "models/words", limit=900, **SOURCE)
    return tmp_path


def card_of(home):
    return (home / "models/words/README.md").read_text("utf-8")


def test_a_card_says_what_the_record_says_and_is_ready_to_be_published(home):
    with pytest.raises(UnfitFolderError, match=r"There is no README\.md"):
        check_folder(ModelFolder.local("models/words"))
    assert main(["card", "models/words", "--hub_id", "org/words-2"]) == 0
    card = card_of(home)
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
    assert check_folder(ModelFolder.local("models/words"), repo_id="org/words-2")


def test_a_card_waits_for_another_process_that_writes_it(home, monkeypatch, capsys):
    """Else the figures of one might stand beside the text of the other."""
    monkeypatch.setattr(write_card, "PATIENCE", 0.1)
    with locked_by(home / "models/words" / LOCK_FILE, "it", 0):
        assert main(["card", "models/words"]) == 1
    assert "Another process is writing the card of models/words. Wait" in capsys.readouterr().err
    assert not (home / "models/words/README.md").exists()
    assert main(["card", "models/words"]) == 0
    assert not (home / "models/words" / LOCK_FILE).exists()


def test_a_card_says_which_entries_begin_sentences(home):
    (home / "v.txt").write_text("read 1 0\nUS 0 1\nrains 1 1\n")
    convert("v.txt", "models/words")
    assert main(["card", "models/words"]) == 0
    assert "3 words have a vector of 2 dimensions (float32). Capitals count" in card_of(home)
    assert "\n\n2 entries are also found with a first capital, as at the begin" in card_of(home)


def test_the_example_on_the_card_runs(home, capsys):
    assert main(["card", "models/words"]) == 0
    exec(re.search(r"```python\n(.*?)```", card_of(home), re.DOTALL)[1], {})
    assert "tensor(" in capsys.readouterr().out


def test_scores_and_notes_are_on_the_card(home):
    assert main(["card", "models/words"]) == 0
    noted = card_of(home).replace(NOTES_START, f"{NOTES_START}\nMind the gap.")
    (home / "models/words/README.md").write_text(noted, "utf-8")
    place = home / f"results/local__words/{revision_of('models/words')}"
    write_result(place, "STS12", STS12_REVISION, {"test": [("default", 0.612345)]})
    assert main(["card", "models/words", "--results", str(place), "--cards", "cards"]) == 0
    card = card_of(home)
    assert "Mind the gap." in card
    assert "| **words** | measured | 61.23 |" in card
    assert ModelCard(card).data.eval_results[0].metric_value == 0.612345
    assert check_card(card) == []
    facts = read_json(home / "cards/words.json")
    assert facts["record"]["conversion"]["file"] == "v.txt"
    check_same_model(home / "cards", "words", facts["record"], None)
    other = {"conversion": {"file": "w.txt", "dimension": 2}}
    with pytest.raises(ValueError, match=r"file v\.txt instead of w\.txt\. It would be"):
        check_same_model(home / "cards", "words", other, None)
    ensemble = {"ensemble": {"form": "exact", "members": []}}
    with pytest.raises(ValueError, match="that of text vectors, not of an ensemble"):
        check_same_model(home / "cards", "words", ensemble, None)


def test_without_a_licence_it_is_not_published(home):
    convert("v.txt", "models/words")
    assert main(["card", "models/words"]) == 0
    card = card_of(home)
    assert ModelCard(card).data.license == "unknown"
    assert "distilled" not in card
    with pytest.raises(UnfitFolderError, match="Convert again with --license LICENCE"):
        check_folder(ModelFolder.local("models/words"))


def test_terms_of_another_licence_belong_into_the_notes(home):
    convert("v.txt", "models/words", license="other")
    assert main(["card", "models/words"]) == 0
    with pytest.raises(UnfitFolderError, match="has the license other: write its terms"):
        check_folder(ModelFolder.local("models/words"))
    (home / "models/words/README.md").write_text(
        card_of(home).replace(NOTES_START, f"{NOTES_START}\nFor research."), "utf-8"
    )
    assert check_folder(ModelFolder.local("models/words"))


@pytest.mark.parametrize("key", ["license", "language", "base_model"])
def test_a_card_that_says_otherwise_is_told(home, key):
    assert main(["card", "models/words"]) == 0
    changed = {"license": "mit", "language": "de", "base_model": "org/other"}[key]
    card = re.sub(rf"(?m)^{key}: .*$", f"{key}: {changed}", card_of(home))
    (home / "models/words/README.md").write_text(card, "utf-8")
    with pytest.raises(UnfitFolderError, match=rf"says {key}: {changed}, but st_static\.json "):
        check_folder(ModelFolder.local("models/words"))


def test_a_card_of_another_conversion_is_told(home):
    assert main(["card", "models/words"]) == 0
    record = read_json(home / "models/words/st_static.json")
    record["conversion"]["teacher"] = None
    write_json(home / "models/words/st_static.json", record)
    with pytest.raises(UnfitFolderError, match="was written for another build"):
        check_folder(ModelFolder.local("models/words"))
