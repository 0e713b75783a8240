"""Publish a model, and beside it a page on which it runs in the browser."""

from __future__ import annotations

import logging
from pathlib import Path

from st_static.cards.check_folder import check_folder
from st_static.cards.publish import Published, find_token, publish
from st_static.cards.repository import Repository
from st_static.files import atomic, temporary_folder
from st_static.foreign_files import read_bounded
from st_static.hub import check_repo_id
from st_static.model.card_file import with_line
from st_static.model.model_folder import ModelFile, ModelFolder
from st_static.model.modules import CARD_FILE
from st_static.web.write_demo import FACTS_FILE, is_facts, write_demo

logger = logging.getLogger(__name__)

# Files that the Hub may put into a new Space.
_NEW_SPACE = {".gitattributes", "README.md", "index.html", "style.css"}


def publish_with_demo(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    allow_remote_code: bool = False,
) -> list[Published]:
    """Publish a model as `publish` does, then its demo page as the Space ORG/NAME-demo, to which
    the card links, also in the folder. Also a ValueError before any upload if the model cannot run
    in a browser or the Space holds something else."""
    model = ModelFolder.local(folder)
    check_repo_id(repo_id)
    check_repo_id(f"{repo_id}-demo")
    # Before the card gets a line.
    check_folder(model, repo_id, allow_remote_code=allow_remote_code)
    token = None if dry_run else find_token()
    space = Repository(f"{repo_id}-demo", token, "space")
    with temporary_folder() as temporary:
        page = temporary / "demo"
        names = write_demo(model, page, hub_id=repo_id)
        files = [ModelFile(name.as_posix(), (page / name).stat().st_size) for name in names]
        if not dry_run:
            _link_demo(model.path / CARD_FILE, space, temporary / "cache")
        done = publish(
            *(folder, repo_id),
            private=private,
            tag=tag,
            dry_run=dry_run,
            allow_remote_code=allow_remote_code,
        )
        if dry_run:
            return [done, Published(space.repo_id, files)]
        logger.info("Uploading %d files to the Space %s", len(files), space.repo_id)
        is_private = Repository(repo_id, token).is_private()
        upload = space.upload(page, f"Upload the demo of {repo_id}", private=is_private)
    return [done, Published(space.repo_id, files, *upload)]


def _link_demo(card: Path, space: Repository, cache: Path) -> None:
    """Add a link to a demo's Space to a model's card, unless the Space holds something else."""
    files = space.files()
    is_demo = FACTS_FILE in files and is_facts(space.download(FACTS_FILE, cache).read_bytes())
    if not is_demo and files - _NEW_SPACE:
        raise ValueError(
            f"The Space {space.repo_id} holds something that is not a demo of st_static (it has "
            f"no {FACTS_FILE} of st_static). Rename it on the Hub, or publish without --demo. "
            "Nothing was uploaded."
        )
    text = read_bounded(card).decode()
    if f"({space.url})" not in text:
        line = f"[Try it in your browser]({space.url}): compare texts, search, and look for "
        with atomic(card) as file:
            file.write_bytes(with_line(text, f"{line}nearest words.").encode())
