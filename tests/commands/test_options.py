"""What a user reads after a slip in a command or a recipe: one line, with what to do."""

import pytest
from pairs import pairs

from st_static.cli import main
from st_static.commands import evaluate
from st_static.commands.build import parse_build

RECIPE = """\
output: models/mine
teacher:
  model: some/teacher
vocabulary:
  size: 100
"""


def refused(command: str, capsys: pytest.CaptureFixture[str], **values: object) -> str:
    """The one line on stderr of a command that is refused."""
    with pytest.raises(SystemExit) as status:
        main([word.format(**values) for word in command.split()])
    assert status.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    name = command.split()[0]
    assert line.startswith("Error: ")
    assert line.endswith(f" See st-static {name} --help.")
    return line.removeprefix("Error: ").removesuffix(f" See st-static {name} --help.")


# A command, and what is said of it: options that are unknown, nearly right or elsewhere; values
# of another kind, missing, too many, or given twice.
SLIPS = """\
build --vocabulary.sise 3 | There is no option --vocabulary.sise. Did you mean --vocabulary.size?
build --n_components=64 | There is no option --n_components. Did you mean --pca.n_components?
build --xyzzy 1 | There is no option --xyzzy.
evaluate m --task STS12 | There is no option --task. Did you mean --tasks?
compare --publishd x | There is no option --publishd. Did you mean --published?
analyse m --workdir w | There is no option --workdir. Did you mean --work_dir?
encode m --colum text | There is no option --colum. Did you mean --column?
card m --hub-ids a/b | There is no option --hub_ids. Did you mean --hub_id?
compare r --update r | There is no option --update.
explain m a b --figur p | There is no option --figur. Did you mean --figure?
publish m a/b --dryrun | There is no option --dryrun. Did you mean --dry_run?
build --pca.n_components many | --pca.n_components: expected a whole number or null, but got 'many'.
build --seed=some | --seed: expected a whole number, but got 'some'.
build --vocabulary.pieces some | --vocabulary.pieces: expected all or used or none, but got 'some'.
evaluate m --trust_remote_code maybe | Expected one model for MTEB tasks, but got m and maybe.
publish m a/b --dry-run=perhaps | --dry_run takes no value, but got 'perhaps'.
explain m a b --top few | --top: expected a whole number, but got 'few'.
encode m --dtype int4 | --dtype: got 'int4' (expected one of 'float32', 'float16', 'int8').
build --vocabulary 3 | There is no option --vocabulary. Did you mean --vocabulary.size?
build --seed | --seed needs a value.
evaluate m --tasks | --tasks needs a value.
publish m | Missing: ORG/NAME.
explain m | Missing: first, second.
publish m a/b c | Expected no more arguments, but got c.
encode --input=a.txt m b.txt | Expected no more arguments, but got b.txt.
build --seed 1 --seed=2 | --seed is given twice. Give it once.
"""


@pytest.mark.parametrize(
    ("command", "says"),
    [
        *(line.split(" | ") for line in SLIPS.splitlines()),
        *pairs(
            "build --distillation.learning_rate fast",
            "--distillation.learning_rate: expected a number above 0, but got 'fast'.",
            "build --corpus.docstrings numpy",
            "--corpus.docstrings: expected a list of texts or null, but got 'numpy'. "
            "Write a list as '[one, two]'.",
            "build --vocabulary.size null",
            "--vocabulary.size: expected a whole number of at least 1, but got null.",
            "analyse m",
            "Missing: --work_dir. Name a model and its work_dir, or use --socm.",
            "encode m texts.txt --output v.npy",
            "Expected no more arguments, but got texts.txt. Did you mean --input texts.txt?",
            "build --corpus.files a.txt b.txt c.txt --seed 1",
            "--corpus.files takes one value, but got 'a.txt' and 'b.txt'. Quote a pattern, so "
            "that the shell does not expand it: --corpus.files 'data/*.txt'.",
            "encode m --input a.txt b.txt",
            "--input takes one value, but got 'a.txt' and 'b.txt'. Quote a pattern, so that the "
            "shell does not expand it: --input 'data/*.txt'.",
        ),
    ],
)
def test_a_slip_in_a_command(command, says, capsys):
    said = refused(command, capsys)
    # Python from 3.12 on lists choices without quotes.
    assert says in (said, said.replace("float32, float16, int8", "'float32', 'float16', 'int8'"))


NOT_A_SIZE = ", vocabulary.size: expected a whole number of at least 1, but got"
NOT_A_LANGUAGE = ", language: expected text or a list of texts or null, but got"
NOT_YAML = "cannot be read as YAML:"


