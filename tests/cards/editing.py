"""What tests change in a model's folder, and what then keeps it from being published."""

import json

import pytest

from st_static.cards.check_folder import UnfitFolderError, check_folder
from st_static.model.card_file import NOTES_START
from st_static.model.model_folder import ModelFolder


def card_of(model):
    """The text of a model's card."""
    return (model / "README.md").read_text("utf-8")


def replace_in(file, old, new):
    """Put another text in place of one that a file holds."""
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def add_notes(model, notes):
    """Write notes on a model's card, as a person does."""
    replace_in(model / "README.md", NOTES_START, f"{NOTES_START}\n{notes}")


def set_in(file, values):
    """Change values in a JSON file, each by its path, such as `recipe.export.license`."""
    content = json.loads(file.read_text("utf-8"))
    for path, value in values.items():
        *parents, last = (int(name) if name.isdigit() else name for name in path.split("."))
        place = content
        for name in parents:
            place = place[name]
        place[last] = value
    file.write_text(json.dumps(content), "utf-8")


def is_fit(model, repo_id=None, **options):
    """Whether a folder can be published; otherwise an error says why not."""
    return bool(check_folder(ModelFolder.local(model), repo_id, **options))


def problems_of(model, repo_id=None, **options):
    """What keeps a folder from being published, a problem each."""
    with pytest.raises(UnfitFolderError, match="cannot be published as it is") as caught:
        check_folder(ModelFolder.local(model), repo_id, **options)
    return str(caught.value).split("\n- ")[1:]
