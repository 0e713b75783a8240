"""What is wrong with paths and names is told before the libraries that take seconds are loaded."""

import json
import re
import subprocess
import sys
from pathlib import Path

import mteb
import pytest

from st_static.evaluate.tasks import check_names

HEAVY = ["torch", "transformers", "mteb", "sentence_transformers"]
# Runs commands one after the other in one process; a line for each: what it has loaded.
PROGRAM = """
import json, sys
from st_static.cli import main
heavy, commands = json.loads(sys.argv[1])
for command in commands:
    sys.stderr.flush()
    try:
        status = main(command)
    except SystemExit as end:
        status = end.code
    print(json.dumps([status, [name for name in heavy if name in sys.modules]]))
    print("END", file=sys.stderr)
"""
RECIPE = str(Path(__file__).parents[2] / "recipes/quickstart.yaml")
BUILD = ["build", RECIPE, "--output", "model", "--work_dir", "work", "--teacher.sha256", "null"]
CASES = [
    ("build RECIPE --output file", "The output file is a file"),
    ("build RECIPE --output file/model", "The output file/model cannot be written: .*a file"),
    ("BUILD --work_dir file", "The work directory file cannot be written: .*a file"),
    ("BUILD --work_dir file/work", "The work directory file/work cannot be written"),
    ("BUILD --corpus.files empty.txt", "there is no text in empty.txt"),
    ("BUILD --corpus.files number.jsonl", "number.jsonl, line 1"),
    ("BUILD --teacher.model file", "file is a file: name the folder"),
    ("BUILD --language [no,en]", "Put each text in quotes"),
    ("build ensemble.yaml --members [folder,wordllama:256]", "folder is not a static model"),
    ("build ensemble.yaml --members [foo:bar,wordllama:256]", "'foo:bar' is neither a folder"),
    ("build ensemble.yaml --members [wordllama:256,glove:nofile]", "There is no file nofile"),
    ("BUILD --pairs.files nothing.jsonl", "no file matches 'nothing.jsonl'"),
    ("BUILD --publish me/model --tasks STS99", "no task 'STS99' in mteb. There is: "),
    ("BUILD --publish me/model --tasks STS12 --data nodir", "There is no folder nodir"),
    ("evaluate wordllama:256 --tasks STS99", "no task 'STS99' in mteb. There is: "),
    ("evaluate wordllama:256 --benchmark MTEB(eng,v1)", r"There is: .*MTEB\(eng, v1\)"),
    ("evaluate wordllama:256 --tasks STS12 --data nodir", "There is no folder nodir"),
    ("evaluate wordllama:256 --tasks STS12 --data folder", "no local copy of STS12 in folder"),
    ("evaluate wordllama:256 --tasks STS12 --folder file", "folder of results file cannot be"),
    ("evaluate file --tasks STS12", "file is a file"),
    ("evaluate folder --tasks STS12", "'folder' is not a model"),
    ("evaluate glove:nofile --tasks STS12", "There is no file nofile"),
    ("evaluate sif:nofile,file --tasks STS12", "There is no file nofile"),
    ("evaluate doc2vec:nofile --tasks STS12", "There is no file nofile"),
    ("evaluate wordllama:300 --tasks STS12", "no model of '300' dimensions"),
    ("evaluate use:large --tasks STS12", "There is use:multilingual only"),
    ("evaluate foo:bar --tasks STS12", "'foo:bar' is not a folder"),
    ("BUILD --teacher.model folder", "'folder' is not a model"),
    ("analyse nope --work_dir nope", "There is no folder nope"),
    ("analyse folder --work_dir nope", "was not built from a teacher"),
    ("analyse --socm folder --texts nofile", "There is no nofile"),
    ("analyse --socm ./nope --texts empty.txt", "There is no folder ./nope"),
    ("analyse --socm folder --texts empty.txt", "'folder' is not a model"),
    ("compare nothing", "nothing holds no result files"),
    ("compare --published nobody", "No published scores of nobody"),
    ("compare nothing --output file/table", "The output file/table cannot be written"),
    ("publish nope me/model", "There is no folder nope"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Of each case its exit status, the libraries loaded so far, and what was said."""
    folder = tmp_path_factory.mktemp("careless")
    (folder / "folder").mkdir()
    for name in ("file", "empty.txt"):
        (folder / name).touch()
    members = "output: model\nmembers: [wordllama:256, wordllama:256]\n"
    (folder / "ensemble.yaml").write_text(members)
    (folder / "number.jsonl").write_text('{"text": 5}\n')
    short = {"BUILD": BUILD, "RECIPE": [RECIPE]}
    commands = []
    for case, _ in CASES:
        words = [word for part in case.split(" ") for word in short.get(part, [part])]
        given = words[-2]  # once more than in BUILD
        if given in words[:-2] and given.startswith("--"):
            place = words.index(given)
            del words[place : place + 2]
        commands.append(words)
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([HEAVY, commands])],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    said = process.stderr.split("END\n")
    ends = [json.loads(line) for line in process.stdout.splitlines()]
    return [(status, loaded, text) for (status, loaded), text in zip(ends, said, strict=False)]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case for case, _ in CASES])
def test_a_wrong_path_or_name_is_told_before_torch_and_mteb_are_loaded(number, told):
    status, loaded, said = told[number]
    assert status in (1, 2)
    assert re.search(CASES[number][1], said), said
    assert said.count("\n") == 1
    assert loaded == []


def test_all_names_of_mteb_are_known_without_it():
    from mteb.get_tasks import _TASK_RENAMES, _TASKS_REGISTRY

    check_names("task", [*_TASKS_REGISTRY, *_TASK_RENAMES])
    benchmarks = mteb.get_benchmarks()
    aliases = [alias for benchmark in benchmarks for alias in benchmark.aliases or []]
    check_names("benchmark", [*(benchmark.name for benchmark in benchmarks), *aliases])
