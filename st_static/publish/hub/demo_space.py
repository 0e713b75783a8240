"""Publishing a model with its demo: a page beside it, as a static Space that the card links to."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi

from st_static.arguments import as_path
from st_static.demo.model_files import FACTS_FILE, is_facts
from st_static.demo.write_demo import write_demo
from st_static.files import atomic, temporary_folder
from st_static.foreign_files import read_bounded
from st_static.model.card_file import NOTES_END
from st_static.model.model_folder import ModelFile, ModelFolder
from st_static.model.modules import CARD_FILE
from st_static.publish.checks.folder import check_folder
from st_static.publish.hub.publish import Published, check_request, explained, find_token, publish
from st_static.publish.hub.repository import Repository
from st_static.publish.hub.retry import retried

logger = logging.getLogger(__name__)

# Of these folders of a Space, all files are the demo's.
_OWN_FOLDERS = ("js/", "model/", "vendor/")
# What the Hub may put into a new Space.
_TEMPLATE = {".gitattributes", "README.md", "index.html", "style.css"}


def publish_with_demo(
    folder: str | Path,
    repo_id: str,
    private: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    allow_remote_code: bool = False,
    token: str | None = None,
) -> tuple[Published, Published]:
    """Publish a model, and then, as the Space ORG/NAME-demo, a page on which it runs.

    The model's card gets a line that links to the page, in the folder, too, unless it has it.
    For the arguments and errors see `publish`.

    Returns:
        What was published of the model, and of its demo.

    Raises:
        ValueError: The model cannot run in a browser, or the Space holds something else; nothing
            was uploaded.
    """
    folder = as_path(folder, "the model's folder")
    space_id = f"{repo_id}-demo"
    check_request(repo_id, tag=tag)
    check_request(space_id)
    check_folder(ModelFolder.local(folder), allow_remote_code, repo_id)
    token = None if dry_run else find_token(token)
    with temporary_folder() as temporary:
        page = temporary / "demo"
        names = write_demo(folder, page, hub_id=repo_id)
        files = [ModelFile(name.as_posix(), (page / name).stat().st_size) for name in names]
        space = Repository(HfApi(token=token), space_id, "space", _is_of_demo)
        if not dry_run:
            _check_space(space)
            link_demo(folder / CARD_FILE, space.url)
        model = publish(
            folder,
            repo_id,
            private,
            tag=tag,
            dry_run=dry_run,
            allow_remote_code=allow_remote_code,
            token=token,
        )
        return model, Published(space_id, files) if dry_run else _upload(space, page, files)


def link_demo(card: Path, url: str) -> None:
    """Put a line that links to a demo into a card, behind the user's notes or at its end.

    Args:
        card: The card's file; nothing else in it is changed.
        url: The demo's address.
    """
    text = read_bounded(card).decode()
    if f"({url})" in text:
        return
    line = f"[Try it in your browser]({url}): compare texts, search, and look for nearest words."
    before, marker, after = text.partition(NOTES_END)
    linked = f"{before}{marker}\n\n{line}{after}" if marker else f"{text.rstrip()}\n\n{line}\n"
    with atomic(card) as temporary:
        temporary.write_bytes(linked.encode())


def _check_space(space: Repository) -> None:
    """Check that a Space is not there, is new, or holds a demo.

    Raises:
        ValueError: It holds something else.
    """
    with explained(space.repo_id):
        files = retried(space.files)
        is_demo = FACTS_FILE in files and is_facts(retried(lambda: space.content(FACTS_FILE)))
    if not is_demo and files - _TEMPLATE:
        raise ValueError(
            f"The Space {space.repo_id} holds something that is not a demo of st_static (it has no "
            f"{FACTS_FILE} of st_static). Rename it on the Hub, or publish without --demo. Nothing "
            "was uploaded."
        )


def _upload(space: Repository, page: Path, files: list[ModelFile]) -> Published:
    """Make a Space hold a page; it is as private as the model."""
    with explained(space.repo_id):
        logger.info("Uploading %d files to the Space %s", len(files), space.repo_id)
        model_id = space.repo_id.removesuffix("-demo")
        is_private = retried(lambda: space.api.model_info(model_id)).private
        space.create(bool(is_private))
        done = space.commit(page, files, f"Upload the demo of {model_id}")
    return Published(space.repo_id, files, done.url, done.commit, done.is_new)


def _is_of_demo(path: str) -> bool:
    """Whether a path in a Space is one that a demo writes; another version may not have it."""
    return path.startswith(_OWN_FOLDERS)
