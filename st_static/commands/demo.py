"""The command `demo`: a static model in, a page on which it runs in the browser out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from st_static.arguments import check_file
from st_static.commands.options import CommandParser, log_to_terminal


def run(arguments: Sequence[str]) -> int:
    """Run `demo`."""
    parser = CommandParser(
        prog="st-static demo",
        description="Write a page on which a static model runs in the browser: compare texts, "
        "search, nearest words and limits. Any web server serves it, and the Hugging Face Hub as a "
        "static Space.",
    )
    add = parser.add_argument
    add("model", help="A folder or Hub id of a static model, or one in this package.")
    text = "Texts that its search begins with, one per line; by default a few examples."
    add("--texts", type=Path, metavar="FILE", help=text)
    add("--output", type=Path, required=True, metavar="DIR", help="Folder for the page.")
    options = parser.read(arguments)
    log_to_terminal()
    if options.texts and not options.texts.is_fifo():
        check_file(options.texts)
    from st_static.web.write_demo import read_texts, write_demo

    texts = read_texts(options.texts) if options.texts else []
    files = write_demo(options.model, options.output, texts)
    size = sum((options.output / file).stat().st_size for file in files)
    print(f"{options.output}: {len(files)} files, {size / 1e6:.1f} MB")
    # By itself it would serve all machines around.
    server = ["python", "-m", "http.server", "--bind", "127.0.0.1"]
    command = shlex.join([*server, "-d", str(options.output)])
    print(f"Look at it: {command}, then open http://127.0.0.1:8000")
    return 0
