"""What the pages point to is there, and the README's figure says what was measured."""

import csv
import json
import re
from pathlib import Path

import pytest
from installs import PROJECT
from scripts import output_here

import st_static
from st_static.evaluate.models import all_peers

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
CHANGELOG = ROOT / "CHANGELOG.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))  # for users
MEASUREMENTS = sorted((ROOT / "docs" / "measurements").glob("*.md"))
PAGES = [README, ARCHITECTURE, ROOT / "CONTRIBUTING.md", CHANGELOG, *DOCS, *MEASUREMENTS]
DATA = sorted((ROOT / "docs" / "measurements" / "data").iterdir())
MODEL_CARDS = sorted((ROOT / "model_cards").glob("*.md"))
MEASURED = ROOT / "docs" / "figures" / "quality_and_speed.csv"
AVERAGE = "Avg (9/56)"


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert "://" in link or target.exists(), link
        assert "://" in link or not anchor or anchor in anchors_of(target), link


def test_files_that_the_architecture_names_exist() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|jinja|csv|js|toml))`", text))
    assert len(named) > 60
    roots = (ROOT, ROOT / "st_static")
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.read_bytes()) <= 12_000


def test_every_page_is_linked_from_an_index() -> None:
    readme, start, index = (
        page.read_text("utf-8") for page in (README, ROOT / "docs" / "index.md", MEASUREMENTS[0])
    )
    assert MEASUREMENTS[0].name == "README.md"
    assert all(f"]({page.name})" in start for page in DOCS if page.name != "index.md")
    assert all(f"]({page.name})" in index for page in MEASUREMENTS[1:])
    assert all(
        f"]({page})" in readme
        for page in ("ARCHITECTURE.md", "docs/index.md", "docs/measurements/README.md")
    )


def test_the_reference_has_each_public_name_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    names = re.findall(r"^::: st_static\.(\w+)$", page, re.MULTILINE)
    assert sorted(names) == sorted(set(st_static.__all__) - {"__version__"})


def test_the_version_is_the_same_everywhere() -> None:
    released = re.findall(r"^## \[(\d.*)\] - ", CHANGELOG.read_text("utf-8"), re.MULTILINE)
    [cited] = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert PROJECT["version"] == st_static.__version__ == released[0] == cited


def test_each_method_names_what_runs_it() -> None:
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line[:1] == "|"]
    [program] = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(rows) > 16
    for method, in_short, runs in rows[2:]:
        kinds = re.findall(r"`(?:st-static evaluate )?([\w-]+):[A-Z,]+`", runs)
        losses = re.findall(r"`(\w+Loss)`", runs)
        scripts = re.findall(r"\(\.\./(examples/\w+\.py)\)(?: `(.*?)`)?", runs)
        assert kinds or losses or scripts or "`st-static build " in runs, method
        assert in_short.strip()
        assert set(kinds) <= set(all_peers())
        assert all(f"{name}" in program for name in losses)
        for script, options in scripts:
            source = (ROOT / script).read_text("utf-8")
            assert all(f'"{name}"' in source for name in re.findall(r"--\w+", options))


def test_every_benchmark_is_named_by_a_page() -> None:
    text = "\n".join(page.read_text("utf-8") for page in [*PAGES, *MODEL_CARDS])
    benchmarks = {path.name for path in (ROOT / "benchmarks").iterdir() if path.is_file()}
    assert {name for name in benchmarks if name not in text} == set()


@pytest.mark.parametrize("page", MEASUREMENTS, ids=lambda page: page.name)
def test_a_page_of_measurements_has_short_tables_and_commands_that_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert max(map(len, map(str.splitlines, tables)), default=0) <= 2 + 12
    named = re.findall(r"\b(?:benchmarks|examples|recipes)/\w+\.(?:py|yaml)", text)
    assert {name for name in named if not (ROOT / name).is_file()} == set()


@pytest.mark.parametrize("page", MEASUREMENTS[1:], ids=lambda page: page.name)
def test_a_section_of_measurements_begins_with_its_decision(page: Path) -> None:
    sections = re.split(r"^(?=###? )", page.read_text("utf-8"), flags=re.M)[1:]
    for section in sections:
        heading, _, text = section.partition("\n\n")
        first, *_ = text.split("\n\n")
        assert first.startswith("**"), heading
        assert "What would change that: " in " ".join(first.split()), heading


@pytest.mark.parametrize("file", DATA, ids=lambda file: file.name)
def test_a_table_beside_the_measurements_is_linked_and_whole(file: Path) -> None:
    assert any(f"](data/{file.name})" in page.read_text("utf-8") for page in MEASUREMENTS)
    heading, *rows = csv.reader(file.read_text("utf-8").splitlines())
    assert rows
    assert len(set(heading)) == len(heading)
    assert {len(row) for row in rows} == {len(heading)}


def measured() -> list[dict[str, str]]:
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", measured(), ids=lambda row: f"{row['model']} {row['encoder']}")
def test_a_score_of_the_figure_is_what_its_source_says(row: dict[str, str]) -> None:
    if row["source"]:
        facts = json.loads((ROOT / row["source"]).read_text("utf-8"))
        scores = {entry["model"]: entry[AVERAGE] for entry in facts["scores"]["rows"]}
        assert row["score"] == f"{scores[row['model']]:.2f}"


def test_the_figure_is_drawn_from_the_measured_rows(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "quality_and_speed_figure.py"
    said = output_here(script, "--output", str(tmp_path / "figure.png"))
    assert said.startswith(f"{len(measured()) - 1} points")  # the teacher is a line
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_readme_tells_the_results_of_the_cards() -> None:
    readme = README.read_text("utf-8")
    for name in ("english-384", "quickstart"):
        facts = json.loads((ROOT / "model_cards" / f"{name}.json").read_text("utf-8"))
        rows = {entry["model"]: entry for entry in facts["scores"]["rows"]}
        columns = [column for column in facts["scores"]["columns"] if column[0].isupper()]
        [line] = [line for line in readme.splitlines() if line.startswith(f"| **[{name}]")]
        assert [f"{rows[name][column]:.2f}" for column in columns] == re.findall(r"\d+\.\d\d", line)


def test_the_readme_tells_the_scores_and_speeds_of_the_figure() -> None:
    [table] = re.findall(r"^\| model \| Class.*?\n\n", README.read_text("utf-8"), re.M | re.S)
    columns, _, *rows = map(cells, table.strip().splitlines())
    in_readme = [
        (row[columns.index(AVERAGE)], encoder, int(speed.replace(",", "")))
        for row in rows
        for encoder, speed in zip(columns[-3:], row[-3:], strict=True)
        if speed
    ]
    in_figure = [
        (row["score"], row["encoder"], int(row["sentences_per_second"])) for row in measured()
    ]
    assert sorted(in_readme) == sorted(in_figure)


@pytest.mark.parametrize("name", sorted(set(st_static.__all__) - {"__version__"}))
def test_a_public_name_shows_a_use_that_is_run(name: str) -> None:
    docstring = getattr(st_static, name).__doc__
    programs = re.findall(r"`(examples/\w+\.py)`", docstring)
    assert "Example:" in docstring
    assert ">>> " in docstring or programs  # tests/test_doctests.py or tests/test_examples.py
    assert all((ROOT / program).is_file() for program in programs)


def test_users_need_no_name_from_inside_the_package() -> None:
    for page in [README, *DOCS]:
        assert not re.findall(r"(?:from|import) st_static\.", page.read_text("utf-8"))
