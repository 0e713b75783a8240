"""Fonts for texts in any script: matplotlib's own font has no Chinese, Japanese or Korean."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

logger = logging.getLogger(__name__)

# How the files of common fonts for these scripts begin, in lower case; the first that fits is used.
_FILES = (
    *("notosanscjk", "notosansjp", "sourcehansans", "ipaexg", "ipag", "takao", "vl-gothic"),
    *("hiragino", "ヒラギノ角ゴ", "yugoth", "meiryo", "msgothic", "msyh", "simhei", "pingfang"),
    *("malgun", "nanumgothic", "applegothic", "applesdgothic", "wqy", "droidsansfallback"),
    *("notosans", "arial unicode", "unifont"),
)
_SUFFIXES = (".ttf", ".ttc", ".otf")


@contextmanager
def fonts_for(text: str) -> Iterator[None]:
    """Let figures that are made and saved in the block draw these characters.

    Characters that no installed font has are named in one warning, and drawn as boxes.

    Args:
        text: All that the figure will show.
    """
    families, missing = _find_fonts(text)
    if missing:
        logger.warning(
            "No installed font has the characters %s: the figure shows boxes for them. Install a "
            "font that has them, such as Noto Sans CJK (on Debian and Ubuntu: apt-get install "
            "fonts-noto-cjk).",
            " ".join(sorted(missing)[:20]),
        )
    with mpl.rc_context({"font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # which is said above, once
        yield


def can_draw(text: str) -> bool:
    """Whether the installed fonts have all characters of a text."""
    return not _find_fonts(text)[1]


def _find_fonts(text: str) -> tuple[list[str], set[str]]:
    """The families of fonts that have a text's characters, and the characters that none has."""
    families = list(mpl.rcParams["font.family"])
    missing = _without_glyph(text)
    for file in _candidates() if missing else []:
        found = missing & _characters(file)
        if found:
            families.append(_family(file))
            missing -= found
        if not missing:
            break
    return families, missing


def _without_glyph(text: str) -> set[str]:
    """The printable characters of a text that the usual fonts do not have."""
    characters = {c for c in text if c.isprintable() and not c.isspace()}
    if all(c.isascii() for c in characters):
        return set()
    for family in mpl.rcParams["font.family"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            characters -= _characters(
                Path(font_manager.findfont(font_manager.FontProperties([family])))
            )
    return characters


def _characters(file: Path) -> set[str]:
    """The characters that a font file has; none of one that cannot be read."""
    try:
        return {chr(code) for code in FT2Font(str(file)).get_charmap()}
    except (OSError, RuntimeError):
        return set()


def _candidates() -> list[Path]:
    """Files of installed fonts for many characters; matplotlib's own list may be an old one."""
    files = [Path(file) for file in font_manager.findSystemFonts()]
    ranked = [
        (rank, "bold" in file.stem.lower(), str(file))
        for file in files
        for rank, prefix in enumerate(_FILES)
        if file.suffix.lower() in _SUFFIXES and file.stem.lower().startswith(prefix)
    ]
    return [Path(file) for _, _, file in sorted(ranked)]


def _family(file: Path) -> str:
    """The name by which matplotlib knows a font, which it is told of if need be."""
    manager = font_manager.fontManager
    if not any(font.fname == str(file) for font in manager.ttflist):
        manager.addfont(str(file))
    return str(next(font.name for font in manager.ttflist if font.fname == str(file)))
