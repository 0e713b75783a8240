"""A router of queries and documents: its card, and what keeps it from being published."""

import json
import re
import shutil

import numpy as np
import pytest
from editing import add_notes, card_of, is_fit, problems_of, set_in
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

from st_static.cards.publish import load_fresh
from st_static.cli import main
from st_static.distill.router import write_router
from st_static.distill.teacher_config import TeacherConfig
from st_static.evaluate.models import revision_of

TEXTS = ["baba bade figo", "kuku"]


@pytest.fixture(scope="module")
def written(built, tmp_path_factory):
    """A router with its card; not to be changed."""
    folder = tmp_path_factory.mktemp("routers") / "ours"
    record = json.loads((built / "model" / "st_static.json").read_text())
    teacher = built / "teacher" / record["recipe"]["teacher"]["model"]
    record["recipe"]["teacher"] |= {"hub_id": "org/teacher", "license": "mit"}
    record["recipe"]["export"]["license"] = "apache-2.0"
    record["recipe"]["corpus"] |= {"description": "sentences of syllables", "license": "cc0-1.0"}
    write_router(folder, built / "model", TeacherConfig(model=str(teacher)), record)
    assert main(["card", str(folder), "--hub_id", "org/ours"]) == 0
    return folder


@pytest.fixture
def router(written, tmp_path):
    return shutil.copytree(written, tmp_path / "ours")


def write_card(router):
    """Write its card; give the text, without the model's hash."""
    assert main(["card", str(router), "--hub_id", "org/ours"]) == 0
    return re.sub("model=[0-9a-f]+", "", card_of(router))


def change(router, values):
    """Change its recipe, and write its card again; give the text."""
    values = {f"recipe.{path}": value for path, value in values.items()}
    set_in(router / "st_static_router.json", values)
    return write_card(router)


def test_it_has_a_card_and_is_fit_with_the_vectors_of_both(router, built, capsys):
    assert main(["publish", str(router), "org/ours", "--dry_run"]) == 0
    listed = capsys.readouterr().out
    files = [path for path in router.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert all(path.relative_to(router).as_posix() in listed for path in files)
    model = SentenceTransformer(str(router), device="cpu")
    both = np.hstack([model.encode_query(TEXTS), model.encode_document(TEXTS)])
    np.testing.assert_allclose(load_fresh(str(router), TEXTS), both, atol=1e-5)
    card = card_of(router)
    assert f"`{(built / 'model').name}`" in card
    assert 'SentenceTransformer("org/ours")' in card
    assert "[org/teacher](https://huggingface.co/org/teacher)" in card
    assert "license: other\n" in card  # that of the parts differs
    assert "| documents | a copy of [org/teacher]" in card
    assert "in float32 | mit |" in card
    assert "from sentences of syllables (cc0-1.0) | apache-2.0 |" in card


def test_parts_of_one_licence_have_that_of_the_whole(router):
    assert "\nlicense: apache-2.0\n" in change(router, {"teacher.license": "apache-2.0"})
    assert is_fit(router, "org/ours")


@pytest.mark.parametrize("license_id", [None, "unknown"])
@pytest.mark.parametrize("section", ["teacher", "export"])
def test_a_part_without_a_licence_keeps_it_back(router, section, license_id):
    change(router, {f"{section}.license": license_id})
    assert f"is not recorded. Build again with --{section}.license" in " ".join(
        problems_of(router, "org/ours")
    )


def test_a_list_of_one_teacher_is_that_teacher(router):
    before, file = write_card(router), router / "st_static_router.json"
    recipe = json.loads(file.read_text())["recipe"]
    recipe["teachers"] = [{**recipe.pop("teacher"), "weight": 1.0}]
    set_in(file, {"recipe": recipe})
    assert write_card(router) == before
    assert is_fit(router, "org/ours")
    change(router, {"teachers.0.license": None})
    said = "again with license: LICENCE in the recipe's teachers[0] and --export.router"
    assert said in " ".join(problems_of(router, "org/ours"))


def test_terms_of_a_part_are_written_by_hand(router):
    change(router, {"teacher.license": "other"})
    [problem] = problems_of(router, "org/ours")
    assert "write its terms between README.md's two markers" in problem
    add_notes(router, "Terms.")
    assert is_fit(router, "org/ours")


def test_the_card_tells_of_a_head_of_code_and_of_restrictions(router):
    teacher = {"teacher.trust_remote_code": True, "teacher.license": "cc-by-nc-4.0"}
    card = change(router, {"distillation.head": 8, **teacher})
    assert "plus what a small network makes of it" in card
    assert 'SentenceTransformer("org/ours", trust_remote_code=True)' in card
    assert "(cc-by-nc-4.0) may not be used commercially" in card


def test_a_record_without_a_recipe_is_refused(router):
    (router / "st_static_router.json").write_text('{"documents": "org/teacher"}')
    assert "st_static_router.json names no recipe" in " ".join(problems_of(router, "org/ours"))


def test_a_table_that_lacks_rows_is_refused(router):
    [file] = router.glob("query_0_*/model.safetensors")
    save_file({name: array[1:] for name, array in load_file(file).items()}, file)
    write_card(router)
    [problem] = problems_of(router, "org/ours")
    assert "it should have a row for each" in problem


def test_its_revision_follows_its_weights_alone(router):
    revision = revision_of(str(router))
    change(router, {"corpus.description": "other words for the same"})
    (router / "notes.json").write_text("{}")
    assert revision_of(str(router)) == revision
    [file] = router.glob("query_0_*/model.safetensors")
    save_file({name: array + 1 for name, array in load_file(file).items()}, file)
    assert revision_of(str(router)) != revision


def test_text_that_may_not_be_passed_on_keeps_it_back(router):
    change(router, {"corpus.redistributable": False})
    [problem] = problems_of(router, "org/ours")
    assert "The text may not be redistributed" in problem


def test_notes_stay_when_the_card_is_written_again(router):
    add_notes(router, "Mine.")
    assert main(["card", str(router)]) == 0
    assert "notes: start -->\nMine.\n" in card_of(router)
    assert 'SentenceTransformer("models/ours")' in card_of(router)


def test_code_of_its_own_is_refused(router):
    file = router / "router_config.json"
    names = json.loads(file.read_text())["types"]
    name = next(name for name in names if name.startswith("document"))
    set_in(file, {f"types.{name}": "theirs.Module"})
    (router / name / "theirs.py").write_text("print('run')\n")
    found = " ".join(problems_of(router, "org/ours"))
    assert "router_config.json names the module theirs.Module" in found
    assert f"{name}/theirs.py is not part of a model" in found


@pytest.mark.parametrize("route", ["query", "document"])
def test_weights_that_changed_since_its_card_are_refused(router, route):
    [file] = router.glob(f"{route}_0_*/model.safetensors")
    save_file({name: array + 1 for name, array in load_file(file).items()}, file)
    [problem] = problems_of(router, "org/ours")
    assert problem.startswith("README.md was written for another build")


def test_what_is_missing_is_named(router):
    (router / "router_config.json").unlink()
    (router / "README.md").unlink()
    found = problems_of(router, "org/ours")
    assert "There is no router_config.json." in found
    assert "There is no README.md. Write it with st-static card." in found
