"""Cut documents into passages: a heading begins one, and paragraphs are joined up to a length.

Each reader takes a text whose lines end in a line feed, and gives its blocks: headings, and
paragraphs, lists, tables or code as they are in the source.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import chain, groupby, pairwise
from typing import NamedTuple

# In UTF-8: 200 words of English or, at three bytes a character, as much Japanese.
_LONGEST = 1_200
_TEXT = 7  # the level of what is no heading: below the last of them


class Block(NamedTuple):
    """A part of a document, with the line where it begins, from 1."""

    line: int
    text: str
    level: int = _TEXT  # of a heading: from 1, or 0 for a page's title


def passages(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Cut a document into passages of up to 1,200 bytes, each with the line where it begins.

    Each begins with the headings above it, from the document's title down. The suffix, one of
    `READERS`, says what the document holds.
    """
    headings: list[Block] = []
    section: list[Block] = []
    for block in chain(READERS[suffix](text), [Block(0, "", 0)]):  # a last border
        if block.level == _TEXT or len(block.text) > _LONGEST:
            section += _cut(block)
            continue
        # A heading without text of its own goes before the text of the headings below it.
        if section or (headings and block.level <= headings[-1].level):
            yield from _joined(headings, section)
        section = []
        headings = [above for above in headings if above.level < block.level] + [block]


def _joined(headings: list[Block], section: list[Block]) -> Iterator[tuple[int, str]]:
    """Join neighbouring pieces of a section while they are short enough together."""
    titles = filter(None, dict.fromkeys(" ".join(block.text.split()) for block in headings))
    title = " > ".join(titles)
    line = headings[-1].line if headings else 0  # of the section's first passage
    parts, size = [title], 0
    for piece in section:
        length = len(piece.text.encode())
        if size and size + length > _LONGEST:
            yield line, "\n\n".join(filter(None, parts))
            parts, size, line = [title], 0, 0
        line = line or piece.line
        parts.append(piece.text)
        size += length + 2
    if any(parts):
        yield line, "\n\n".join(filter(None, parts))


def _cut(block: Block) -> Iterator[Block]:
    """Cut a long block behind sentences; else, as in code, at ends of lines, or between words."""
    text = block.text
    size = len(text.encode())
    if size <= _LONGEST:
        yield block
        return
    most = _LONGEST * len(text) // size
    enough = f"{{{most // 3},{most}}}"
    end = re.compile(
        rf"(?s)\s*(?:.{{1,{most}}}\Z"
        rf"|.{enough}(?:(?:(?<=[.!?…])|(?<=[.!?…][\"')\]]))(?=\s)|(?<=[\u3002\uff01\uff1f]))"
        rf"|.{enough}(?=\n)|.{{1,{most}}}(?=\s)|.{{1,{most}}})"
    )
    line = block.line
    for match in end.finditer(text):
        piece = match[0].lstrip()
        if piece:
            yield Block(line + match[0][: -len(piece)].count("\n"), piece)
        line += match[0].count("\n")


# -- readers -----------------------------------------------------------------------------


def _plain_text(text: str) -> Iterator[Block]:
    """Take paragraphs between blank lines."""
    lines = enumerate(text.split("\n"), 1)
    for is_text, group in groupby(lines, lambda line: bool(line[1].strip())):
        if is_text:
            numbers, paragraph = zip(*group, strict=True)
            yield Block(numbers[0], "\n".join(paragraph))


# A title between or above rows of one mark, and the mark of the row below.
_UNDERLINED = re.compile(r"(?:([^\w\s])\1+[ ]*\n[ ]*)?(\S.*)\n(([^\w\s])\4+)[ ]*(?:\n|$)")
_TARGETS = re.compile(r"(?:\.\. _.+:[ ]*(?:\n|\Z))+")  # that links lead to, such as headings


