"""Read English prose that every machine has, docstrings of installed Python packages: `ast` takes
them out of source files, without an import; `docstring_parser` finds descriptions in them."""

from __future__ import annotations

import ast
import logging
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from docstring_parser import DocstringStyle, ParseError, parse

logger = logging.getLogger(__name__)

# Folders that hold tests, an editor, or copies of other packages.
_SKIPPED_FOLDERS = {"_vendor", "externals", "idlelib", "site-packages", "test", "tests"}
_SOURCE_FILE = re.compile(r"(?!test_|conftest\.).*\.py$")


def read_docstrings(packages: Sequence[str]) -> Iterator[str]:
    """Read the docstrings of packages, or of "stdlib", as documents of prose, one paragraph per
    line; at once, a ValueError names a package without Python source here."""
    return _documents(source_files(packages))


def source_files(packages: Sequence[str]) -> list[Path]:
    """List the source files of packages, or of "stdlib"; errors are those of `read_docstrings`."""
    if isinstance(packages, str):
        raise ValueError(f"Expected a list of packages, but got {packages!r}: give [{packages!r}].")
    return list(dict.fromkeys(chain.from_iterable(map(_source_files, packages))))


def _source_files(name: str) -> list[Path]:
    """List the source files that `name` stands for, sorted."""
    if name == "stdlib":
        return _files_under(sysconfig.get_path("stdlib"))
    spec = _find_spec(name)
    if spec is None:
        raise ValueError(f"Package {name!r} is not installed; install it, or leave it out.")
    if spec.submodule_search_locations is not None:
        files = list(chain.from_iterable(map(_files_under, spec.submodule_search_locations)))
    else:
        files = [Path(spec.origin)] if spec.origin and spec.origin.endswith(".py") else []
    if not files:
        raise ValueError(f"Package {name!r} has no Python source to read; leave it out.")
    return files


def _find_spec(name: str) -> ModuleSpec | None:
    """Find a module without importing its parents, as `importlib.util.find_spec` would."""
    top, *submodules = name.split(".")
    if not all(part.isidentifier() for part in (top, *submodules)):
        return None
    spec = PathFinder.find_spec(top) or find_spec(top)
    for part in submodules:
        folders = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(part, folders) if folders else None
    return spec


def _files_under(root: str) -> list[Path]:
    """List the Python files of a folder without tests and vendored code."""
    files: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        files += [Path(folder, name) for name in sorted(names) if _SOURCE_FILE.match(name)]
    return files


def _documents(files: Sequence[Path]) -> Iterator[str]:
    """Yield the cleaned, distinct docstrings of files; log how many files did not parse."""
    seen: set[str] = set()
    n_read = n_skipped = 0
    for file in files:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in other people's code
                tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            n_skipped += 1
            continue
        for docstring in _docstrings(tree):
            document = "" if docstring in seen else clean_docstring(docstring)
            seen.add(docstring)
            if document:
                n_read += 1
                yield document
    skipped = f"; {n_skipped:,} files do not parse" if n_skipped else ""
    logger.info("%s docstrings in %s files%s", f"{n_read:,}", f"{len(files):,}", skipped)


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions, in source order."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _docstrings(child)


def _rules(*rules: tuple[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.M), replacement) for pattern, replacement in rules]


