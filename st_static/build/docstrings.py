"""English prose that every machine has: the docstrings of installed Python packages.

`read_docstrings` finds the source files of packages without importing them, takes the
docstrings out with `ast`, and cleans each one to prose with `clean_docstring`. A cleaned
docstring has one paragraph a line, ready to be split into sentences.

The cleaning is a chain of small rules. Rules on lines come first, because code, tables and
parameter lists are told apart by their indentation; then lines are joined to paragraphs; then
inline markup is stripped; last, sentences that are still more symbols than words are dropped.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

__all__ = ["clean_docstring", "read_docstrings"]

logger = logging.getLogger(__name__)

STDLIB = "stdlib"

# Standard-library modules whose docstrings are no prose about the library.
_SKIPPED_STDLIB = frozenset(
    {"__main__", "antigravity", "idlelib", "lib2to3", "test", "this", "turtledemo"}
)
# Folders inside a package that hold tests, or copies of other packages.
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "_vendor", "_vendored", "externals", "idle_test", "node_modules"}
    | {"site-packages", "test", "tests", "third_party", "vendor", "vendored"}
)
_SKIPPED_FILE = re.compile(r"conftest\.pyi?$|test_.*\.pyi?$|.*_tests?\.pyi?$")

# --------------------------------------------------------------------------------------
# Finding source files
# --------------------------------------------------------------------------------------


def read_docstrings(packages: Sequence[str]) -> Iterator[str]:
    """Read the docstrings of packages as documents of plain prose.

    No code of the packages is run: their files are found through the import system's path
    lookup and parsed with `ast`. Tests and vendored copies of other packages are left out.

    Args:
        packages: Names to read, in this order. ``"stdlib"`` stands for the whole standard
            library; any other name is an installed package or module, dotted or not. A file
            that two names share is read once.

    Returns:
        An iterator over documents, one cleaned docstring each, in the order of `packages`, then
        of module path, then of position in the file. Each line of a document is a paragraph. A
        docstring that leaves no prose, or that occurred before, gives no document.

    Raises:
        ValueError: If `packages` is a single string, or a package is not installed or has no
            Python source. Raised at the call, before anything is read.

    Example:
        >>> documents = list(read_docstrings(["json"]))
        >>> len(documents) > 10
        True
    """
    if isinstance(packages, str):
        raise ValueError(
            f"packages must be a sequence of names, got the string {packages!r}; "
            f"pass [{packages!r}] to read that package."
        )
    files = list(dict.fromkeys(file for name in packages for file in _source_files(name)))
    return _documents(files)


def _source_files(name: str) -> list[Path]:
    """List the source files that `name` stands for, sorted by module path."""
    if name == STDLIB:
        modules = sorted(sys.stdlib_module_names - _SKIPPED_STDLIB)
        roots = [root for module in modules for root in _stdlib_roots(module)]
    else:
        roots = _package_roots(name)
    files = [file for root in roots for file in _files_under(root)]
    if not files:
        raise ValueError(
            f"Package {name!r} has no Python source to read docstrings from; "
            "leave it out of packages."
        )
    return files


def _package_roots(name: str) -> list[Path]:
    """Find the folders, or the file, of an installed package or module without importing it."""
    top, *rest = name.split(".")
    roots = _stdlib_roots(top) if top in sys.stdlib_module_names else _top_level_roots(top)
    for part in rest:
        roots = _children(roots or (), part)
    if roots is None or (rest and not roots):
        raise ValueError(
            f"Package {name!r} is not installed, so its docstrings cannot be read; install the "
            f"distribution that provides it (pip install {top}) or leave it out of packages."
        )
    return roots


def _stdlib_roots(module: str) -> list[Path]:
    """Find the folder or file of a top-level standard-library module; empty for C modules."""
    return _children([Path(sysconfig.get_path("stdlib"))], module)


def _top_level_roots(module: str) -> list[Path] | None:
    """Find the folders or file of a top-level module; empty for C modules, None if missing."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # the empty name, or a module without a spec such as __main__
        spec = None
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        return sorted(Path(folder) for folder in spec.submodule_search_locations)
    return [Path(spec.origin)] if spec.has_location and spec.origin is not None else []


def _children(folders: Iterable[Path], name: str) -> list[Path]:
    """Find the package folder or the module file called `name` in folders; the first one."""
    candidates = (path for folder in folders for path in (folder / name, folder / f"{name}.py"))
    return [path for path in candidates if path.exists()][:1]