def _restructured_text(text: str) -> Iterator[Block]:
    """Take paragraphs; their marks, in the order in which they come, are the headings' levels."""
    levels: dict[tuple[bool, str], int] = {}
    for block in _plain_text(text):
        if _TARGETS.fullmatch(block.text):
            continue
        match = _UNDERLINED.match(block.text)
        if not match or len(match[3]) < min(4, len(match[2].rstrip())):
            yield block
            continue
        level = levels.setdefault((bool(match[1]), match[4]), len(levels) + 1)
        yield Block(block.line, match[2].strip(), min(level, _TEXT - 1))
        if remainder := block.text[match.end() :]:
            yield Block(block.line + match[0].count("\n"), remainder)


_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$", re.M | re.S)
_CODE_OR_LINK = re.compile(r"(?s)(?<!`)(`++).*?(?<!`)\1(?!`)|!?\[([^\[\]]*)\]\([^()\n]*\)")


def _without_targets(text: str) -> str:
    """Keep the texts of Markdown's links alone: words in addresses lead astray."""
    return _CODE_OR_LINK.sub(lambda match: match[0] if match[2] is None else match[2], text)


def _markdown(text: str) -> Iterator[Block]:
    """Take the outermost blocks of CommonMark and tables, without front matter."""
    from markdown_it import MarkdownIt

    text = _FRONT_MATTER.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines = text.split("\n")
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    for token, inside in pairwise([*parser.parse(text), None]):
        if token is None or token.level or not token.map:
            continue
        start, end = token.map
        source = "\n".join(lines[start:end]).rstrip()
        if token.type == "heading_open" and inside is not None:
            yield Block(start + 1, _without_targets(inside.content), int(token.tag[1]))
        elif token.type == "html_block":
            yield from (block._replace(line=start + block.line) for block in _html(source))
        elif source and token.type != "hr":
            is_code = token.type in ("fence", "code_block")
            yield Block(start + 1, source if is_code else _without_targets(source))


_INLINE = {
    *("", "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn"),
    *("em", "font", "i", "img", "input", "ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby"),
    *("s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var"),
    "wbr",
}
_SPACED = {"br", "dd", "dt", "li", "option", "td", "th", "tr"}  # of one block
_HEADINGS = {"title": 0, **{f"h{level}": level for level in range(1, 7)}}
# A comment, or what is not shown, up to the end of the text if it is not closed; or a tag. The time
# of Python's own html.parser is quadratic in the number of tags that are not closed.
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(nav|script|style|svg|template)(?=[\s/>])(?:[^<>]*/>|.*?(?:</\1\s*>|\Z))"
    r"|<(/?)([a-z][^\s/<>]*+)(?:\"[^\"<]*\"|'[^'<]*'|[^'\"<>])*>"
    r"|<[a-z!/?][^<>]*>",
    re.I | re.S,
)


def _html(text: str) -> Iterator[Block]:
    """Take the blocks of a page, without navigation, scripts and styles."""

    def border(match: re.Match[str]) -> str:
        name, lines = (match[3] or "").lower(), "\n" * match[0].count("\n")
        if name in _INLINE or name in _SPACED:
            return lines if name in _INLINE else " " + lines
        level = _TEXT if match[2] else _HEADINGS.get(name, _TEXT)
        return f"\0{level}{lines}"

    line = 1
    for part in f"{_TEXT}{_TAG.sub(border, text)}".split("\0"):
        level, source = int(part[0]), part[1:]
        shown = re.sub(r"[^\S\n]+", " ", html.unescape(source)).strip()
        n_above = source[: len(source) - len(source.lstrip())].count("\n")
        if shown := shown.rstrip(" ¶"):  # a sign behind headings that leads to them
            yield Block(line + n_above, shown, level)
        line += source.count("\n")


READERS: dict[str, Callable[[str], Iterator[Block]]] = {
    ".txt": _plain_text,
    ".md": _markdown,
    ".rst": _restructured_text,
    ".html": _html,
}
"""How documents are read, by the suffixes of their names."""
