"""The command `publish`: a model's folder in, a repository on the Hub out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from st_static.commands.options import CommandParser, log_to_terminal
from st_static.dependencies import needed_by, require_packages


@needed_by("This command", "publish")
def run(arguments: Sequence[str]) -> int:
    """Run `publish`."""
    parser = CommandParser(
        prog="st-static publish",
        description="Put a model on the Hugging Face Hub, in one commit, and check that it loads.",
    )
    add = parser.add_argument
    add("model", type=Path, help="Folder of the model, with its card.")
    add("repo_id", metavar="ORG/NAME", help="The repository.")
    add("--private", action="store_true", help="Create the repository for its members only.")
    add("--revision", metavar="BRANCH", help="Branch to upload to instead of main.")
    add("--create_pr", action="store_true", help="Open a pull request instead.")
    add("--tag", help="Tag the commit, for example v1.")
    add("--dry_run", action="store_true", help="Do everything but the upload, and list the files.")
    add(
        "--demo",
        action="store_true",
        help="Also publish a page on which the model runs, as the Space ORG/NAME-demo, and link it "
        "from the card; see st-static demo.",
    )
    add(
        "--allow_remote_code",
        action="store_true",
        help="Let the model bring Python code of its own, which is run here, too.",
    )
    values = vars(parser.read(arguments))
    require_packages("sentence_transformers")  # in a new process, once the folder is checked
    # A demo shows what is on main, and has no such options.
    if values["demo"] and (values.pop("create_pr") or values.pop("revision")):
        raise ValueError("A demo shows what is on main: leave out --revision and --create_pr.")
    return publish_folder(values.pop("model"), values.pop("repo_id"), **values)


def publish_folder(folder: Path, repo_id: str, demo: bool = False, **options: Any) -> int:
    """Publish a model; print where it is, or in a dry run its files; return 1 if it is not fit."""
    log_to_terminal()
    from st_static.cards.check_folder import UnfitFolderError
    from st_static.cards.publish import publish

    try:
        if demo:
            from st_static.web.publish_demo import publish_with_demo

            done = publish_with_demo(folder, repo_id, **options)
        else:
            done = [publish(folder, repo_id, **options)]
    except UnfitFolderError as error:  # a list, which is not for one line
        print(f"Error: {error}", file=sys.stderr)
        return 1
    for published in done:
        total = sum(file.size for file in published.files)
        size = f"{len(published.files)} files, {total / 1e6:.1f} MB"
        if published.commit is None:
            width = max(len(file.path) for file in published.files)
            for file in published.files:
                print(f"{file.path:{width}}  {file.size:>15,}")
            print(f"{size} would go to {published.repo_id}. Nothing was uploaded.")
            continue
        state = "Published" if published.is_new else "The same files are there already"
        tag = f", tag {published.tag}" if published.tag else ""
        print(f"{state}: {published.url} ({size}, commit {published.commit[:12]}{tag})")
    return 0