def _files_under(root: Path) -> list[Path]:
    """List the Python files of a folder, less tests and vendored code, or a file itself."""
    if root.is_file():
        return [root] if root.suffix == ".py" else []
    files = [
        path
        for pattern in ("*.py", "*.pyi")
        for path in root.rglob(pattern)
        if path.is_file()
        and _SKIPPED_FOLDERS.isdisjoint(path.relative_to(root).parts)
        and not _SKIPPED_FILE.match(path.name)
    ]
    return sorted(files, key=lambda path: path.relative_to(root).parts)


# --------------------------------------------------------------------------------------
# Reading docstrings
# --------------------------------------------------------------------------------------


def _documents(files: Iterable[Path]) -> Iterator[str]:
    """Yield the cleaned, distinct docstrings of files; log how many files did not parse."""
    seen: set[str] = set()
    n_files = n_skipped = n_documents = 0
    for file in files:
        n_files += 1
        tree = _parse(file.read_bytes())
        if tree is None:
            n_skipped += 1
            continue
        for docstring in _docstrings(tree):
            if docstring in seen:
                continue
            seen.add(docstring)
            document = clean_docstring(docstring)
            if document:
                n_documents += 1
                yield document
    logger.info(
        "Read %d docstrings from %d files; skipped %d files that do not parse.",
        n_documents,
        n_files,
        n_skipped,
    )


