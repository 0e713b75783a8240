"""What a person reads while a model is built, on a terminal and in a log file."""

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import mteb
import numpy as np
import pytest
import yaml
from sentence_transformers import SentenceTransformer
from terminals import run_at_a_terminal

from st_static.cli import main
from st_static.commands.build import next_steps
from st_static.distill import pipeline as recipe
from st_static.distill.config import BuildConfig, CorpusConfig, DistillationConfig, VocabularyConfig
from st_static.distill.pipeline import build
from st_static.distill.report import report_table, rows_explained, size_on_disk
from st_static.distill.stages import WorkDirectory
from st_static.evaluate.benchmark import results_folder
from st_static.evaluate.tasks import benchmark_of, benchmark_tasks, choose_subsets, options_to_score
from st_static.model.head import Head

STAGES = ["sentences", "vocabulary", "selection", "extraction", "pca", "distillation"]


@pytest.fixture(scope="module")
def config(built_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    words = VocabularyConfig(size=60, min_count=2)
    own = {"output": str(folder / "model"), "work_dir": str(folder / "work")}
    return replace(built_config, vocabulary=words, **own)


def command(config: BuildConfig, folder: Path) -> list[str]:
    (folder / "recipe.yaml").write_text(yaml.safe_dump(asdict(config)), "utf-8")
    return [sys.executable, "-m", "st_static.cli", "build", str(folder / "recipe.yaml")]


@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
def test_on_a_terminal_there_is_one_bar_at_a_time_and_a_line_for_each_stage(config, tmp_path):
    config = replace(config, output=str(tmp_path / "model"), work_dir=str(tmp_path / "work"))
    status, shown = run_at_a_terminal(command(config, tmp_path))
    assert status == 0
    lines = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
    end = next(number for number, line in enumerate(lines) if "Built" in line)
    bars = {line.partition(":")[0] for line in lines[:end] if " left" in line}
    assert {"words", "candidates", "teacher", "distillation"} <= bars
    told = [line for line in lines[:end] if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert [line.split()[1] for line in told] == [f"{s}:" for s in STAGES for _ in range(2)]
    assert re.search(r" vocabulary: 60 words, \d+ tokens in \d+\.\d s$", told[3])
    # Nothing else: neither other bars, nor dictionaries, nor two bars in a line.
    for line in lines[:end]:
        assert line in told or " left" in line or line.startswith("sentences: "), line
        assert "{" not in line
        assert line.count("%|") <= 1
    # Bars are wiped out before a line is written.
    assert "\r" + 10 * " " in shown
    assert f"st-static evaluate {tmp_path}/model" in shown


def test_in_a_log_file_there_are_the_stages_lines_only(config, tmp_path):
    config = replace(config, output=str(tmp_path / "model"), work_dir=str(tmp_path / "work"))
    result = subprocess.run(command(config, tmp_path), capture_output=True, text=True, check=True)
    lines = [line.split()[1] for line in result.stderr.splitlines()]
    assert lines == [f"{stage}:" for stage in STAGES for _ in range(2)]
    assert "\r" not in result.stdout + result.stderr


def test_interrupted_it_says_how_to_go_on(config, tmp_path, monkeypatch, capsys):
    def interrupt(config: BuildConfig) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recipe, "build", interrupt)
    assert main(command(config, tmp_path)[3:]) == 130
    assert capsys.readouterr().err.startswith("Interrupted. Run the same command again")


@pytest.fixture(scope="module")
def built(config):
    return build(config)


def test_it_is_said_what_the_rows_stand_for(built, config):
    model = SentenceTransformer(str(built.output), device="cpu")
    n_rows = len(model[0].embedding.weight)
    [total, words, pieces, characters, special] = map(
        int,
        re.findall(r"(\d+) (?:vectors|words;|word pieces|single|special)", rows_explained(built)),
    )
    assert (total, words, special) == (n_rows, 60, 2)
    assert pieces > 0
    assert words + pieces + characters + special == total
    assert "--vocabulary.pieces used or none" in rows_explained(built)
    used = replace(config.vocabulary, pieces="used")
    some = build(replace(config, vocabulary=used, output=f"{config.output}-some"))
    assert "--vocabulary.pieces" not in rows_explained(some)
    without = replace(config.vocabulary, pieces="none")
    smaller = build(replace(config, vocabulary=without, output=f"{config.output}-small"))
    assert "word pieces" not in rows_explained(smaller)
    assert size_on_disk(smaller.output) < size_on_disk(built.output)


def test_a_head_is_told_with_its_units(built, monkeypatch):
    def told() -> list[str]:
        names, values, _ = report_table(built, {"FastEncoder": 93_148.2}).columns
        return [f"{name} {value}" for name, value in zip(names.cells, values.cells, strict=True)]

    assert "speed, FastEncoder 93,148 sentences/s" in told()
    assert not [line for line in told() if line.startswith("head")]
    head = Head(np.ones((4, 8), np.float32), np.ones((8, 4), np.float32))
    monkeypatch.setattr(WorkDirectory, "head", lambda work, stage: {"distillation": head}[stage])
    assert "head 4 hidden units" in told()


def test_what_is_no_part_of_the_model_does_not_count_as_its_size(built, tmp_path):
    before = size_on_disk(built.output)
    (built.output / "README.md").write_text("A long card. " * 1000)
    assert size_on_disk(built.output) == before
    (built.output / "README.md").unlink()


@pytest.mark.parametrize("name", ["ours-256", "my model"])
def test_the_next_commands_can_be_copied(built, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    model = Path("models") / name
    shutil.copytree(built.output, model)
    config = BuildConfig(output=str(model), work_dir="my work")
    lines = [line.strip() for line in next_steps(config).splitlines()]
    program = [line for line in lines if line.startswith(("from", "model", "embeddings"))]
    values: dict[str, object] = {}
    exec("\n".join(program), values)
    assert values["embeddings"].shape == (3, 8)
    evaluate, card = (shlex.split(line) for line in lines if line.startswith("st-static"))
    assert evaluate[1:] == ["evaluate", str(model), "--tasks", "STS12", "STS13"]
    assert card[1:3] == ["card", str(model)]
    results = results_folder(str(model), is_local=False).parent
    assert card[3:] == ["--results", f"{results}/*", "--work_dir", "my work"]


def test_on_text_of_ones_own_the_next_commands_judge_data_of_ones_own():
    corpus = CorpusConfig(files=["texts.txt"])
    config = BuildConfig(output="models/ours", work_dir="work", corpus=corpus)
    lines = next_steps(config).splitlines()
    assert lines[-3:] == [
        'On the command line, after pip install "st-static[publish]"; PAIRS.csv has the columns '
        "text1, text2 and score:",
        "  st-static evaluate models/ours --pairs PAIRS.csv",
        "  st-static card models/ours --own_data results/own_pairs.json --work_dir work",
    ]


def test_for_queries_the_next_commands_take_the_teachers_documents(built, config):
    queries = DistillationConfig(target="vectors")
    config = BuildConfig(output=str(built.output), teacher=config.teacher, distillation=queries)
    lines = next_steps(config).splitlines()
    program = [line.strip() for line in lines[1:6]]
    exec("\n".join(program[:-1]), values := {})
    assert len(values["index"]) == 3
    teacher = shlex.quote(config.teacher.model)
    files = "--queries QUERIES.csv --documents DOCUMENTS.csv --relevant RELEVANT.csv"
    assert lines[-2].endswith(f" {files} --documents_by {teacher}")


@pytest.mark.parametrize(
    ("languages", "options", "texts"),
    [
        (["ja"], ["--tasks", "JSTS", "JSICK"], "ファイル"),
        (["de", "ja"], ["--tasks", "JSTS", "JSICK"], "ファイル"),
        (["en", "ja"], ["--tasks", "STS12", "STS13", "JSTS", "JSICK"], "Read rows"),
        (["zh"], ["--benchmark", "MTEB(cmn, v1)"], "孩子们"),
        (["multilingual"], ["--benchmark", "MTEB(Multilingual, v2)"], "A TEXT"),
        (["fo"], ["--tasks", "TASK", "--language", "fo"], "A TEXT"),
        (["de", "fr"], ["--tasks", "TASK", "--language", "de", "fr"], "Die Kinder"),
    ],
)
def test_the_next_commands_are_in_the_models_language(languages, options, texts):
    config = BuildConfig(output="models/ours", work_dir="work", language=languages)
    lines = next_steps(config).splitlines()
    [evaluate] = [line for line in lines if " evaluate " in line]
    assert shlex.split(evaluate)[3:] == options
    [program] = [line for line in lines if "encode(" in line]
    assert f'encode(["{texts}' in program
    compile(program.strip(), "the program", "exec")


@pytest.mark.parametrize("languages", [[], ["ja"], ["en", "ja"]])
def test_the_tasks_named_are_of_the_language_and_on_its_card(languages):
    tasks = mteb.get_tasks(tasks=options_to_score(languages)[1:])
    assert choose_subsets(tasks, languages or ["en"]) == []
    if len(languages) < 2:
        of_card = {task.metadata.name for task in benchmark_tasks(benchmark_of(languages))}
        assert of_card >= {task.metadata.name for task in tasks}