# Blocks of a docstring that are not prose, with their replacements.
_INDENTED = r"(?:\n *$|\n\1 +\S.*)*"
_BLOCKS = _rules(
    # From a doctest prompt or the border of a table to the next blank line.
    (r"^ *(?:>>>|In \[|=+ +=|\+[-=]|\|).*(?:\n.*\S.*)*", ""),
    (r"^ *(```|~~~)[^`]*?\n *\1", ""),  # between Markdown fences
    # Notes and the like keep their text; other directives, comments and footnotes go.
    (r"^( *)\.\. (?:note|warning|tip|important|deprecated|version\w+):: *[\d.]*", r"\n\1"),
    (rf"^( *)\.\.(?: .*)?${_INDENTED}", ""),
    (rf"^( *)(\S.*)?:: *${_INDENTED}", r"\1\2:\n"),  # a literal block
)
# Lines of a description that stand between paragraphs, and marks that open a paragraph.
_BREAK = re.compile(
    r"""
      ^(?:.*\n)?[ ]*([-=~^*#+"'`._])\1{2,}[ ]*$               # a rule, and the heading above it
    | ^[ ]*[\w.]+(?:[ ]=[ ].*|\(.*\)(?:[ ]*->.*)?)$           # an assignment, a call
    | ^[ ]*(?:import|from)[ ][\w.]+(?:[ ]import[ ].*)?$
    | ^([ ]*)['"\w*., ]+[ ]:.*$(?=\n\2[ ]+[A-Z])              # "name : type" above a text
    | ^[ ]*(?:[-*+•]|\(?\w{1,2}[.)]|\[\d+\])[ ]+(?=\S)        # a list item
    | ^[ ]*['"]?[\w.*]+['"]?(?:[ ](?::|--?|=>)[ ]+(?=\S)|:[ ]+(?=[A-Z]))  # "name: Text"
    """,
    re.M | re.X,
)
_HAS_MARKUP = re.compile(r"[`*<\\]|\]\(|\]_|://")
_INLINE = _rules(
    (r"\[([^\[\]]*)\]\([^()\s]*\)", r"\1"),  # [text](target)
    (r" ?(?:<\w+://[^<>]*>|\(\w+://[^()\s]*\))", ""),
    (r":[a-zA-Z][\w:+-]*:(?=`)", ""),  # a role
    (r"`([^`<]+?)\s*<[^`<>]*>`", r"`\1`"),  # `text <target>`
    (r"`[~!](?:\w+\.)*([^`]*)`", r"\1"),  # `~package.Name`
    (r"`(\w+)'", r"\1"),
    (r"`+(?:_+(?!\w))?", ""),
    (r"(?<!\bin|\bof|\bby)(?<!see|See) \[[#*\w-]+\]_", ""),  # a footnote the text can spare
    (r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]*[^\s*])\1(?![\w*])", r"\2"),  # emphasis
    (r"\\([*_`|<>\\ ])", r"\1"),
)
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z\"'(])")
_WORD = re.compile(r"(?<!\S)[\"'(\[]*[A-Za-z]+(?:['/-][A-Za-z]+)*[\"')\],.;:!?]*(?!\S)")
_SYMBOL = re.compile(r"://|[\\{}|$]|[=-]>|\]_")


def clean_docstring(docstring: str) -> str:
    r"""Reduce a docstring without its indentation to its prose, one paragraph per line."""
    docstring = docstring.encode("utf-8", "ignore").decode()  # drops lone surrogates
    for pattern, replacement in _BLOCKS:
        docstring = pattern.sub(replacement, docstring)
    parsed = None
    if "\n---" not in docstring:  # automatic detection is slow on numpydoc's long docstrings,
        with suppress(IndexError, ParseError):  # and fails on malformed fields such as ": :"
            parsed = parse(docstring)
    parsed = parsed or parse(docstring, DocstringStyle.NUMPYDOC)
    items = [item for item in parsed.meta if item.args[:1] not in (["references"], ["see_also"])]
    paragraphs = (
        _clean_paragraph(paragraph)
        for description in (parsed.description, *(item.description for item in items))
        for paragraph in re.split(r"\n\s*\n", _BREAK.sub("\n\n", description or ""))
    )
    return "\n".join(filter(None, paragraphs))


def _clean_paragraph(paragraph: str) -> str:
    """Join the lines of a paragraph, strip inline markup, drop sentences that are not prose."""
    paragraph = " ".join(paragraph.split())
    if _HAS_MARKUP.search(paragraph):
        for pattern, replacement in _INLINE:
            paragraph = pattern.sub(replacement, paragraph)
    return " ".join(filter(_is_prose, _SENTENCE_END.split(paragraph)))


def _is_prose(sentence: str) -> bool:
    """Tell whether most of a sentence is words, not code, a formula, names or an address."""
    n_needed = max(3, 0.7 * (sentence.count(" ") + 1))
    return not _SYMBOL.search(sentence) and len(_WORD.findall(sentence)) >= n_needed
