"""Write a demo page: the same page for every model, with the model's files beside it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import yaml

from st_static import __version__
from st_static.arguments import as_path
from st_static.demo.model_files import (
    FACTS_FILE,
    FOLDER,
    MODEL_FILES,
    check_model,
    is_facts,
    write_model_files,
)
from st_static.model.model_folder import ModelFolder
from st_static.model.replacement import check_output_folder, replacing
from st_static.model.static_model import StaticModel

_CARD_FILE = "README.md"
_PAGE = resources.files("st_static.demo") / "page"


def check_demo_output(folder: Path) -> None:
    """Check that a demo may be written into a folder: new, empty, or a demo of st_static.

    Raises:
        ValueError: It may not.
    """
    check_output_folder(folder, FACTS_FILE, "a demo of st_static", _is_facts_file)


def _is_facts_file(path: Path) -> bool:
    return path.is_file() and is_facts(path.read_bytes())


def write_demo(
    model: str | Path | ModelFolder,
    output: str | Path,
    texts: Sequence[str] = (),
    hub_id: str | None = None,
) -> list[Path]:
    """Write a page on which a model runs in the browser, with all that it loads.

    It is a static Space of the Hugging Face Hub, and works on any web server. An existing demo is
    replaced; other files in its folder stay.

    Args:
        model: A folder, which may be open, or an id on the Hub.
        output: The page's folder.
        texts: The initial texts of its search; by default a few examples.
        hub_id: The model's id on the Hub; by default `model`, if it is one.

    Returns:
        The files written, as paths in the folder.

    Raises:
        ValueError: It is no static model, or cannot run in a browser; or the folder holds
            something else.
    """
    output = as_path(output, "a folder to write")
    check_demo_output(output)
    folder = model if isinstance(model, ModelFolder) else ModelFolder.of(model)
    hub_id = hub_id or folder.hub_id
    static_model = replace(folder.model, name=hub_id or folder.name)
    check_model(static_model)
    names = [*_page_files(), *MODEL_FILES, _CARD_FILE]
    with replacing(output, lambda _, name: name in names) as partial:
        with resources.as_file(_PAGE) as page:
            shutil.copytree(page, partial, dirs_exist_ok=True)
        (partial / FOLDER).mkdir()
        write_model_files(partial, static_model, list(texts))
        (partial / _CARD_FILE).write_text(_card(static_model, hub_id), "utf-8")
    return [Path(name) for name in names]


def _page_files() -> list[str]:
    """List the files that are the same for every model."""
    with resources.as_file(_PAGE) as page:
        files = sorted(path for path in page.rglob("*") if path.is_file())
        return [path.relative_to(page).as_posix() for path in files]


def _card(model: StaticModel, hub_id: str | None) -> str:
    """Make the README.md that describes the page to the Hub."""
    name = model.name.rpartition("/")[2]
    header = {
        "title": f"{name} demo",
        "sdk": "static",
        "app_file": "index.html",
        **({"license": model.license} if model.license else {}),
        **({"models": [hub_id]} if hub_id else {}),
    }
    about = f"[{hub_id}](https://huggingface.co/{hub_id})" if hub_id else _in_markdown(name)
    return (
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n"
        f"The static sentence encoder {about} runs on this page, in the browser: compare two "
        "texts, search in texts of your own, look for the nearest words, and see where the model "
        f"goes wrong. Written by `st-static demo`, st_static {__version__}.\n"
    )


def _in_markdown(name: str) -> str:
    r"""Escape a name for Markdown, in one line.

    Example:
        >>> print(_in_markdown("<b> x_1"))
        \<b\> x\_1
    """
    return re.sub(r"([\\`*_\[\]<>&#!|~])", r"\\\1", " ".join(name.split()))
