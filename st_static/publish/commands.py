"""The command `st-static publish`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser


def _publish_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="st-static publish",
        description="Put a model on the Hugging Face Hub, in one commit, and check that it loads.",
        allow_abbrev=False,
    )
    parser.add_argument("model", type=Path, help="Folder of the model, with its card.")
    parser.add_argument("repo_id", metavar="ORG/NAME", help="The repository.")
    parser.add_argument(
        "--private", action="store_true", help="Create the repository for its members only."
    )
    parser.add_argument(
        "--revision", type=str | None, metavar="BRANCH", help="Branch to upload to instead of main."
    )
    parser.add_argument("--create_pr", action="store_true", help="Open a pull request instead.")
    parser.add_argument("--tag", type=str | None, help="Tag the commit, for example v1.")
    parser.add_argument(
        "--dry_run", action="store_true", help="Do everything but the upload, and list the files."
    )
    parser.add_argument(
        "--allow_remote_code",
        action="store_true",
        help="Let the model bring Python code of its own, which is run here, too.",
    )
    return parser


def run_publish(arguments: Sequence[str]) -> int:
    """Run `publish`."""
    options = _publish_parser().parse_args(list(arguments))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("httpx", "httpx2", "sentence_transformers"):
        logging.getLogger(library).setLevel(logging.WARNING)
    from st_static.publish.folder_check import UnfitFolderError
    from st_static.publish.hub import publish

    values = options.as_dict()
    try:
        published = publish(values.pop("model"), **values)
    except UnfitFolderError as error:  # a list, which is not for one line
        print(f"Error: {error}", file=sys.stderr)
        return 1
    if published.commit is None:
        width = max(len(file.path) for file in published.files)
        for file in published.files:
            print(f"{file.path:{width}}  {file.size:>15,}")
    total = sum(file.size for file in published.files)
    size = f"{len(published.files)} files, {total / 1e6:.1f} MB"
    if published.commit is None:
        print(f"{size} would go to {published.repo_id}. Nothing was uploaded.")
        return 0
    done = "Published" if published.is_new else "The same files are there already"
    tag = f", tag {published.tag}" if published.tag else ""
    print(f"{done}: {published.url} ({size}, commit {published.commit[:12]}{tag})")
    return 0
