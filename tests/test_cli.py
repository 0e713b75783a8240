"""The command: every value of a recipe is an option, and errors that users can mend are short."""

import dataclasses
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import yaml
from scripts import output_here, status_here

from st_static.cli import COMMANDS, main, run_command
from st_static.commands.build import parse_build
from st_static.distill.config import BuildConfig

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "recipes/quickstart.yaml"
MAIN = ROOT / "recipes/build.py"
COMMIT = "a829fd0e060bb84554da0dfd354d0de0f7712b7f"


@dataclasses.dataclass
class Option:
    """A value of a recipe: its name as an option, its type, default and meaning."""

    name: str
    hint: Any
    default: Any
    meaning: str

    def another_value(self) -> Any:
        """A value that the option may have and that is not its default."""
        kinds = get_args(self.hint) if get_origin(self.hint) in (Union, UnionType) else [self.hint]
        if self.name == "teacher.revision":
            return COMMIT  # what remote code needs
        choices = [c for kind in kinds if get_origin(kind) is Literal for c in get_args(kind)]
        if choices and bool not in kinds and int not in kinds:
            return next(choice for choice in choices if choice != self.default)
        if any(get_origin(kind) is dict for kind in kinds):
            return {"a text": [0.5]}
        if bool in kinds:
            return not self.default
        if int in kinds:
            return 2 * self.default if isinstance(self.default, int) and self.default else 8
        if float in kinds:
            return self.default / 2 or 0.5
        if any(get_origin(kind) is list and kind != list[str] for kind in kinds):
            return [4, 8]
        if list[str] in kinds:
            return ["one", "two"]
        return f"another {self.name}"


def options(config_class: type, prefix: str = "") -> Iterator[Option]:
    hints = get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from options(hints[field.name], f"{prefix}{field.name}.")
        else:
            default = getattr(config_class(), field.name)
            yield Option(
                prefix + field.name,
                hints[field.name],
                default,
                config_class.__pydantic_fields__[field.name].description,
            )


OPTIONS = list(options(BuildConfig))


