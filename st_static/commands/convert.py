"""The command `convert`: a file of text vectors in, a model's folder out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from st_static.commands.options import CommandParser
from st_static.dependencies import needed_by
from st_static.hub import check_repo_id
from st_static.languages import check_language, primary_of

if TYPE_CHECKING:
    from st_static.model.text_vectors import Conversion, LeftOut

_NAMED = 5  # words, of those that a line is about


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static convert",
        description="Make a static model of text vectors: a word and its numbers a line, as "
        "GloVe, fastText and word2vec write them. It loads in SentenceTransformer() and Model2Vec.",
    )
    parser.add_argument("file", type=Path, help="The text vectors; also as .gz or .zip.")
    parser.add_argument("output", type=Path, help="Folder for the model.")
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="Take only the first N rows, which in most files are the most frequent words.",
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float16"],
        default="float32",
        help="Number format of the table; by default float32.",
    )
    parser.add_argument(
        "--teacher",
        metavar="ORG/NAME",
        help="The model that the vectors were distilled from, if they were, for the card.",
    )
    parser.add_argument("--license", help="The vectors' licence, such as cc-by-4.0, for the card.")
    parser.add_argument(
        "--language",
        nargs="+",
        default=[],
        help="Their languages, for the card, the tasks of evaluate, and the small letters of I and "
        "İ: tags such as en.",
    )
    return parser


@needed_by("The option --language", "build")
def run(arguments: Sequence[str]) -> int:
    """Run `convert`."""
    options = _parser().read(arguments)
    _check(options)
    from st_static.model.text_vectors import Source, convert

    languages = list(dict.fromkeys(map(primary_of, options.language)))
    source = Source(options.teacher, options.license, languages)
    done = convert(options.file, options.output, options.limit, options.dtype, source)
    _print(done)
    return 0


def _check(options: Any) -> None:
    """Check what the options alone tell."""
    if options.teacher is not None:
        check_repo_id(options.teacher)
    if options.language:
        check_language(options.language, "--language")
    if options.license is not None:
        from st_static.card.render import licence_fields
        from st_static.publish.checks.card import check_licence

        for problem in check_licence(licence_fields(options.license)):
            raise ValueError(f"--license: {problem}")


def _print(done: Conversion) -> None:
    """Print what became of the vectors, what is not as one might expect, and what comes next."""
    known = done.known
    print(f"{done.output}: {done.n_words:,} words, {done.dimension} dimensions")
    print(f"Capitals: {_capitals(done)}")
    if known.spellings:
        print(f"Added, to find words that begin a sentence: {_listed(known.spellings)}")
    accents = "are dropped (no word has one)" if known.normalization.strip_accents else "stay"
    print(f"Accents: {accents}")
    if known.form:
        brought = f"; so are {_listed(known.brought)} of the words" if known.brought else ""
        print(f"Canonical form: texts are brought to {known.form}, that of the words{brought}")
    others = "any other has" if done.n_punctuation else "it has"
    print(f"Punctuation: {done.n_punctuation:,} of the words; {others} no vector")
    _warn("rows left out, for their words came before", done.repeated)
    _warn("rows left out, for their words came before in another canonical form", known.alike)
    _warn("rows left out, for unknown words have no vector", done.reserved)
    _warn("words that are never found, for texts are split otherwise", done.never_found)
    model = shlex.quote(str(done.output))
    print(f"Next: st-static evaluate {model} …, st-static card {model}")


def _capitals(done: Conversion) -> str:
    known = done.known
    if not known.normalization.lowercase:
        return f"count, for words have them: {_listed(done.capitalised)}"
    few = f"only a few words have one: {_listed(done.capitalised)}" if done.capitalised else ""
    dotless = ", I to ı and İ to i as in Turkish" if known.normalization.dotless_i else ""
    return f"texts are lower-cased{dotless} ({few or 'no word has a capital'})"


def _warn(what: str, words: Sequence[str | LeftOut]) -> None:
    if words:
        print(f"Warning: {what}: {_listed(words)}", file=sys.stderr)


def _listed(words: Sequence[str | LeftOut]) -> str:
    """How many, and a few of them: `7 ('New', 'York' (line 9), …)`."""
    more = ["…"] if len(words) > _NAMED else []
    return f"{len(words):,} ({', '.join([*map(_shown, words[:_NAMED]), *more])})"


def _shown(word: str | LeftOut) -> str:
    return repr(word) if isinstance(word, str) else f"{word.word!r} (line {word.line})"
