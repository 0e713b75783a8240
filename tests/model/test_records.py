"""What a model's folder says in JSON: what is written is what is read."""

import json
import re

import msgspec
import pytest

from st_static.distill.config import BuildConfig, CorpusConfig, SelectionConfig
from st_static.distill.teacher_config import TeacherConfig, WeightedTeacher
from st_static.files import write_json
from st_static.model.model_folder import ModelFolder
from st_static.model.records import Ensemble, Member, Recipe, Record

TEACHERS = [WeightedTeacher(model="org/a"), WeightedTeacher(model="org/b", weight=2.0)]
ENSEMBLE = Ensemble("exact", [Member("a", None, 2, 1.0, ("en",)), Member("b", "mit", 3, 0.5)])


@pytest.mark.parametrize(
    ("teachers", "names"),
    [
        ({"teacher": TeacherConfig("org/a")}, ["org/a"]),
        ({"teachers": TEACHERS}, ["org/a", "org/b"]),
    ],
)
def test_a_recipe_has_what_is_read_of_it(teachers, names):
    corpus, selection = CorpusConfig(files="*.txt"), SelectionConfig(sentences_per_word=7)
    config = BuildConfig(corpus=corpus, selection=selection, language=["de", "en"], **teachers)
    read = msgspec.convert(config.recipe(), Recipe)
    assert [teacher.model for teacher in read.teachers or [read.teacher]] == names
    found = read.corpus.files, read.selection.sentences_per_word, read.pca.n_components
    assert found == (["*.txt"], 7, config.pca.n_components)
    assert read.language == ["de", "en"]


def test_a_record_has_no_key_for_what_was_not_made(tmp_path):
    write_json(tmp_path / "st_static.json", Record(ensemble=ENSEMBLE, versions={"st-static": "0"}))
    members = [
        {"name": "a", "license": None, "width": 2, "weight": 1.0, "languages": ["en"]},
        {"name": "b", "license": "mit", "width": 3, "weight": 0.5, "languages": []},
    ]
    expected = {"ensemble": {"form": "exact", "members": members}, "versions": {"st-static": "0"}}
    # With its keys in this order.
    written = (tmp_path / "st_static.json").read_text("utf-8")
    assert written == json.dumps(expected, indent=2) + "\n"
    assert ModelFolder(tmp_path).whole_record() == expected


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"ensemble": {"form": "exact"}}, "missing required field `members` at `ensemble`"),
        ({"ensemble": {"form": "other", "members": []}}, "'other' at `ensemble.form`"),
        ({"fine_tuning": {"tags": [1]}}, "expected `str`, got `int` at `fine_tuning.tags["),
        ({"recipe": None}, "names no recipe"),
    ],
)
def test_a_record_without_what_a_card_needs_is_refused(tmp_path, record, says):
    write_json(tmp_path / "st_static.json", record)
    with pytest.raises(ValueError, match=re.escape(says)):
        ModelFolder(tmp_path).whole_record()


@pytest.mark.parametrize("part", ["stages", "versions"])
def test_a_recipe_stands_beside_its_stages_and_versions(tmp_path, part):
    record = json.loads(
        (ModelFolder.of("st-static/english-384").path / "st_static.json").read_text("utf-8")
    )
    write_json(tmp_path / "st_static.json", record)
    assert ModelFolder(tmp_path).whole_record() == record
    del record[part]
    write_json(tmp_path / "st_static.json", record)
    assert ModelFolder(tmp_path).record == record
    with pytest.raises(ValueError, match=rf"st_static\.json .* missing required field `{part}`"):
        ModelFolder(tmp_path).whole_record()