def value_of(config: BuildConfig, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def status_of(arguments: list[str]) -> int:
    """The exit status of `st-static`."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_there_is_an_option_for_every_value():
    assert len(OPTIONS) > 40
    # Other tests give a list of teachers, which takes the place of one, and the target vectors,
    # without a PCA and pairs.
    excluded = {"teachers", "distillation.target"}
    options = [option for option in OPTIONS if option.name not in excluded]
    arguments = []
    for option in options:
        value = option.another_value()
        text = value if isinstance(value, str) else json.dumps(value)
        arguments += [f"--{option.name}", text]
    config = parse_build(arguments)
    for option in options:
        assert value_of(config, option.name) == option.another_value() != option.default


def test_options_for_queries():
    config = parse_build(["--distillation.target", "vectors"])
    assert isinstance(config, BuildConfig)
    assert config.distillation.target == "vectors"


def test_without_options_a_recipe_has_its_defaults():
    assert parse_build([]) == BuildConfig()


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("output: here\npca:\n  n_components: 64\nquestions: [why?, how?]\n")
    return str(path)


@pytest.mark.parametrize("spelling", [["{}"], ["--config", "{}"], ["--config={}"]])
def test_a_recipe_sets_values_and_leaves_the_others(recipe_file, spelling):
    config = parse_build([word.format(recipe_file) for word in spelling], str(QUICKSTART))
    expected = BuildConfig(
        output="here",
        pca=dataclasses.replace(BuildConfig().pca, n_components=64),
        questions=["why?", "how?"],
    )
    assert config == expected


def test_options_override_the_recipe_that_is_given_or_the_default_one(recipe_file):
    options = ["--pca.n_components", "null", "--output=there", "--seed", "3"]
    config = parse_build([recipe_file, *options])
    assert (config.output, config.pca.n_components, config.seed) == ("there", None, 3)
    assert config.questions == ["why?", "how?"]
    assert parse_build(options, recipe_file) == config


def test_help_lists_every_option_with_its_meaning(capsys):
    assert status_of(["build", "--help"]) == 0
    # Without white space, since lines are broken anywhere.
    text = "".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert f"--{option.name}" in text
        assert option.meaning
        assert "".join(option.meaning.split()) in text


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_bare_command_tells_how_it_is_used(arguments, capsys):
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "usage: st-static COMMAND" in printed
    lines = [line.split(maxsplit=1) for line in printed.splitlines() if line.startswith("  ")]
    assert [name for name, _ in lines] == list(COMMANDS)
    assert all(re.fullmatch(r"[A-Z].{10,}\.", purpose) for _, purpose in lines)


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"st-static {importlib.metadata.version('st-static')}\n"


# Arguments of a build, and what is said of them: of the command line, and of the recipe.
REFUSED = [
    (
        [str(ROOT / "recipes/minilm")],
        f"Did you mean {ROOT}/recipes/minilm-256.yaml or {ROOT}/recipes/minilm-head-256.yaml?",
    ),
    (["minilm"], "--list prints. Did you mean minilm-256 or minilm-head-256?"),
    (["quickstrt"], "--list prints. Did you mean quickstart?"),
    (["nothing"], "The recipe nothing does not exist. Expected a YAML file, or a name that"),
    ([str(ROOT / "recipes/quickstrt.yaml")], f"Did you mean {QUICKSTART}?"),
    (["--corpus.description", os.fsdecode(b"Gr\xf6\xdfe")], "is text in UTF-8, but"),
    (["--publih", "org/m"], "There is no option --publih. Did you mean --publish?"),
    (["--task", "STS12"], "There is no option --task. Did you mean --tasks?"),
    (["--publish"], "--publish needs a value."),
    (["--publish", "org/m", "--tasks"], "--tasks needs a value."),
    (["--publish", "org/m", "--publish", "org/n"], "--publish is given twice. Give it once."),
]
CANNOT_BE_BUILT = [
    (["--corpus.files", "no/such.txt"], "corpus.files: no file matches 'no/such.txt'"),
    (["--corpus.docstrings", "null"], "The recipe names no text"),
    (["--vocabulary.size", "0"], "--vocabulary.size: expected a whole number of at least 1"),
    (["--teacher.trust_remote_code", "true"], "teacher.trust_remote_code runs code"),
]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [*((a, 2, says) for a, says in REFUSED), *((a, 1, says) for a, says in CANNOT_BE_BUILT)],
)
def test_what_is_wrong_is_told_in_one_line_by_both_commands(arguments, status, says, capsys):
    for run_it in (lambda: status_of(["build", *arguments]), lambda: status_here(MAIN, *arguments)):
        returned, (out, told) = run_it(), capsys.readouterr()
        assert (returned, out, told.count("\n")) == (status, "", 1)
        assert told.startswith("Error: ")
        assert says in told
        assert told.endswith("See st-static build --help.\n") or status == 1


def test_an_unknown_command_is_refused(capsys):
    assert main(["publsh"]) == 2
    assert "no command 'publsh'. Did you mean publish?" in capsys.readouterr().err
    assert main(["zzz"]) == 2
    assert "Expected one of build, convert, evaluate, " in capsys.readouterr().err


def test_an_error_of_several_lines_is_told_in_one(capsys):
    """Some libraries' messages have several, and become part of ours."""

    def fail(arguments: object) -> int:
        raise ValueError("The teacher cannot be loaded:\n  no network\n")

    assert run_command(fail, []) == 1
    assert capsys.readouterr().err == "Error: The teacher cannot be loaded: no network\n"


def test_other_errors_keep_their_traceback():
    def fail(arguments: object) -> int:
        raise RuntimeError("a mistake of ours")

    with pytest.raises(RuntimeError, match="a mistake of ours"):
        run_command(fail, [])


def test_a_librarys_warning_comes_once():
    """huggingface_hub writes to stderr itself, and so would our handler."""
    code = (
        "from st_static.commands.options import log_to_terminal; log_to_terminal(); "
        "import huggingface_hub.utils, logging; "
        "logging.getLogger('huggingface_hub.utils').warning('retrying'); "
        "logging.getLogger('st_static.x').info('ours')"
    )
    lines = run("-c", code).stderr.splitlines()
    assert [line.split()[-1] for line in lines] == ["retrying", "ours"]


def test_the_installed_command_is_this_one():
    [command] = importlib.metadata.entry_points(group="console_scripts", name="st-static")
    assert command.load() is main


def test_the_module_runs_as_a_command():
    assert run("-m", "st_static.cli", "biuld").returncode == 2


@pytest.mark.parametrize("recipe_name", ["quickstart", "bge-base-256"])
def test_the_main_command_builds_the_quickstart_or_a_recipe(recipe_name):
    path = ROOT / f"recipes/{recipe_name}.yaml"
    arguments = [] if recipe_name == "quickstart" else [str(path)]
    printed = yaml.safe_load(output_here(MAIN, *arguments, "--seed", "3", "--print_config"))
    assert printed["seed"] == 3
    assert printed["output"] == f"models/{recipe_name}"
    assert printed["teacher"]["model"] == yaml.safe_load(path.read_text())["teacher"]["model"]


def test_our_recipes_are_known_by_name_and_files_go_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()  # such as a folder of the model
    assert parse_build(["quickstart"]) == parse_build([str(QUICKSTART)])
    assert parse_build(["--config", "quickstart", "--seed", "3"]).seed == 3
    (tmp_path / "bge-base-256").write_text("seed: 4\n")
    assert parse_build(["bge-base-256"]).seed == 4
    assert status_of(["build", "--list"]) == 0
    names = [line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == sorted(file.stem for file in QUICKSTART.parent.glob("*.yaml"))


def test_both_commands_tell_of_publishing_and_print_a_recipe_without_it(capsys):
    assert status_of(["build", "-h"]) == 0
    for said in (output_here(MAIN, "--help"), capsys.readouterr().out):
        for option in ("--publish ORG/NAME", "--tasks", "--data", "--distillation.temperature"):
            assert option in said
    printed = output_here(MAIN, "--publish", "org/m", "--data", "d", "--print_config")
    assert not {"publish", "tasks", "data"} & set(yaml.safe_load(printed))