# A recipe, and what is said behind the file's name.
@pytest.mark.parametrize(
    ("text", "says"),
    pairs(
        RECIPE.replace("model:", "modle:"),
        ": there is no key teacher.modle. Did you mean teacher.model?",
        RECIPE + "n_components: 64\n",
        ": there is no key n_components. Did you mean pca.n_components?",
        RECIPE + "zzz: 64\n",
        ": there is no key zzz.",
        "members: [a, b]\nweight: [1, 2]\n",
        ": there is no key weight. Did you mean weights?",
        RECIPE.replace("100", "many"),
        f"{NOT_A_SIZE} 'many'.",
        RECIPE.replace("100", "[1, 2]"),
        f"{NOT_A_SIZE} [1, 2].",
        RECIPE.replace("100", "null"),
        f"{NOT_A_SIZE} null.",
        "teacher:\n  license: no\n",
        ", teacher.license: expected text or null, but got false. Put it in quotes.",
        "language: no\n",
        f"{NOT_A_LANGUAGE} false. Put it in quotes.",
        "language: [no, en]\n",
        f'{NOT_A_LANGUAGE} [false, "en"]. Put each text in quotes.',
        "vocabulary: 3\n",
        ": expected the section vocabulary with keys such as size, but got 3.",
        "# empty\nteacher:\n",
        ": expected the section teacher with keys such as model, but got null.",
        "- models/one\n- models/two\n",
        ': expected keys such as output, but got ["models/one", "models/two"].',
        "3",
        ": expected keys such as output, but got 3.",
        "# nothing yet\n",
        " is empty. Expected a YAML file with values.",
        RECIPE + "seed: [1\npca: 3\n",
        f", line 7, {NOT_YAML} ",
        RECIPE + "\tseed: 1\n",
        f", line 6, {NOT_YAML} ",
        RECIPE + "output: models/other\n",
        f", line 6, {NOT_YAML} output is given twice, first in line 1.",
        RECIPE + "  size: 200\n",
        f", line 6, {NOT_YAML} size is given twice, first in line 5.",
        RECIPE + "? [one, two]\n: 3\n",
        f", line 6, {NOT_YAML} a key must be text, but it is a sequence.",
        RECIPE + "2024: 3\n",
        f", line 6, {NOT_YAML} the key 2024 is not text: put it in quotes.",
        RECIPE + "corpus:\n  description: 2024-13-45\n",
        f", line 7, {NOT_YAML} '2024-13-45' is no timestamp: put text in quotes.",
        b"output: \xe9\n",
        " is not text in UTF-8.",
        RECIPE.encode("utf-16"),
        " is not UTF-8 text: it begins as UTF-16 or UTF-32 does. Convert it.",
        RECIPE.encode("utf-16-le"),
        " is not UTF-8 text: it begins as UTF-16 or UTF-32 does. Convert it.",
        RECIPE.encode("utf-32"),
        " is not UTF-8 text: it begins as UTF-16 or UTF-32 does. Convert it.",
    ),
)
def test_a_slip_in_a_recipe(text, says, tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    said = refused("build {file}", capsys, file=file)
    after_name = said.removeprefix("The recipe ").removeprefix(str(file))
    assert after_name.startswith(says) if says.endswith(" ") else after_name == says


def test_a_value_is_looked_for_where_it_was_given(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(RECIPE)
    said = refused("build {file} --vocabulary.size few", capsys, file=file)
    assert said == "--vocabulary.size: expected a whole number of at least 1, but got 'few'."


def test_a_recipe_that_is_not_there(tmp_path, capsys):
    said = refused("build {folder}/none.yaml", capsys, folder=tmp_path)
    assert said == f"The recipe {tmp_path}/none.yaml does not exist. Expected a YAML file."
    said = refused("build {folder}", capsys, folder=tmp_path)
    assert said == f"The recipe {tmp_path} is a folder. Expected a YAML file."


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("evaluate m --tasks A B --trust-remote-code", ["A", "B"]),
        ("evaluate m --tasks A B", ["A", "B"]),
    ],
)
def test_hyphens_in_names_of_options(command, value, monkeypatch):
    given: list[evaluate.Evaluation] = []
    monkeypatch.setattr(evaluate, "evaluate", lambda evaluation: given.append(evaluation) or 0)
    assert main(command.split()) == 0
    [evaluation] = given
    assert (evaluation.model, evaluation.tasks) == ("m", value)
    assert evaluation.trust_remote_code == ("trust" in command)


def test_a_recipes_options_may_have_hyphens_and_their_values_stay():
    arguments = ["--work-dir", "a-b", "--corpus.max-documents=7", "--corpus.files", "my-data/*.txt"]
    config = parse_build(arguments)
    assert (config.work_dir, config.corpus.files) == ("a-b", "my-data/*.txt")
    assert config.corpus.max_documents == 7


def test_a_text_may_begin_like_an_option(capsys):
    assert main(["explain", "models/none", "--a text", "--another one"]) == 1
    assert "models/none" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["", " true", "=true"])
def test_a_switch_of_a_recipe_needs_no_value(typed):
    revision = "--teacher.revision " + "a" * 40
    command = f"--teacher.trust-remote-code{typed} {revision}"
    assert parse_build(command.split()).teacher.trust_remote_code
    last = f"{revision} --teacher.trust_remote_code{typed}"
    assert parse_build(last.split()).teacher.trust_remote_code


def test_a_switch_of_a_recipe_can_be_off(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("teacher:\n  trust_remote_code: true\n  revision: " + "a" * 40 + "\n")
    assert parse_build([str(recipe)]).teacher.trust_remote_code
    off = [str(recipe), "--teacher.trust_remote_code", "false"]
    assert not parse_build(off).teacher.trust_remote_code
