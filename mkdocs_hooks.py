"""Hooks of the documentation's site: parts of the README, links out of docs/, and examples."""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.hooks")  # a warning fails a strict build
LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
PART = re.compile(r'^.*<!-- README (to|of) "(## .*)" -->$', re.MULTILINE)


class Examples(griffe.Extension):
    """Google's style has sections called `Example` or `Examples`; griffe only knows the second."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put parts of the README in place of lines that name them, and mend links out of docs/."""
    root = Path(config.config_file_path).parent
    readme = (root / "README.md").read_text("utf-8")
    markdown = PART.sub(lambda match: _part(readme, *match.groups()), markdown)
    return LINK.sub(lambda match: _link(match[1], page, root), markdown)


def _part(readme: str, which: str, heading: str) -> str:
    """The README between its title and a heading, or the section of this heading."""
    before, found, after = readme.partition(f"\n{heading}\n")
    if not found:
        LOG.warning(f'README.md has no heading "{heading}".')
    if which == "to":
        part = before.partition("\n")[2]
    else:
        part = f"{heading}\n" + after.partition("\n## ")[0]
    return LINK.sub(lambda match: match[1] if "://" in match[1] else f"../{match[1]}", part)


def _link(target: str, page: Page, root: Path) -> str:
    """Where a link of a page leads in the site."""
    if "://" in target:
        return target
    folder = posixpath.dirname(page.file.src_uri)
    place = posixpath.normpath(posixpath.join("docs", folder, target))
    if place.startswith("docs/"):
        return posixpath.relpath(place, posixpath.join("docs", folder))
    if place == "README.md":
        return posixpath.relpath("index.md", folder or ".")
    if not (root / place).exists():
        LOG.warning(f"{page.file.src_uri} links to {target}, which is not there.")
    return urljoin(str(page.edit_url), target)
