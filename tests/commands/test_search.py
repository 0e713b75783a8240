"""The command `search`, with the model of the package."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from terminals import run_at_a_terminal

from st_static import FastEncoder, SearchIndex
from st_static.cli import main

MODEL = "st-static/english-384"
TICKETS = "id,title,text\n7,Login,Reset your password\n8,None,\n9,Crash,Error Zzqx77\n"


@pytest.fixture(autouse=True)
def tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickets.csv").write_text(TICKETS)
    (tmp_path / "lines.txt").write_text("Reset your password\nOpening hours\n")
    return tmp_path


def test_an_index_is_built_and_opened_in_other_processes() -> None:
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL]
    built = [*command, "--input", "tickets.csv", "--keep", "id,title", "--index", "i", "log in"]
    first = subprocess.run(built, capture_output=True, text=True, check=True)
    assert first.stdout.splitlines()[0] == "log in"
    assert first.stdout.splitlines()[1].split()[1:4] == ["1", "7", "Login"]
    assert "3 texts in" in first.stderr
    assert "1 without a known word" in first.stderr
    opened = [*command, "--index", "i", "--output", "hits.jsonl"]
    subprocess.run(opened, input="zzqx77\n\nlog in\n", text=True, check=True)
    rows = [json.loads(line) for line in Path("hits.jsonl").read_text().splitlines()]
    assert [row["query"] for row in rows] == ["zzqx77"] * 2 + ["log in"] * 2
    assert (rows[0]["id"], rows[0]["position"], rows[0]["rank"]) == ("9", 2, 1)
    assert rows[0]["words"] > 0


def test_tables_of_all_formats_give_the_same_hits(capsys: pytest.CaptureFixture) -> None:
    texts = ["Opening hours", "Log in", None]
    # A column of that name is what `encode` has written.
    rows = [{"id": i, "body": text, "embedding": [1.5]} for i, text in enumerate(texts)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path("a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pq.write_table(pa.Table.from_pylist(rows), "b.parquet")
    for name in ("a.jsonl.gz", "b.parquet"):
        options = ["--input", name, "--column", "body", "--keep", "id,body", "--top", "1"]
        options += ["--null", "empty"]
        assert main(["search", MODEL, *options, "password", "--output", "hits.parquet"]) == 0
        [row] = pq.read_table("hits.parquet").to_pylist()
        assert (row["query"], row["rank"], row["position"], row["id"]) == ("password", 1, 1, 1)
        assert row["body"] == "Log in"
    assert "1 hits: hits.parquet" in capsys.readouterr().err


def test_files_of_hits_name_positions_as_python_does() -> None:
    options = ["--input", "lines.txt", "--index", "i", "--output", "hits.jsonl"]
    assert main(["search", MODEL, *options, "password", "opening"]) == 0
    written = [json.loads(line) for line in Path("hits.jsonl").read_text().splitlines()]
    index = SearchIndex.open("i", FastEncoder.from_pretrained(MODEL))
    hits = [hit for query in ("password", "opening") for hit in index.search(query)]
    assert [(row["position"], row["words"]) for row in written] == [
        (hit.position, hit.words) for hit in hits
    ]
    assert {row["position"] for row in written} == {0, 1}
    assert [row["matched"] for row in written] == [hit.matched for hit in hits]
    assert written[0]["matched"] == ["password"]


AN_ODD_TEXT = "An accoun\x1b[31m \x9b2J of [bold]Straße :boat:"


@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_at_a_terminal_words_that_made_a_hit_are_marked(monkeypatch, no_color: str) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    texts = [AN_ODD_TEXT, "The Passwords of old people, a login" + 200 * "."]
    columns = {"id": ["old"] * 2, "text": texts}
    index = SearchIndex.build(FastEncoder.from_pretrained(MODEL), texts, columns)
    index.save("i")
    queries = ["my password is old", "STRASSE"]
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL, "--index", "i"]
    status, shown = run_at_a_terminal([*command, "--top", "1", *queries])
    assert status == 0
    assert len(shown.splitlines()) == 4  # lines are as long as they are
    if no_color:
        assert "\x1b" not in shown
        assert "(password ~ Passwords, password ~ login)" in shown
        return
    hit, _, odd = shown.splitlines()[1:]
    marked = "The \x1b[1mPasswords\x1b[0m of \x1b[1mold\x1b[0m people, a \x1b[4mlogin\x1b[0m."
    assert f"  2  \x1b[1mold\x1b[0m  {marked}" in hit
    assert hit.endswith("…  \x1b[2m(password ~ Passwords, password ~ login)\x1b[0m")
    assert odd.endswith("  An accoun\ufffd[31m \ufffd2J of [bold]\x1b[1mStraße\x1b[0m :boat:")
    _, shown = run_at_a_terminal([*command, "--top", "1", "--by", "words", queries[0]])
    assert "\x1b[1mPasswords\x1b[0m of \x1b[1mold\x1b[0m people, a login." in shown


@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
def test_a_query_that_is_typed_is_not_shown_again() -> None:
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL, "--input", "lines.txt"]
    status, shown = run_at_a_terminal([*command, "--top", "1"], typed=b"opening\n\x04")
    assert status == 0
    assert shown.count("opening") == 1  # the terminal's echo
    assert "hours" in shown


def test_in_a_pipe_nothing_is_marked(capsys: pytest.CaptureFixture) -> None:
    Path("lines.txt").write_text(AN_ODD_TEXT + "\n")
    assert main(["search", MODEL, "--input", "lines.txt", "--by", "words", "Straße \x1b[1m"]) == 0
    query, hit = capsys.readouterr().out.splitlines()
    assert query == "Straße \ufffd[1m"
    assert hit.split("  ")[2:] == ["1", "An accoun\ufffd[31m \ufffd2J of [bold]Straße :boat:"]


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="there is no such file")
def test_a_pipe_can_be_searched() -> None:
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL, "--input", "/dev/stdin"]
    options = ["--input_format", "txt", "--top", "1", "opening"]
    found = subprocess.run(
        [*command, *options], input="A cat\nOpening hours\n", capture_output=True, text=True
    )
    assert found.stdout.splitlines()[1].endswith("2  Opening hours"), found.stderr


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no such device")
def test_a_device_is_no_file_of_texts(capsys: pytest.CaptureFixture) -> None:
    assert main(["search", MODEL, "--input", "/dev/null", "--input_format", "txt", "query"]) == 1
    assert "/dev/null is a pipe or a device: name a file." in capsys.readouterr().err


def test_numbers_that_json_lacks_become_null_and_no_hit_leaves_the_columns() -> None:
    table = pa.table({"text": ["my password", "!?"], "size": [float("nan"), 1.0]})
    pq.write_table(table, "a.parquet")
    options = ["--input", "a.parquet", "--keep", "text,size", "--top", "1"]
    assert main(["search", MODEL, *options, "password", "--output", "hits.jsonl"]) == 0
    line = Path("hits.jsonl").read_text()
    assert "NaN" not in line
    assert json.loads(line)["size"] is None
    command = [*options, "--by", "words", "zzz", "--output", "none.parquet"]
    assert main(["search", MODEL, *command]) == 0
    found = pq.read_table("none.parquet")
    assert len(found) == 0
    names = ["query", "rank", "position", "score", "meaning", "words", "matched", "text", "size"]
    assert found.column_names == names
    assert found.schema.field("matched").type == pa.list_(pa.string())


def test_numbers_inside_of_lists_become_null_too() -> None:
    table = pa.table({"text": ["my password"], "sizes": [[float("inf"), 1.0]]})
    pq.write_table(table, "sizes.parquet")
    options = ["--input", "sizes.parquet", "--keep", "sizes", "--output", "hits.jsonl"]
    assert main(["search", MODEL, *options, "password"]) == 0
    assert json.loads(Path("hits.jsonl").read_text())["sizes"] == [None, 1.0]


def test_times_that_python_lacks_are_shown_and_kept(capsys: pytest.CaptureFixture) -> None:
    late = pa.array([253402300799000, 253402300800000, None]).cast(pa.timestamp("ms", "Asia/Tokyo"))
    pieces = pa.array([[("a", float("nan"))], [], None], pa.map_(pa.string(), pa.float64()))
    columns = {"when": late, "at": pa.array([1, 2, 3]).cast(pa.time64("ns")), "pieces": pieces}
    table = pa.table({"text": ["my password", "a password", "password"], **columns})
    table = table.append_column("kind", pa.array(["x", "y", "x"]).dictionary_encode())
    pq.write_table(table, "a.parquet")
    options = ["search", MODEL, "--input", "a.parquet", "--keep", ",".join(table.column_names)]
    assert main([*options, "password"]) == 0
    assert "  9999-12-31 23:59:59.000Z  00:00:00.000000001  " in capsys.readouterr().out
    assert main([*options, "password", "--output", "hits.jsonl"]) == 0
    lines = Path("hits.jsonl").read_text().splitlines()
    rows = {row["position"]: row for line in lines for row in [json.loads(line)]}
    whens = [rows[row]["when"] for row in (0, 1, 2)]
    assert whens == ["9999-12-31 23:59:59.000Z", "10000-01-01 00:00:00.000Z", None]
    assert [rows[row]["pieces"] for row in (0, 1, 2)] == [[["a", None]], [], None]
    assert "NaN" not in "".join(lines)
    assert main([*options, "password", "--output", "hits.parquet"]) == 0
    found = pq.read_table("hits.parquet")
    hits = found.take(pc.sort_indices(found["position"])).select(table.column_names)
    assert hits.drop_columns("pieces").equals(pq.read_table("a.parquet").drop_columns("pieces"))
    assert found["rank"].to_pylist() == [1, 2, 3]


def test_passages_of_a_folder_are_found_by_file_and_line(
    capsys: pytest.CaptureFixture, tickets: Path
) -> None:
    folder = tickets / "docs" / "my guides"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("# Login\n\nReset your password.\n\n## Hours\n\nOpen at nine.\n")
    (tickets / "docs" / "b.txt").write_bytes(b"\xff")
    options = ["search", MODEL, "--input", "docs", "--index", "i", "--top", "1"]
    assert main([*options, "password", "opening hours"]) == 0
    first = capsys.readouterr()
    assert [line.split("  ")[2:] for line in first.out.splitlines()[1::2]] == [
        ["my guides/a.md:1", "Login Reset your password."],
        ["my guides/a.md:5", "Login > Hours Open at nine."],
    ]
    assert "2 texts in" in first.err
    assert main(["search", MODEL, "--index", "i", "--top", "1", "password", "opening hours"]) == 0
    assert capsys.readouterr().out == first.out
    assert main([*options[:4], "--top", "1", "password", "--output", "hits.parquet"]) == 0
    found = pq.read_table("hits.parquet")
    assert found.column_names[-3:] == ["text", "file", "line"]
    assert found.select(["file", "line"]).to_pylist() == [{"file": "my guides/a.md", "line": 1}]
    assert main([*options[:4], "--top", "1", "--keep", "line,file", "password"]) == 0
    assert capsys.readouterr().out.split("  ")[2:] == ["my guides/a.md:1\n"]


def test_the_first_hits_of_an_index_do_not_wait_for_pandas() -> None:
    pytest.importorskip("pandas")
    assert main(["search", MODEL, "--input", "lines.txt", "--index", "i"]) == 0
    program = (
        "import sys; from st_static.cli import main; main(sys.argv[1:]); "
        "sys.exit('pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "search", MODEL, "--index", "i", "opening"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Opening hours" in found


def test_what_a_folder_has_beside_documents_is_said(tickets: Path) -> None:
    (tickets / "docs").mkdir()
    (tickets / "docs" / "a.md").write_text("Opening hours")
    (tickets / "docs" / "b.txt").write_bytes(b"\xff")
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL, "--input", "docs", "hours"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert said.startswith("Skipped files that are not text in UTF-8: 1, such as b.txt.\n")


def test_the_name_of_a_file_does_not_command_the_terminal(capsys, tickets: Path) -> None:
    (tickets / "docs").mkdir()
    (tickets / "docs" / "a  \x1b[1m\n.md").write_text("Opening hours")
    assert main(["search", MODEL, "--input", "docs", "hours"]) == 0
    hit = "a  \ufffd[1m\ufffd.md:1  Opening hours"
    assert capsys.readouterr().out.splitlines()[1].endswith(hit)


def test_a_folder_without_documents_ends_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture, tickets: Path
) -> None:
    (tickets / "docs").mkdir()
    assert main(["search", "no/model", "--input", "docs", "query"]) == 1
    assert "no document to read in docs" in capsys.readouterr().err


def test_queries_that_are_not_unicode_are_asked_as_far_as_they_are() -> None:
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL, "--input", "lines.txt"]
    found = subprocess.run(command, input=b"\xff hours\n", capture_output=True, check=True).stdout
    assert "Opening hours" in found.decode().splitlines()[1]


def test_what_the_model_does_not_know_is_said(capsys: pytest.CaptureFixture) -> None:
    Path("lines.txt").write_text("Opening hours\n🎉 \u16a0\u16a2\n")
    assert main(["search", MODEL, "--input", "lines.txt", "\u16a0\u16a2", "🎉"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].endswith("2  🎉 \u16a0\u16a2  (by its words alone)")
    assert "has no vector for '\u16a0\u16a2': BM25 alone ranks." in printed.err
    assert main(["search", MODEL, "--input", "lines.txt", "--by", "meaning", "\u16a0\u16a2"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "\u16a0\u16a2\n"
    assert "has no vector for '\u16a0\u16a2': nothing is found by meaning." in printed.err
    assert main(["search", MODEL, "--input", "lines.txt", "--by", "words", "dog"]) == 0
    assert "Nothing was found for 'dog'." in capsys.readouterr().err


def test_only_hits_with_the_least_score_are_shown_and_written(capsys) -> None:
    options = ["search", MODEL, "--input", "lines.txt", "--at_least", "0.3"]
    assert main([*options, "my password", "opening times"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in shown] == [
        "my password",
        "Reset your password",
        "opening times",
        "Opening hours",
    ]
    assert main([*options, "my password", "--output", "hits.jsonl"]) == 0
    [row] = map(json.loads, Path("hits.jsonl").read_text().splitlines())
    assert row["text"] == "Reset your password"


def test_a_score_that_nothing_reaches_is_told_with_the_best(capsys) -> None:
    options = ["search", MODEL, "--input", "lines.txt", "password"]
    assert main([*options, "--top", "1"]) == 0
    best = capsys.readouterr().out.splitlines()[1].split()[0]
    assert main([*options, "--at_least", "0.95"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "password\n"
    says = f"Nothing was found for 'password': nothing reaches 0.95, the best has {best}."
    assert says in printed.err
    assert main([*options, "--at_least", "0.1", "--by", "words"]) == 0
    assert main([*options[:-1], "zzz", "--at_least", "0.1", "--by", "words"]) == 0
    assert "Nothing was found for 'zzz'." in capsys.readouterr().err


def test_hits_that_are_hardly_better_than_chance_are_marked(capsys) -> None:
    mark = "(hardly better than chance)"
    options = ["search", MODEL, "--input", "lines.txt", "password", "volcanic sediments"]
    assert main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith(mark) for line in lines] == [False, False, True, False, True, True]
    assert main([*options, "--by", "words"]) == 0
    assert mark not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "Name the texts to search in with --input FILE, or a saved index with --index DIR."),
        (["--index", "i", "--keep", "id"], "--keep is about a file of texts: add --input"),
        (["--index", "nothere"], "There is no index in nothere. Build one first"),
        (["--index", "i", "--null", "empty"], "--null is about a file of texts: add --input"),
        (["--input", "nothere.csv"], "There is no file nothere.csv."),
        (["--input", "folder"], "There is no document to read in folder: expected text in UTF-8"),
        (["--input", "docs", "--column", "a"], "--column is about a table, but docs is a folder:"),
        (["--input", "docs", "--null", "empty"], "--null is about a table, but docs is a folder:"),
        (["--input", "docs", "--quoting", "none"], "--quoting is about a table, but docs is a"),
        (["--input", "docs", "--input_format", "txt"], "--input_format is about a table, but docs"),
        (
            ["--input", "docs", "--keep", "id"],
            "There is no column 'id' in docs. Its columns are te",
        ),
        (["--input", "missing.jsonl"], "missing.jsonl, line 2: expected a text, but it is missing"),
        (["--input", "lines.txt", "--column", "text"], "--column names a column, but lines.txt is"),
        (
            ["--input", "tickets.csv", "--column", "body"],
            "There is no column 'body' in tickets.csv",
        ),
        (["--input", "tickets.csv", "--keep", "id,x"], "There is no column 'x' in tickets.csv."),
        (["--input", "tickets.csv", "--top", "0"], "--top is a number of hits, at least 1, but it"),
        (
            ["--input", "nothere.csv", "--at_least", "nan"],
            "--at_least is a score, such as 0.3, but",
        ),
        (["--input", "nothere.csv", "--at_least", "1e39"], "--at_least is a score, such as 0.3"),
        (["--input", "tickets.csv", "--output", "a.txt"], "a.txt: expected a name that ends with"),
        (["--input", "a.jsonl", "--output", "a.jsonl"], "a.jsonl is the input: it would be over"),
        (
            [
                "--input",
                "nothere.csv",
                "--keep",
                "id,rank",
                "--output",
                "a.jsonl",
            ],  # before reading
            "The column 'rank' has the name of one of --output: rename it.",
        ),
        (["--input", "tickets.csv", "--index", "."], "The output . is the folder that you are in"),
        (["--input", "empty.txt"], "There are no texts to search in: empty.txt has none."),
    ],
)
def test_what_search_refuses(capsys: pytest.CaptureFixture, options, says: str) -> None:
    Path("empty.txt").touch()
    Path("folder").mkdir()
    Path("docs").mkdir()
    Path("docs", "a.md").write_text("A text")
    Path("missing.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    assert main(["search", MODEL, *options, "query"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"Error: {says}")


def test_neither_a_model_nor_a_query_is_missing(capsys: pytest.CaptureFixture) -> None:
    assert main(["search"]) == 1
    assert capsys.readouterr().err.startswith("Error: Name the texts to search in with --input")


def test_quotes_and_formats_are_taken_as_they_are_named(capsys: pytest.CaptureFixture) -> None:
    Path("notes.log").write_text('id\ttext\n1\t"Opening hours\n2\tReset "it"\n')
    arguments = ["search", MODEL, "--input", "notes.log", "--top", "1", "opening"]
    assert main([*arguments, "--input_format", "tsv", "--quoting", "none"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith('1  "Opening hours')


def test_an_output_without_a_query_is_refused(capsys: pytest.CaptureFixture) -> None:
    options = ["--input", "tickets.csv", "--index", "i", "--output", "hits.jsonl"]
    assert main(["search", MODEL, *options]) == 1
    said = capsys.readouterr().err
    assert said == "Error: --output hits.jsonl is for hits: name a query, too.\n"
    assert not Path("i").exists()


WHERE = ["--input", "prices.jsonl", "--keep", "id,price", "--index", "i"]


@pytest.fixture
def prices(tickets: Path) -> None:
    rows = [(1, "Reset your password", 5), (2, "Log in", 20), (3, "Opening hours", None)]
    lines = [json.dumps({"id": i, "text": text, "price": price}) for i, text, price in rows]
    (tickets / "prices.jsonl").write_text("\n".join(lines))


@pytest.mark.usefixtures("prices")
def test_only_texts_that_pass_are_found(capsys: pytest.CaptureFixture) -> None:
    assert main(["search", MODEL, *WHERE, "--where", "price < 10 or id = 3", "password"]) == 0
    shown = [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert shown == ["1", "3"]
    opened = ["search", MODEL, "--index", "i", "--where", "price > 10", "password", "log in"]
    assert main([*opened, "--output", "hits.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("hits.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [2, 2]
    assert main([*opened[:-3], "price > 100", "password"]) == 0
    says = "Nothing was found for 'password': no text passes price > 100.\n"
    assert says in capsys.readouterr().err


@pytest.mark.usefixtures("prices")
def test_a_wrong_condition_ends_the_command_before_texts_are_encoded(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ["search", MODEL, *WHERE, "query", "--where"]
    with monkeypatch.context() as patched:
        patched.setattr(FastEncoder, "encode_document", None)
        for where in ("text = 'a'", "price <", "price", "true"):
            assert main([*refused, where]) == 1
            assert f"Error: --where {where!r}" in capsys.readouterr().err
        assert main([*refused, "text = reset"]) == 1
        assert "Text is in single quotes." in capsys.readouterr().err
        assert not Path("i").exists()
    assert main(["search", MODEL, *WHERE]) == 0
    capsys.readouterr()
    assert main(["search", MODEL, *WHERE, "--where", "id < 3"]) == 1
    said = capsys.readouterr().err
    assert said == "Error: --where id < 3 is for hits: name a query, too.\n"


@pytest.mark.usefixtures("prices")
def test_a_command_with_a_condition_prints_no_more_than_others() -> None:
    """Not what DuckDB's bindings say of objects that are there at exit."""
    command = [sys.executable, "-m", "st_static.cli", "search", MODEL, *WHERE, "log in"]
    result = subprocess.run([*command, "--where", "id = 1"], capture_output=True, check=True)
    assert result.stdout.count(b"\n") == 2
    assert result.stderr.count(b"\n") == 1, result.stderr


