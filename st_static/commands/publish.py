"""The commands `explain`, `card` and `publish`: arguments in, what the user reads out."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from st_static.commands.parser import CommandParser
from st_static.commands.terminal import hide_bars_of_libraries, log_to_terminal
from st_static.hub_access import check_repo_id, require_model
from st_static.model.model_name import ModelName

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from st_static.evaluate.analysis.explain import Explanation

_COLUMN_PADDING = 3  # what rich puts around a column
_CELL = len("+0.123")


def _explain_parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static explain",
        description="Show which words make two texts similar: the cosine as a sum over word pairs.",
    )
    parser.add_argument("model", help="A folder or Hub id of a static model.")
    parser.add_argument("first", help="A text.")
    parser.add_argument("second", help="Another.")
    parser.add_argument(
        "--figure", type=Path | None, help="Also draw it: a file .png, .svg or .pdf."
    )
    parser.add_argument(
        "--top",
        type=int | None,
        metavar="N",
        help="List only the N pairs with the largest shares, of either sign, and the sum of the "
        "others; for long texts.",
    )
    return parser


def run_explain(arguments: Sequence[str]) -> int:
    """Run `explain`."""
    options = _explain_parser().read(arguments)
    if options.top is not None and options.top < 1:
        raise ValueError(f"--top is a number of pairs, at least 1, but it is {options.top}.")
    if options.figure:
        from st_static.evaluate.figure_style import check_format

        check_format(options.figure)
    require_model(options.model)
    # Torch takes seconds to load: not before the arguments are known to be good.
    from st_static.evaluate.analysis.explain import explain
    from st_static.model.static_model import read_static_model

    explanation = explain(read_static_model(options.model), options.first, options.second)
    console = _console()
    shown = explanation.of_known_words()
    if not shown.contributions.size:
        console.print("No pair of words has a share: one of the texts has no known word.")
    elif options.top is not None:
        console.print("Largest shares of pairs of words in the cosine:")
        console.print(largest_table(shown, options.top))
    else:
        console.print("Share of each pair of words in the cosine:")
        for table in contribution_tables(shown, console.width):
            console.print(table)
    console.print(f"cosine: {explanation.similarity:.6f}")
    words = {word.text: word.became for word in explanation.first + explanation.second}
    for text, became in words.items():
        if became:
            console.print(f"{text} → {became}")
    if options.figure:
        from st_static.evaluate.analysis.heat_map import draw_heat_map

        draw_heat_map(explanation, options.figure)
        console.print(f"Figure: {options.figure}")
    return 0


def _card_parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static card",
        description="Write a model's card with its figures: README.md in the model's folder. What "
        "stands between its markers stays.",
    )
    parser.add_argument("model", type=Path, help="Folder of the model.")
    parser.add_argument(
        "--results",
        nargs="+",
        type=Path,
        default=[],
        help="Folders of the model's results, results/MODEL/REVISION; only an ensemble's card can "
        "be written without.",
    )
    parser.add_argument(
        "--peers", nargs="+", type=Path, default=[], help="Folders of other models' results."
    )
    parser.add_argument(
        "--published",
        nargs="*",
        type=str,
        default=["minishlab/potion-base-8M"],
        help="Models whose published scores stand beside them; the teacher's always do.",
    )
    parser.add_argument("--benchmark", default="MTEB(eng, v1)", help="Whose tasks are compared.")
    parser.add_argument(
        "--peer_models",
        nargs="+",
        type=str,
        default=[],
        help="Models whose speed is measured beside this one's and the teacher's, as for evaluate.",
    )
    parser.add_argument(
        "--work_dir",
        type=Path | None,
        help="The recipe's work_dir, for build times and agreement by sentence length.",
    )
    parser.add_argument("--hub_id", type=str | None, help="Where it will be published: ORG/NAME.")
    parser.add_argument(
        "--cards",
        type=Path | None,
        help="Folder of all cards, if you keep one: gets a copy, and the facts it was made from.",
    )
    return parser


def run_card(arguments: Sequence[str]) -> int:
    """Run `card`."""
    options = _card_parser().read(arguments)
    hide_bars_of_libraries()
    _check_card_options(options)
    from st_static.publish.card.inputs import CardInputs, plan_card

    values = options.as_dict()
    folder, cards = values.pop("model"), values.pop("cards")
    # mteb takes seconds to load: not before the arguments are known to be good; and three seconds
    # less if Python does not look for garbage in what is loaded, neither meanwhile nor later.
    gc.disable()
    try:
        inputs = plan_card(folder, CardInputs(**values), cards).inputs
        from st_static.evaluate.tasks import benchmark_tasks

        benchmark_tasks(options.benchmark)  # before torch is loaded: see there
        from st_static.publish.card.write_card import write_card
    finally:
        gc.freeze()
        gc.enable()

    # It warns of what it does not know of local models, which changes no score.
    logging.getLogger("mteb").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="mteb")
    console = _console()
    for file in write_card(folder, inputs, cards):
        console.print(file, soft_wrap=True)
    return 0


def _check_card_options(options: Namespace) -> None:
    """Check what the options alone tell."""
    if options.hub_id is not None:
        check_repo_id(options.hub_id)
    if not options.model.is_dir():
        raise ValueError(f"There is no folder {options.model}. Name the folder of a built model.")
    for folder in [*options.results, *options.peers]:
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder}. Expected results/MODEL/REVISION.")
    for name in options.peer_models:
        ModelName.parse(name).require()


def _publish_parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static publish",
        description="Put a model on the Hugging Face Hub, in one commit, and check that it loads.",
    )
    parser.add_argument("model", type=Path, help="Folder of the model, with its card.")
    parser.add_argument("repo_id", metavar="ORG/NAME", help="The repository.")
    parser.add_argument(
        "--private", action="store_true", help="Create the repository for its members only."
    )
    parser.add_argument(
        "--revision", type=str | None, metavar="BRANCH", help="Branch to upload to instead of main."
    )
    parser.add_argument(
        "--create_pr", "--create-pr", action="store_true", help="Open a pull request instead."
    )
    parser.add_argument("--tag", type=str | None, help="Tag the commit, for example v1.")
    parser.add_argument(
        "--dry_run",
        "--dry-run",
        action="store_true",
        help="Do everything but the upload, and list the files.",
    )
    parser.add_argument(
        "--allow_remote_code",
        "--allow-remote-code",
        action="store_true",
        help="Let the model bring Python code of its own, which is run here, too.",
    )
    return parser


def run_publish(arguments: Sequence[str]) -> int:
    """Run `publish`."""
    options = _publish_parser().read(arguments)
    log_to_terminal()
    from st_static.publish.checks.folder import UnfitFolderError
    from st_static.publish.hub.publish import publish

    values = options.as_dict()
    try:
        published = publish(values.pop("model"), **values)
    except UnfitFolderError as error:  # a list, which is not for one line
        _console(stderr=True).print(f"Error: {error}", soft_wrap=True)
        return 1
    console = _console()
    if published.commit is None:
        width = max(len(file.path) for file in published.files)
        for file in published.files:
            console.print(f"{file.path:{width}}  {file.size:>15,}", soft_wrap=True)
    total = sum(file.size for file in published.files)
    size = f"{len(published.files)} files, {total / 1e6:.1f} MB"
    if published.commit is None:
        console.print(
            f"{size} would go to {published.repo_id}. Nothing was uploaded.", soft_wrap=True
        )
        return 0
    done = "Published" if published.is_new else "The same files are there already"
    tag = f", tag {published.tag}" if published.tag else ""
    commit = published.commit[:12]
    console.print(f"{done}: {published.url} ({size}, commit {commit}{tag})", soft_wrap=True)
    return 0


def _console(stderr: bool = False) -> Console:
    """Prints texts as they are."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def contribution_tables(explanation: Explanation, width: int) -> Iterator[Table]:
    """The shares of word pairs, one row per word of the first text; in parts that fit a width."""
    shares = explanation.contributions
    first = max([len(word.text) for word in explanation.first] or [0])
    budget = width - first - _CELL - 2 * _COLUMN_PADDING - 1
    for block in _blocks([word.text for word in explanation.second], budget):
        table = Table("")
        for j in block:
            table.add_column(Text(explanation.second[j].text), justify="right", no_wrap=True)
        is_last = block.stop == len(explanation.second)
        if is_last:
            table.add_column("sum", justify="right")
        for word, row in zip(explanation.first, shares, strict=True):
            cells = [*row[block.start : block.stop], *[row.sum()] * is_last]
            table.add_row(Text(word.text), *(f"{cell:+.3f}" for cell in cells))
        table.add_section()
        sums: list[float] = [*shares[:, block.start : block.stop].sum(axis=0)]
        sums += [shares.sum()] * is_last
        table.add_row("sum", *(f"{cell:+.3f}" for cell in sums))
        yield table


