"""Publish a model's folder on the Hugging Face Hub, and with it a demo page."""

from __future__ import annotations

import logging
import string
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import get_token

from st_static.arguments import check_type
from st_static.demo.write_demo import FACTS_FILE, is_facts, write_demo
from st_static.files import atomic, temporary_folder
from st_static.foreign_files import read_bounded
from st_static.hub import check_repo_id
from st_static.model.card_file import with_line
from st_static.model.model_folder import ModelFile, ModelFolder
from st_static.model.modules import CARD_FILE
from st_static.publish.checks.folder import check_folder
from st_static.publish.hub.fresh_load import check_equal, load_fresh, sample_texts
from st_static.publish.hub.repository import LOGIN, MAIN, Repository

logger = logging.getLogger(__name__)

_NEW_SPACE = {".gitattributes", "README.md", "index.html", "style.css"}
"""Files that the Hub may put into a new Space."""


@dataclass(frozen=True)
class Published:
    """A published model or demo, or a dry run, which has neither address nor commit."""

    repo_id: str
    files: list[ModelFile]
    url: str | None = None  # of the repository, or of the pull request
    commit: str | None = None  # the one that holds the files
    is_new: bool = False  # whether it was made now; otherwise the files were there already
    tag: str | None = None


def publish(
    folder: str | Path,
    repo_id: str,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    allow_remote_code: bool = False,
    token: str | None = None,
) -> Published:
    """Upload a model in one commit, and check that others can load it.

    The folder is checked first. Afterwards the new commit is downloaded, and its files are compared
    with the folder's; a new process loads them with sentence-transformers alone, and its vectors
    are compared with the folder's, too.

    Args:
        folder: The model, with its card.
        repo_id: ORG/NAME; created if it does not exist.
        private: Whether a created repository is private.
        revision: Branch to upload to; created if it does not exist. By default main.
        create_pr: Whether to open a pull request instead.
        tag: Tag for the commit, set when everything else has succeeded.
        dry_run: Whether to stop before the first request to the Hub.
        allow_remote_code: Whether the model may have its own modules, which are then run here.
        token: The Hub's token; by default HF_TOKEN, or the one that was logged in with.

    Raises:
        ValueError: The folder is not fit, the request is invalid, or the published model has other
            content, does not load or gives other vectors.
        OSError: The Hub cannot be reached, or refuses the model.
        TypeError: An argument is of the wrong kind.
    """
    model = ModelFolder.local(folder)
    check_request(repo_id, revision, create_pr, tag)
    check_folder(model, allow_remote_code, repo_id)
    repository = Repository(repo_id, None if dry_run else find_token(token))
    return _publish(
        model, repository, allow_remote_code, dry_run, private, revision, create_pr, tag
    )


def publish_with_demo(
    folder: str | Path,
    repo_id: str,
    private: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    allow_remote_code: bool = False,
    token: str | None = None,
) -> tuple[Published, Published]:
    """Publish a model, and then its demo page as the Space ORG/NAME-demo.

    A link to the page is added to the model's card, also in the folder, unless it is there.
    For the arguments and errors see `publish`.

    Raises:
        ValueError: The model cannot run in a browser, or the Space holds something else; nothing
            was uploaded.
    """
    model = ModelFolder.local(folder)
    check_request(repo_id, tag=tag)
    check_request(f"{repo_id}-demo")
    check_folder(model, allow_remote_code, repo_id)
    token = None if dry_run else find_token(token)
    repository = Repository(repo_id, token)
    space = Repository(f"{repo_id}-demo", token, "space", _is_of_demo)
    with temporary_folder() as temporary:
        page = temporary / "demo"
        names = write_demo(model, page, hub_id=repo_id)
        demo = [ModelFile(name.as_posix(), (page / name).stat().st_size) for name in names]
        if not dry_run:
            _link_demo(model.path / CARD_FILE, space, temporary / "cache")
            model = ModelFolder(model.path)  # with a longer card
        done = _publish(model, repository, allow_remote_code, dry_run, private, tag=tag)
        if dry_run:
            return done, Published(space.repo_id, demo)
        logger.info("Uploading %d files to the Space %s", len(demo), space.repo_id)
        there = space.upload(page, f"Upload the demo of {repo_id}", repository.is_private())
    return done, Published(space.repo_id, demo, *there)


def _publish(
    model: ModelFolder,
    repository: Repository,
    allow_remote_code: bool,
    dry_run: bool,
    private: bool,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
) -> Published:
    """Load a checked model alone, upload it, and load it again as others will."""
    repo_id, files, path = repository.repo_id, model.files, str(model.path.absolute())
    logger.info("Loading %s with sentence-transformers alone", model.path)
    texts = sample_texts(model)
    vectors = load_fresh(path, texts, trust_remote_code=allow_remote_code)
    if dry_run:
        return Published(repo_id, files)
    logger.info("Uploading %d files to %s", len(files), repo_id)
    message = f"Upload {model.name}"
    done = repository.upload(model.path, message, private, revision or MAIN, create_pr, tag)
    logger.info("Downloading %s at %s, and comparing it", repo_id, done.commit[:12])
    try:
        with temporary_folder() as cache:
            paths = [file.path for file in files]
            repository.check_published(model.path, paths, done.commit, cache)
            token = repository.token
            published = load_fresh(repo_id, texts, done.commit, token, allow_remote_code, cache)
        check_equal(vectors, published, repo_id)
    except ValueError as error:
        raise ValueError(
            f"{error} The files were uploaded, but do not rely on them. Publish again to check "
            "them once more; if that does not help, look at what else is in the repository."
        ) from error
    if tag:
        repository.tag(tag, done.commit)
    return Published(repo_id, files, *done, tag)


def _is_of_demo(path: str) -> bool:
    """Tell whether a path of a Space lies where only a demo, of any version, has files."""
    return path.startswith(("js/", "model/", "vendor/"))


def _link_demo(card: Path, space: Repository, cache: Path) -> None:
    """Add a link to a demo's Space to a model's card, unless the Space holds something else."""
    there = space.files()
    is_demo = FACTS_FILE in there and is_facts(space.download(FACTS_FILE, cache).read_bytes())
    if not is_demo and there - _NEW_SPACE:
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


def check_request(
    repo_id: str, revision: str | None = None, create_pr: bool = False, tag: str | None = None
) -> None:
    """Check what can be checked of the arguments of `publish` without the Hub."""
    check_type(repo_id, str, "the repository as ORG/NAME")
    for value, name in ((revision, "a branch"), (tag, "a tag")):
        if value is not None:
            check_type(value, str, f"{name} as a str")
    check_repo_id(repo_id)
    if create_pr and (tag or revision not in (None, MAIN)):
        raise ValueError(
            "A pull request is made to main, and has no tag. Leave out --revision and --tag, and "
            "tag the commit when it has been merged."
        )


def find_token(token: str | None = None) -> str:
    """Find the token, and check that it can be sent; no message repeats it."""
    if token is not None and not isinstance(token, str):  # without its value in the message
        raise TypeError(f"Expected the token as a str, but its type is {type(token).__name__}.")
    token = token or get_token()
    if not token:
        raise ValueError(f"Publishing needs a token of the Hugging Face Hub. {LOGIN}")
    # Libraries would repeat a header that cannot be sent in their messages.
    if set(token) - set(string.ascii_letters + string.digits + string.punctuation):
        raise ValueError(
            f"The token holds characters that no token has: white space, or letters beyond a-z. "
            f"{LOGIN}"
        )
    return token