@pytest.mark.usefixtures("prices")
def test_columns_that_are_not_kept_are_said(capsys: pytest.CaptureFixture) -> None:
    assert main(["search", MODEL, *WHERE]) == 0
    capsys.readouterr()
    assert main(["search", MODEL, "--index", "i", "--where", "text = 'a'", "query"]) == 1
    said = capsys.readouterr().err
    assert 'column "text" not found' in said
    assert said.endswith(
        "The index has the columns id, price; others get into it by --keep, when it is built.\n"
    )


@pytest.mark.parametrize(
    ("names", "queries"),
    [
        (["log in"], ["log in"]),
        (["opening"], ["opening"]),
        (["What is in /etc/passwd?"], ["What is in /etc/passwd?"]),
        (["log in", "opening"], ["log in", "opening"]),
        ([MODEL, "opening"], ["opening"]),
    ],
)
def test_without_a_model_the_one_in_the_package_is_taken(names, queries, capsys) -> None:
    assert main(["search", *names, "--input", "lines.txt", "--output", "hits.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("hits.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(row["query"] for row in rows)) == queries
    said = f"No model is named: taking {MODEL}."
    assert (said in capsys.readouterr().err) == (MODEL not in names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["modle", "opening"], "There is no model 'modle': a model is a folder, or ORG/NAME. Put"),
        (["english-384", "opening"], "Did you mean st-static/english-384?"),
        (["how", "to", "log", "in"], "Put a query of several words in quotes, and name a model"),
        (["english-384"], "the model 'english-384' is neither"),
        ([""], "Expected a model or a query, but got an empty text."),
        (["models/none"], "the model 'models/none' is neither"),
        (["lines.txt"], "lines.txt is a file, and no model. If it has the texts, say --input li"),
    ],
)
def test_a_misspelt_model_is_no_query(names, message, capsys, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["search", *names, "--input", "lines.txt"]) == 1
    assert message in capsys.readouterr().err
