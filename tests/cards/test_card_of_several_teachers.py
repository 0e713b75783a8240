"""A model of several teachers: its card, record and checks name each of them."""

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from card_results import facts_of, with_recipe, write_results
from editing import card_of, set_in
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

from st_static.cards.card_figures import draw_scores
from st_static.cards.check_card import check_card, check_card_of_model, check_recipe
from st_static.cards.plan_card import check_same_model
from st_static.cards.render import render
from st_static.commands.build import parse_build
from st_static.evaluate.figures import TEACHER, new_axes
from st_static.model.model_folder import ModelFolder

IDS = ["org/first", "org/second"]


def with_teachers(facts, *changes):
    """Facts whose teachers have other values."""
    teachers = facts.record["recipe"]["teachers"]
    changed = [{**teacher, **change} for teacher, change in zip(teachers, changes, strict=True)]
    return with_recipe(facts, teachers=changed)


@pytest.fixture(scope="module")
def teachers(config_of_two):
    """The folder in which both lie."""
    return Path(config_of_two.all_teachers[0].model).parent


@pytest.fixture(scope="module")
def written(built_by_two, write, teachers, tmp_path_factory):
    """A model with its card; not to be changed."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(built_by_two.output, home / "tiny")
    write_results(home / "tiny")
    work = "--work_dir", built_by_two.work.path
    assert write(home / "tiny", *work, teachers=teachers) == 0
    return home / "tiny"


@pytest.fixture
def facts(written):
    return facts_of(written)


@pytest.fixture
def card(written):
    return card_of(written)


# -- the card --------------------------------------------------------------------------


def test_the_card_shows_the_agreement_with_each_and_with_their_mean(card, facts):
    assert check_card(card) == []
    stages = facts.record["stages"]
    of_passes = [stages[name]["teacher_agreement"] for name in ("extraction", "extraction_2")]
    assert "| stage | weighted mean of the teachers | teacher 1 | teacher 2 |" in card
    assert f"| extraction | | {of_passes[0]:.2f} | {of_passes[1]:.2f} |" in card
    for name in ("pca", "distillation"):
        numbers = stages[name]["teacher_agreement"], *stages[name]["agreement_with_each"]
        assert f"| {name} | {' | '.join(f'{number:.2f}' for number in numbers)} |" in card
    assert "extraction_2 " in card.partition("| build time |")[2].partition("\n")[0]
    assert "The model learns the weighted mean of these teachers' cosines" in card
    assert "distilled from a local model, `teacher` and a local model, `unigram` by" in card


def test_each_teacher_has_its_name_licence_and_weight(facts):
    values = {"license": "mit", "sha256": "0f", "weight": 2.0}, {"license": None, "weight": 0.5}
    ids = [{"hub_id": name} for name in IDS]
    both = [first | second for first, second in zip(values, ids, strict=True)]
    card = render(with_teachers(facts, *both))
    link = "[org/{0}](https://huggingface.co/org/{0})"
    first = f"| teacher 1 | {link.format('first')}, weights of sha256 `0f`, weight 2 |"
    assert first in card
    assert "| licence of teacher 1 | mit |" in card
    assert f"| teacher 2 | {link.format('second')}, weight 0.5 |" in card
    assert "| licence of teacher 2 | not recorded |" in card
    assert f"see their cards: {link.format('first')} and {link.format('second')}." in card
    assert (ModelCard(card).data.base_model, check_card(card)) == (IDS, [])
    alike = render(with_teachers(facts, {"weight": 1.0}, {"weight": 1.0}))
    assert "| stage | mean of the teachers |" in alike
    assert "weight" not in alike.partition("## How it was built")[2].partition("| corpus |")[0]
    one = render(with_teachers(facts, {"hub_id": "org/first"}, {}))
    assert ModelCard(one).data.base_model == "org/first"
    assert "For how to cite the teacher, see its card: [org/first]" in one


def test_limits_show_the_weighted_mean_of_the_teachers_cosines(card, facts, teachers):
    assert "| this model | weighted mean of the teachers |" in card
    limit, means = facts.limits[0], []
    for name in ("teacher", "unigram"):
        one, other = SentenceTransformer(str(teachers / name), device="cpu").encode(
            [limit.first, limit.second], normalize_embeddings=True
        )
        means.append(float(one @ other))
    assert limit.teacher == pytest.approx(np.average(means, weights=[2, 1]), abs=2e-4)
    assert {"local/teacher", "local/unigram"} <= {row.model for row in facts.speed}


def test_a_card_without_one_of_the_teachers_says_nothing_of_their_mean(
    written, write, teachers, tmp_path, caplog
):
    model = shutil.copytree(written.parent, tmp_path / "home") / "tiny"
    shutil.copytree(teachers / "teacher", tmp_path / "some" / "teacher")
    assert write(model, teachers=tmp_path / "some") == 0
    assert (
        "nothing of the speed of the teacher unigram, nor of the teachers' cosines" in caplog.text
    )
    facts = facts_of(model)
    assert {row.teacher for row in facts.limits} == {None}
    assert "local/teacher" in {row.model for row in facts.speed}
    assert "| this model |\n" in card_of(model)


def test_a_mean_is_taken_off_where_a_teachers_cosines_are_high(facts):
    stages = facts.record["stages"]
    for high, says in (((False, True), "teacher 2"), ((True, True), "teacher 1 and teacher 2")):
        for stage, is_high in zip(("extraction", "extraction_2"), high, strict=True):
            stages[stage]["teacher_centered"] = is_high
        assert f"All cosines of {says} are high;" in render(facts)


def test_figures_and_scores_mark_both_teachers(facts):
    columns = facts.scores["columns"]
    rows = [{**facts.scores["rows"][0], "model": name} for name in (facts.name, *IDS)]
    facts = replace(facts, scores={"columns": columns, "rows": rows})
    facts = with_teachers(facts, *({"hub_id": name} for name in IDS))
    axes = new_axes()[1]
    draw_scores(facts, axes)
    of_models, _ = axes.figure.legends
    labels = [text.get_text() for text in of_models.get_texts()]
    assert labels == [facts.name, *(f"{name} (teacher)" for name in IDS)]
    drawn = {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert len({shape for color, shape in drawn if color == TEACHER}) == 2
    assert all(f"| {name} (teacher) |" in render(facts) for name in IDS)


# -- the recipe on it ------------------------------------------------------------------


def test_the_command_on_the_card_rebuilds_the_same_recipe(card, config_of_two, tmp_path):
    (tmp_path / "recipe.yaml").write_text(re.search(r"```yaml\n(.*?)```", card, re.DOTALL)[1])
    command = shlex.split(re.search(r"st-static build recipe\.yaml .*", card)[0])[3:]
    config = parse_build([str(tmp_path / "recipe.yaml"), *command])
    assert [t.model for t in config.all_teachers] == ["PATH/TO/teacher", "PATH/TO/unigram"]
    expected = [
        replace(teacher, model=f"PATH/TO/{Path(teacher.model).name}")
        for teacher in config_of_two.teachers
    ]
    assert config == replace(
        config_of_two,
        teachers=expected,
        output=config.output,
        work_dir=config.work_dir,
        workers=config.workers,
        corpus=replace(config_of_two.corpus, files="PATH/TO/corpus.txt"),
    )


def test_teachers_of_the_hub_need_no_place(facts, tmp_path):
    card = render(with_teachers(facts, *({"model": name} for name in IDS)))
    assert "--teacher" not in re.search(r"st-static build recipe\.yaml .*", card)[0]


# -- checks ----------------------------------------------------------------------------


def test_publish_asks_for_what_is_not_said_of_each_teacher(facts):
    def asked_of(*changes):
        recipe = with_teachers(facts, *changes).record["recipe"]
        return [problem for problem in check_recipe(recipe) if "of the Hub the teacher" in problem]

    first, second = asked_of({}, {})
    assert "teacher teacher is." in first
    assert "hub_id: ORG/NAME in the recipe's teachers[0]: no stage" in first
    assert "teacher unigram is." in second
    assert "hub_id: ORG/NAME in the recipe's teachers[1]: no stage" in second
    assert len(asked_of({"hub_id": "org/first"}, {})) == 1


def test_a_card_that_names_other_teachers_than_the_record_is_found(written, tmp_path):
    model = shutil.copytree(written, tmp_path / "tiny")
    ids = {f"recipe.teachers.{number}.hub_id": name for number, name in enumerate(IDS)}
    set_in(model / "st_static.json", ids)

    def says_of_teachers(header):
        (model / "README.md").write_text(f"---\n{header}\n---\n", "utf-8")
        problems = check_card_of_model(ModelFolder(model), None)
        return [problem for problem in problems if "base_model" in problem]

    assert says_of_teachers("base_model: [org/second, org/first]") == []
    [problem] = says_of_teachers("base_model: org/first")
    assert "base_model: org/first, but the recipe org/first, org/second." in problem


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([{"model": "a", "revision": None, "sha256": None}], "missing required field `weight`"),
        ([None], r"expected `object`, got `null` at `recipe\.teachers"),
        ("a/b", "expected `array"),
        (None, "missing required field `teacher`"),
    ],
)
def test_a_broken_list_of_teachers_is_named(written, tmp_path, value, says):
    shutil.copytree(written, tmp_path / "tiny")
    set_in(tmp_path / "tiny" / "st_static.json", {"recipe.teachers": value})
    with pytest.raises(ValueError, match=says):
        ModelFolder(tmp_path / "tiny").whole_record()


def test_a_card_of_other_teachers_is_not_overwritten(facts, written):
    cards = written.parent / "model_cards"
    heavier = with_teachers(facts, {"weight": 9.0}, {}).record
    check_same_model(cards, "tiny", heavier, None)
    other = with_teachers(facts, {}, {"model": "other"}).record
    with pytest.raises(ValueError, match="teacher teacher, unigram instead of teacher, other"):
        check_same_model(cards, "tiny", other, None)
