"""The docstring reader: files found without import, docstrings cleaned to prose."""

import logging
import sys
from inspect import cleandoc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.distill.corpus.docstrings import clean_docstring, read_docstrings


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on the import path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_reads_every_definition_in_source_order_and_imports_nothing(site: Path) -> None:
    source = '''"""The module has a docstring."""
class A:
    """The class has one too."""
    def method(self):
        """A method says what it does."""
        def inner():
            """A nested function may explain itself."""
try:
    pass
except ValueError:
    async def fallback():
        """A fallback hides in a handler."""
def bare():
    "not a docstring" + "because it is an expression"
raise SystemExit(1)
'''
    write(
        site, {"ds_kinds/__init__.py": source, "ds_kinds/part/leaf.py": '"""Found by its path."""'}
    )
    assert list(read_docstrings(["ds_kinds.part.leaf"])) == ["Found by its path."]
    assert list(read_docstrings(["ds_kinds"])) == [
        *["The module has a docstring.", "The class has one too."],
        "A method says what it does.",
        "A nested function may explain itself.",
        *["A fallback hides in a handler.", "Found by its path."],
    ]
    assert not any(name.startswith("ds_kinds") for name in sys.modules)


def test_order_is_by_package_then_path_and_repeats_and_tests_are_left_out(site: Path) -> None:
    names = ["z", "b/one", "b/tests/two", "a/three", "test_four", "conftest", "_vendor/five"]
    write(site, {f"ds_b/{name}.py": f'"""The docstring of {name[-3:]}."""' for name in names})
    write(site, dict.fromkeys(("ds_a.py", "ds_c.py"), '"""A module that stands alone."""'))
    expected = [f"The docstring of {name}." for name in ("ree", "z", "one")]
    expected += ["A module that stands alone."]
    assert list(read_docstrings(["ds_b.a", "ds_b", "ds_a", "ds_c", "ds_b.z"])) == expected


def test_broken_files_are_skipped_and_counted(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {"bad": '"""This does not parse."""\ndef (:', "null": '"""A null byte\0 is here."""'}
    files["good"] = '"""This file does parse."""\nx = "\\d"\n'
    write(site, {f"ds_broken/{name}.py": text for name, text in files.items()})
    (site / "ds_broken/latin.py").write_bytes(b'# coding: latin-1\n"""The caf\xe9 is open."""')
    with caplog.at_level(logging.INFO, logger="st_static.distill.corpus.docstrings"):
        documents = list(read_docstrings(["ds_broken"]))
    assert documents == ["This file does parse.", "The café is open."]
    assert [record.getMessage() for record in caplog.records] == [
        "2 docstrings in 4 files; 2 files do not parse"
    ]


@pytest.mark.parametrize("name", ["ds_absent", "json.absent", "json.decoder.absent", "", "."])
def test_missing_package_is_an_error_at_the_call(name: str) -> None:
    with pytest.raises(ValueError, match=f"Package '{name}' is not installed"):
        read_docstrings(["json", name])


def test_other_bad_names_are_errors_at_the_call(site: Path) -> None:
    (site / "ds_empty").mkdir()
    with pytest.raises(ValueError, match=r"but got 'json': give \['json'\]"):
        read_docstrings("json")
    for name in ("sys", "ds_empty"):  # a built-in module; a folder without Python files
        with pytest.raises(ValueError, match=f"'{name}' has no Python source"):
            read_docstrings([name])


def test_standard_library() -> None:
    documents = list(read_docstrings(["json", "csv", "json.decoder"]))
    assert documents == list(read_docstrings(["json", "csv"]))
    assert "JSON (JavaScript Object Notation)" in documents[0]
    assert len(next(read_docstrings(["stdlib"])).split()) >= 3


NUMPY = (
    "Parameters\n----------\nx : int\n    The first\n    of two.\n\nNotes\n-----\nKept as it is.\n"
)
REFERENCES = "\nReferences\n----------\nA book on all of it."
BLOCKS = {
    "a wrapped\nline and\n\na new paragraph\n": "a wrapped line and|a new paragraph",
    "- the first\n  item\n2. the second one": "the first item|the second one",
    ">>> call(it)\nthe output is here\n\nThis is text.": "This is text.",
    "```python\nthis is all code\n```\nThis is text.": "This is text.",
    "There it is::\n\n    this is all code\n\nText goes on.": "There it is:|Text goes on.",
    "from a.b import c\nx.y = a of the c\nf(all of these)\n": "",
    ".. note:: Mind the gap.\n.. math::\n    a is for b\n.. [1] A paper on it.": "Mind the gap.",
    "===  =====\na    table of it\n===  =====\n\n| a table of | it |\n": "",
    "A Heading Is Dropped\n====================\nThis is text.": "This is text.",
    ":param int x: the first\n    of two\n:returns: sum of both": "the first of two|sum of both",
    "@param x: the first of two\n@return: sum of both": "the first of two|sum of both",
    "Args:\n    x (int): The first\n        of two.\n    y: No use.": "The first of two.",
    NUMPY + REFERENCES: "The first of two.|Kept as it is.",
    "It is:\na : int\n    The first of two.\n'b' : of no use": "The first of two.|of no use",
}


@pytest.mark.parametrize("docstring", BLOCKS)
def test_blocks(docstring: str) -> None:
    prose = clean_docstring(f"What it does.\n\n{docstring}")
    assert prose.split("\n") == ["What it does.", *filter(None, BLOCKS[docstring].split("|"))]


@pytest.mark.parametrize(
    ("markup", "prose"),
    [
        ("Use ``this code`` and `that name`.", "Use this code and that name."),
        ("See :class:`~package.module.Name` for it.", "See Name for it."),
        ("Read `the guide <https://x.org/a>`_ for more.", "Read the guide for more."),
        ("Read [the guide](https://x.org/a) for more.", "Read the guide for more."),
        ("This is **very** *important* for all.", "This is very important for all."),
        ("It was shown before [1]_ that it works.", "It was shown before that it works."),
        ("Mind the gap (https://x.org), please.", "Mind the gap, please."),
        ("A lone surrogate \ud800 is not text.", "A lone surrogate is not text."),
        ("More is at https://x.org for all. This stays as it is.", "This stays as it is."),
        ("The method is described in [1]_.", ""),
        ("x**2 + y**2 - 2*x*y + 1", ""),
        ("Computes \\frac{a}{b} of the two numbers.", ""),
    ],
)
def test_inline_markup(markup: str, prose: str) -> None:
    assert clean_docstring(markup) == prose


LINES = "Prose of words.|    indented|Args:|x : int|    y (int): text|.. note:: words|..|>>> f()"
LINES += "|that ends::|=== ===|-----|```|- item|:param x: words|: :|@param x: a|((((((((|`a` [1]_ ["


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.sampled_from(LINES.split("|")) | st.text("aB1 .:`*[]()<>_\\-=@\t\u2028\ud800")))
def test_any_text_gives_clean_paragraphs(lines: list[str]) -> None:
    for paragraph in filter(None, clean_docstring(cleandoc("\n".join(lines))).split("\n")):
        assert paragraph == " ".join(paragraph.split())
        assert len(paragraph.encode("utf-8").split()) >= 3