def largest_table(explanation: Explanation, n: int) -> Table:
    """The n pairs of words with the largest absolute shares, and what the others add up to.

    A word that comes several times in a text is one row with the sum of its shares.
    """
    shares: dict[tuple[str, str], float] = {}
    for i, first in enumerate(explanation.first):
        for j, second in enumerate(explanation.second):
            pair = first.text, second.text
            shares[pair] = shares.get(pair, 0.0) + float(explanation.contributions[i, j])
    ordered = sorted(shares.items(), key=lambda item: -abs(item[1]))
    table = Table("first text", "second text")
    table.add_column("share", justify="right")
    for (one, other), share in ordered[:n]:
        table.add_row(Text(one), Text(other), f"{share:+.3f}")
    rest = ordered[n:]
    if rest:
        table.add_section()
        others = f"{len(rest):,} other pair" + ("s" if len(rest) > 1 else "")
        table.add_row(others, "", f"{sum(share for _, share in rest):+.3f}")
    return table


def _blocks(words: Sequence[str], budget: int) -> Iterator[range]:
    """Cut columns into runs that are at most `budget` characters wide, at least one in each."""
    ends = np.cumsum([max(len(word), _CELL) + _COLUMN_PADDING for word in words])
    start = 0
    while start < len(words):
        used = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, used + budget, side="right")))
        yield range(start, stop)
        start = stop