def _parse(source: bytes) -> ast.Module | None:
    """Parse source code, honouring its coding line; None where it is not valid Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's code
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            pass
        try:  # bytes that break their encoding: read them as UTF-8 with replacements
            source.decode("utf-8")
        except UnicodeDecodeError:
            try:
                return ast.parse(source.decode("utf-8", "replace"))
            except (SyntaxError, ValueError, RecursionError):
                return None
    return None


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions, in source order."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring
        # Definitions are statements, so expressions (most of a tree) need no visit.
        for field in ("cases", "finalbody", "orelse", "handlers", "body"):
            children = getattr(node, field, None)
            if isinstance(children, list):
                stack.extend(reversed(children))


# --------------------------------------------------------------------------------------
# Rules on lines
# --------------------------------------------------------------------------------------

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_DIRECTIVE = re.compile(r"(\s*)\.\.(?:\s+(?:([\w:.-]+)::)?\s*(.*))?$")
_VERSION = re.compile(r"v?\d[\w.]*:?\s*")
_PROSE_DIRECTIVES = frozenset(
    {"attention", "caution", "danger", "deprecated", "error", "hint", "important", "note"}
    | {"seealso", "tip", "topic", "versionadded", "versionchanged", "warning", "admonition"}
)
_DOCTEST = re.compile(r"\s*(?:>>>|In \[\d*\]:|Out\[\d*\]:)")
_SIMPLE_TABLE = re.compile(r"\s*=+(?:\s+=+)+\s*$")
_UNDERLINE = re.compile(r"([-=~^*#+\"'`._])\1{2,}$")
_FIELD_MARKS = (":", "@")
_FIELD = re.compile(r"\s*[:@](\w+)\b([^:`]*):(?!`)(?:\s+|$)(.*)$")
_PROSE_FIELDS = frozenset(
    {"arg", "argument", "cvar", "except", "exception", "ivar", "key", "keyword", "kwarg"}
    | {"kwparam", "note", "param", "parameter", "raise", "raises", "return", "returns", "var"}
    | {"yield", "yields"}
)
_SECTION = re.compile(r"\s*(?:#+ |[*_]{0,2})([A-Z][A-Za-z ]{2,24}?) ?:?[*_]{0,2}:?\s*$")
_ENTRY_SECTIONS = frozenset(
    {"arg", "args", "argument", "arguments", "attribute", "attributes", "fields", "input"}
    | {"inputs", "keyword args", "keyword arguments", "keys", "kwargs", "members", "methods"}
    | {"optional", "options", "other parameters", "output", "outputs", "param", "parameter"}
    | {"parameters", "params", "properties", "raise", "raises", "receives", "required"}
    | {"return", "returns", "see also", "shape", "variables", "warns", "yield", "yields"}
)
_DROPPED_SECTIONS = frozenset(
    {"bibliography", "citation", "code example", "example", "example usage", "examples"}
    | {"reference", "references", "sample usage", "usage", "usage example", "usage examples"}
)


def _indent(line: str) -> int:
    """Count the leading blanks of a line."""
    return len(line) - len(line.lstrip())


def _block_end(lines: Sequence[str], start: int, indent: int) -> int:
    """Find the first line from `start` on that has text and is indented by `indent` or less."""
    for i in range(start, len(lines)):
        if lines[i] and not lines[i].isspace() and _indent(lines[i]) <= indent:
            return i
    return len(lines)


def _drop_fenced_code(lines: list[str]) -> list[str]:
    """Drop Markdown code blocks between ``` or ~~~ fences."""
    kept: list[str] = []
    fence = ""
    for line in lines:
        match = _FENCE.match(line)
        if match is None:
            if not fence:
                kept.append(line)
        elif not fence:
            fence = match[1] if line.count(match[1]) == 1 else ""
            kept.append("")
        elif match[1].startswith(fence):
            fence = ""
    return kept


def _resolve_directives(lines: list[str]) -> list[str]:
    """Drop reST directives, comments and footnotes; keep the text of notes and warnings."""
    kept: list[str] = []
    lines = list(lines)
    i = 0
    while i < len(lines):
        match = _DIRECTIVE.match(lines[i]) if ".." in lines[i] else None
        i += 1
        if match is None:
            kept.append(lines[i - 1])
            continue
        end = _block_end(lines, i, len(match[1]))
        kept.append("")
        name = (match[2] or "").lower()
        if name in _PROSE_DIRECTIVES:
            argument = _VERSION.sub("", match[3] or "", count=1)
            lines[i:end] = [match[1] + argument, *_dedent(lines[i:end], len(match[1])), ""]
        else:
            i = end
    return kept


def _dedent(lines: Sequence[str], indent: int) -> list[str]:
    """Shift a block so that its first line of text is indented by `indent`."""
    first = next((line for line in lines if line.strip()), "")
    shift = max(_indent(first) - indent, 0)
    return [line[min(shift, _indent(line)) :] for line in lines]


def _drop_doctests(lines: list[str]) -> list[str]:
    """Drop interpreter sessions: from a prompt to the next blank line."""
    kept: list[str] = []
    in_session = False
    for line in lines:
        if not line.strip():
            in_session = False
        elif _DOCTEST.match(line):
            in_session = True
        if not in_session:
            kept.append(line)
        elif kept and kept[-1]:
            kept.append("")
    return kept


def _drop_literal_blocks(lines: list[str]) -> list[str]:
    """Drop the indented block that follows a paragraph ending in ``::``."""
    kept: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i].rstrip()
        i += 1
        if not line.endswith("::"):
            kept.append(line)
            continue
        kept += [line[:-1] if line.strip() != "::" else "", ""]
        if i < len(lines) and _indent(lines[i]) <= _indent(line) and lines[i].strip():
            continue  # no block: the paragraph goes on
        i = _block_end(lines, i, _indent(line))
    return kept


def _drop_tables(lines: list[str]) -> list[str]:
    """Drop reST simple tables, grid tables and Markdown tables."""
    kept: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        if _SIMPLE_TABLE.match(line):
            borders = [j for j in range(i, len(lines)) if _SIMPLE_TABLE.match(lines[j])][:3]
            closed = [j for j in borders[1:] if j + 1 == len(lines) or not lines[j + 1].strip()]
            i = closed[0] if closed else borders[-1]
            line = ""
        kept.append("" if line.lstrip().startswith(("|", "+-", "+=")) else line)
        i += 1
    return kept


def _resolve_fields(lines: list[str]) -> list[str]:
    """Keep the prose of ``:param x: text`` and ``@param x: text``; drop other fields."""
    kept: list[str] = []
    i = 0
    while i < len(lines):
        match = _FIELD.match(lines[i]) if lines[i].lstrip()[:1] in _FIELD_MARKS else None
        i += 1
        if match is None:
            kept.append(lines[i - 1])
            continue
        end = _block_end(lines, i, _indent(lines[i - 1]))
        kept.append("")
        if match[1].lower() in _PROSE_FIELDS:
            kept += [match[3], *(line.strip() for line in lines[i:end]), ""]
        i = end
    return kept


def _is_underline(line: str) -> bool:
    """Whether a line is a row of one punctuation mark."""
    text = line.strip()
    return text[:1] == text[-1:] and _UNDERLINE.match(text) is not None


def _resolve_underlined_sections(lines: list[str]) -> list[str]:
    """Drop underlined headings and references; keep the prose of numpydoc entries."""
    starts = [
        i
        for i in range(len(lines) - 1)
        if _is_underline(lines[i + 1]) and lines[i].strip() and not _is_underline(lines[i])
    ]
    if not starts:
        return lines
    kept = lines[: starts[0]]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        title = lines[start].strip().strip("*:").lower()
        body = lines[start + 2 : end]
        kept.append("")
        if title in _ENTRY_SECTIONS:
            kept += _entries(body)
        elif title not in ("references", "bibliography", "citation"):
            kept += body
    return kept


def _resolve_labelled_sections(lines: list[str]) -> list[str]:
    """Drop labels such as ``Args:`` and indented examples; keep the prose of entries."""
    kept: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        match = _SECTION.match(line) if ":" in line or line.lstrip()[:1] in "#*" else None
        label = match[1].lower() if match is not None else ""
        if label not in _ENTRY_SECTIONS and label not in _DROPPED_SECTIONS:
            kept.append(line)
            continue
        end = _block_end(lines, i, _indent(line))
        kept.append("")
        if label in _ENTRY_SECTIONS:
            kept += [*_entries(_resolve_labelled_sections(lines[i:end])), ""]
        i = end
    return kept


# --------------------------------------------------------------------------------------
# Rules on entries of a parameter list
# --------------------------------------------------------------------------------------

_NUMPY_ENTRY = re.compile(r"(?:\S+(?:, \S+)*|[^.:]{1,60}?) ?:(?: +(.*)|$)")
_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_GOOGLE_ENTRY = re.compile(
    r"[-*]*\s?(?:(?::\w+:)?`[^`]+`|[*~\w.\\/]+(?:\[[^:]*\])?(?:, ?[*\w.]+)*)"
    rf"(?:\s*{_PARENTHESES})?\**\s?:(?:\s+(.*)|$)"
)
_TYPE = re.compile(
    r"(?:an? |optional |list of )?\(?(?:\d-?[dD] )?(?:array|bool|bytes|callable|class|dict|float|"
    r"function|int|iterable|list|ndarray|object|set|str|string|tuple)\b"
)
_SENTENCE = re.compile(r"[A-Z].*[a-z]\.$")
_SENTENCE_START = re.compile(r"[A-Z]\S*(?: \S+){3}")


def _entries(body: Sequence[str]) -> list[str]:
    """Keep the descriptions of a parameter list, each one a paragraph.

    Handles ``x : int`` followed by an indented text (numpydoc), ``x (int): text`` (Google) and
    plain text.
    """
    base = min((_indent(line) for line in body if line.strip()), default=0)
    kept: list[str] = []
    deeper = False
    for i, line in enumerate(body):
        if not line.strip() or _indent(line) > base:
            deeper = deeper or bool(line.strip())
            kept.append(line)
            continue
        follower = body[i + 1] if i + 1 < len(body) and _indent(body[i + 1]) > base else line
        is_new, text = _entry(line.strip(), "" if follower is line else follower.strip())
        if is_new or deeper:
            kept.append("")
        kept.append(" " * _indent(follower) + text)
        deeper = False
    return kept


def _entry(text: str, follower: str) -> tuple[bool, str]:
    """Reduce the first line of an entry to its prose.

    Args:
        text: The line, stripped.
        follower: The indented line that follows it, stripped; empty where there is none.

    Returns:
        Whether the line opens an entry, and its prose.
    """
    google = _GOOGLE_ENTRY.match(text)
    if google is not None and " : " not in text:
        rest = google[1] or ""
        return True, "" if _is_type(rest, follower) else rest
    numpy = _NUMPY_ENTRY.match(text) if " :" in text else None
    if numpy is not None:
        rest = numpy[1] or ""
        is_prose = _SENTENCE_START if follower[:1].islower() else _SENTENCE
        return True, rest if is_prose.match(rest) and not follower[:1].isupper() else ""
    if follower and not _BULLET.match(text) and not text.endswith((".", ",", ":")):
        return True, ""
    return False, text


def _is_type(text: str, follower: str) -> bool:
    """Whether the text after ``name:`` is a type, so that the description is what follows."""
    if not follower or len(text) > 50 or text.endswith((".", ",")):
        return False
    n_words = len(text.split())
    if _TYPE.match(text) is not None:
        return n_words <= 3 or follower[:1].isupper()
    return n_words <= 3 and follower[:1].isupper()


# --------------------------------------------------------------------------------------
# Lines to paragraphs
# --------------------------------------------------------------------------------------

_BULLET = re.compile(r"(?:[-*+•‣o]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{2,4})[.)]|\[\d+\])\s+(?=\S)")
_NAMED_ITEM = re.compile(
    r"(?:[\w.*'\"\[\]/-]+(?:\([^)]*\))?(?:, [\w.]+)*\s+(?:--?|=>|:)|[a-z_][\w.]*:)\s+(?=\S)"
)
_BROKEN = "{}"
_COLUMNS = re.compile(r"[^\s.!?:;]\s{3,}\S")
_CODE = re.compile(
    r"""(?:
      (?:import|from)\s[\w.]+(?:\s+import\b|\s+as\b|$|,)
    | (?:async\s)?(?:def|class)\s\w+.*:$
    | (?:return|yield|raise|await|del|assert|print)\s[\w.]+(?:\(.*|\[.*|\s[-+*/%=<>]+\s.*)$
    | (?:return|yield|raise|pass|break|continue|else:|try:|finally:)$
    | for\s\w+(?:,\s\w+)*\sin\s\S+(?:\s\S+)?:$
    | (?:if|while|elif|with|except)\b(?!.*\b(?:an?|are|the|this|that|to|you)\b).*:$
    | @[\w.]+(?:\(.*)?$
    | [$%!>]\s?\w
    | \#|//|/\*
    | [\w.\[\]'"]+(?:,\s[\w.]+)*\s?[-+*/|&]?=\s?\S
    | [\w.*]+\(.*\)(?:\s*->.*)?[:;]?$
    | [\w.]+\([^()]*,$
    | [\])}]+,?$
    | \.\.\.
    )""",
    re.VERBOSE,
)


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Join hard-wrapped lines to paragraphs.

    A blank line, a list item and a change of indentation end a paragraph, and so does a line of
    code or of a table after a full sentence. Such a line inside a sentence is replaced by a mark
    that makes the sentence fail `_is_prose`. The term of a definition list is dropped.
    """
    paragraph: list[str] = []
    indent, is_item = 0, False
    for line in lines:
        text = line.strip()
        here = _indent(line)
        item = _item_start(text, is_item or not paragraph)
        if paragraph and _ends_paragraph(paragraph, text, here - indent, bool(item), is_item):
            if not (text and here > indent and _is_term(paragraph)):
                yield " ".join(paragraph)
            paragraph = []
        if not text:
            continue
        if is_item and here > indent and len(paragraph) == 1 and _is_type(paragraph[0], text):
            paragraph = []  # the type of an entry; its description follows
        if not paragraph:
            indent, is_item = here, item > 0
        paragraph.append(_BROKEN if _is_code_or_table(text) else text[item:])
    if paragraph:
        yield " ".join(paragraph)


def _item_start(text: str, in_list: bool) -> int:
    """Find where the text of a list item starts; 0 for a line that opens no item.

    An item such as ``name -- description`` counts only at the start of a paragraph or after
    another item: in running text the dash is punctuation.
    """
    match = _BULLET.match(text) or (_NAMED_ITEM.match(text) if in_list else None)
    return match.end() if match is not None else 0


def _ends_paragraph(
    paragraph: Sequence[str], text: str, deeper: int, is_item: bool, in_item: bool
) -> bool:
    """Whether a line starts anew rather than continues a paragraph.

    Args:
        paragraph: The lines of the paragraph so far.
        text: The line, stripped.
        deeper: Its indentation less that of the paragraph.
        is_item: Whether the line opens a list item.
        in_item: Whether the paragraph is a list item, whose lines may be indented.
    """
    if not text or is_item or deeper < 0 or (deeper > 1 and not in_item):
        return True
    if paragraph[-1] == _BROKEN:
        return text[0].isupper()
    return paragraph[-1].endswith((".", ":", ";", "!", "?")) and _is_code_or_table(text)


def _is_term(paragraph: Sequence[str]) -> bool:
    """Whether the paragraph above an indented line is the term of a definition list."""
    text = paragraph[0]
    return len(paragraph) == 1 and len(text.split()) <= 6 and text[-1] not in ".,:;"


def _is_code_or_table(text: str) -> bool:
    """Whether a line is source code, a signature, a rule, or a row of a table."""
    return (
        _CODE.match(text) is not None
        or ("   " in text and _COLUMNS.search(text) is not None)
        or _is_underline(text)
    )


# --------------------------------------------------------------------------------------
# Rules on paragraphs
# --------------------------------------------------------------------------------------

_ROLE = re.compile(r":[a-zA-Z][\w:.+-]*: ?`{1,2}([^`]*)`{1,2}")
_TARGET = re.compile(r"\s*<[^<>]*>$")
_LITERAL = re.compile(r"``(.+?)``")
_BACKTICKS = re.compile(r"`([^`]+)`_{0,2}")
_MARKDOWN_LINK = re.compile(r"(?<!\w)!?\[([^\[\]]*)\](?:\([^()\s]*\)|\[[^\[\]\s]*\])")
_BRACKETED_CODE = re.compile(r"\[`([^`]*)`\](?:\([^()\s]*\))?")
_CITATION = re.compile(r"\s?\[[#*\w-]+\]_+")
_CITED_PLACE = re.compile(
    r"(?:\b(?:and|at|by|from|in|of|see|to|[Rr]efs?\.?)|^|[.,(]) ?\[[#*\w-]+\]_", re.I
)
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]*[^\s*])\1(?![\w*])")
_SUBSTITUTION = re.compile(r"\|(\w[^|\s]*(?: [^|\s]+)?)\|")
_TAG = re.compile(r"</?(?:a|b|br|code|em|i|li|p|pre|span|strong|su[bp]|tip|u|ul)\b[^<>]*>", re.I)
_BRACKETED_URL = re.compile(r"\s?(?:<(?:https?|ftp)://[^<>]*>|\((?:https?|ftp)://[^()\s]*\))")
_EMPTY_BRACKETS = re.compile(r"[(\[](?<!\w[(\[])[\s,;]*[)\]]")
_LOOSE_PUNCTUATION = re.compile(r" ([.,;:!?])(?= |$)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffd]")
_ESCAPE = re.compile(r"\\([*_`|<>\\ ])")


def _target_text(match: re.Match[str]) -> str:
    """Keep the visible part of ``text <target>``, ``~package.Name`` and ``!Name``."""
    text = _TARGET.sub("", match[1]) if match[1].endswith(">") else match[1]
    if text.startswith("~"):
        return text[1:].rpartition(".")[2]
    return text.lstrip("!")


def _strip_code_markup(text: str) -> str:
    """Reduce roles, links and literals between backticks to their text."""
    if "`" not in text:
        return text
    text = _BRACKETED_CODE.sub(r"`\1`", text)
    text = _ROLE.sub(_target_text, text)
    text = _LITERAL.sub(r"\1", text)
    return _BACKTICKS.sub(_target_text, text).replace("`", "")


def _strip_links(text: str) -> str:
    """Reduce links to their text; drop web addresses in brackets and footnote marks.

    A footnote mark that the sentence needs ("see [1]_") is replaced by the mark of a broken one.
    """
    if "]_" in text:
        text = _CITATION.sub("", _CITED_PLACE.sub(_BROKEN, text))
    if "[" in text:
        text = _MARKDOWN_LINK.sub(r"\1", text)
    if "://" in text:
        text = _BRACKETED_URL.sub("", text)
    return text


def _strip_emphasis(text: str) -> str:
    """Reduce bold, italics, substitutions, HTML tags and escapes to their text."""
    if "\\" in text:
        text = _ESCAPE.sub(r"\1", text)
    if "*" in text:
        text = _EMPHASIS.sub(r"\2", text)
    if "|" in text:
        text = _SUBSTITUTION.sub(r"\1", text)
    if "<" in text:
        text = _TAG.sub("", text)
    return text


def _normalise_blanks(text: str) -> str:
    """Drop control characters and empty brackets; leave single blanks between words."""
    if not text.isprintable() or "\ufffd" in text:
        text = _CONTROL.sub("", " ".join(text.split()))
    text = " ".join(_EMPTY_BRACKETS.sub("", text).split())
    return _LOOSE_PUNCTUATION.sub(r"\1", text)


_LABEL = re.compile(
    rf"""(?:{_PARENTHESES}\s)?(?:
      {_PARENTHESES}
    | '[^']{{1,40}}' | "[^"]{{1,40}}"
    | \*{{0,2}}(?:[a-z_]\w*|\w+[._]\w+|[A-Z]\w*[a-z][A-Z]\w*|Dict|List|Optional|Returns?|Tuple)
      (?:\.\w+)*(?:\[[^:]*\])?(?:\s?{_PARENTHESES})?
    )(?:\s?:|\s--?)(?:\s+|$)""",
    re.VERBOSE,
)
_ABBREVIATIONS = (
    (re.compile(r"\b[eE]\.g\.,?(?=\s)"), "for example,"),
    (re.compile(r"\b[iI]\.e\.,?(?=\s)"), "that is,"),
)
_SENTENCE_GAP = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
_CONTINUATION = re.compile(r"(?:and|but|or|than|that|where|which)\b")
_WORD = re.compile(
    r"(?<!\S)[\"'(\[]*[A-Za-z]+(?:['’/-][A-Za-z]+)*[\"')\],.;:!?]*(?!\S)"  # noqa: RUF001
)
_SYMBOL = re.compile(r"[\\$={}<>|^~#@]")
_NOT_PROSE = re.compile(r"\\\w|>>>|\$|[{}]|==|->|\+=|\w=\w|@\w+\.|[=<>|^~#]\s")
_MIN_WORDS = 3
_MIN_WORD_SHARE = 0.7
_MAX_COMMA_SHARE = 0.5


def _strip_label(text: str) -> str:
    """Drop a label before a description, as in ``n_jobs (int): text`` or ``'auto': text``."""
    match = _LABEL.match(text) if ":" in text or " -" in text else None
    return text[match.end() :] if match is not None else text


def _expand_abbreviations(text: str) -> str:
    """Spell out e.g. and i.e., whose full stops a splitter takes for the end of a sentence."""
    if ".g." in text or ".e." in text:
        for pattern, words in _ABBREVIATIONS:
            text = pattern.sub(words, text)
    return text


def _is_prose(sentence: str) -> bool:
    """Whether a sentence is made of words rather than of formulas, code or addresses."""
    if "://" in sentence or "www." in sentence:
        return False
    if _SYMBOL.search(sentence) and _NOT_PROSE.search(sentence):
        return False
    n_tokens = sentence.count(" ") + 1
    if sentence.count(", ") > _MAX_COMMA_SHARE * n_tokens:
        return False  # a list of names
    n_words = len(_WORD.findall(sentence))
    return n_words >= max(_MIN_WORDS, _MIN_WORD_SHARE * n_tokens)


def _keep_prose(paragraph: str) -> str:
    """Drop the sentences of a paragraph that are no prose, or that lost their beginning."""
    sentences = _SENTENCE_GAP.split(paragraph)
    if _CONTINUATION.match(sentences[0]):
        del sentences[0]
    return " ".join(filter(_is_prose, sentences))


_LINE_RULES: tuple[tuple[str, Callable[[list[str]], list[str]]], ...] = (
    ("```", _drop_fenced_code),
    ("~~~", _drop_fenced_code),
    ("..", _resolve_directives),
    (">>>", _drop_doctests),
    ("In [", _drop_doctests),
    ("::", _drop_literal_blocks),
    ("==", _drop_tables),
    ("|", _drop_tables),
    (":", _resolve_fields),
    ("---", _resolve_underlined_sections),
    ("===", _resolve_underlined_sections),
    ("", _resolve_labelled_sections),
)
_PARAGRAPH_RULES: tuple[Callable[[str], str], ...] = (
    _strip_links,
    _strip_code_markup,
    _strip_emphasis,
    _normalise_blanks,
    _strip_label,
    _expand_abbreviations,
    _keep_prose,
)


def clean_docstring(docstring: str) -> str:
    r"""Reduce a docstring to its prose.

    Args:
        docstring: A docstring with its common indentation removed, as `ast.get_docstring` and
            `inspect.cleandoc` return it.

    Returns:
        The prose, one paragraph a line; the empty string where there is none.

    Example:
        >>> clean_docstring("Return the *square* of ``x``.\n\n>>> square(2)\n4")
        'Return the square of x.'
    """
    lines = docstring.split("\n")
    for marker, rule in _LINE_RULES:
        if marker in docstring:
            lines = rule(lines)
    paragraphs = []
    for paragraph in _paragraphs(lines):
        for clean in _PARAGRAPH_RULES:
            paragraph = clean(paragraph)
        if paragraph:
            paragraphs.append(paragraph)
    return "\n".join(paragraphs)
