"""The command `convert`: a file of text vectors in, a model's folder out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands.options import CommandParser
from st_static.dependencies import needed_by
from st_static.hub import check_repo_id
from st_static.languages import check_language, primary_of

if TYPE_CHECKING:
    from st_static.model.text_vectors import Conversion, LeftOut

_NAMED = 5  # words, of those that a line is about


@needed_by("The option --language", "build")
def run(arguments: Sequence[str]) -> int:
    """Run `convert`."""
    parser = CommandParser(
        prog="st-static convert",
        description="Make a static model of text vectors: one word and its numbers per line, as "
        "GloVe, fastText and word2vec write them. It loads in SentenceTransformer() and Model2Vec.",
    )
    add = parser.add_argument
    add("file", type=Path, help="The text vectors; also as .gz or .zip.")
    add("output", type=Path, help="Folder for the model.")
    add(
        "--limit",
        type=int,
        metavar="N",
        help="Take only the first N rows, which in most files are the most frequent words.",
    )
    add(
        "--dtype",
        choices=["float32", "float16"],
        default="float32",
        help="Number format of the table; by default float32.",
    )
    add(
        "--teacher",
        metavar="ORG/NAME",
        help="The model that the vectors were distilled from, if they were, for the card.",
    )
    add("--license", help="The vectors' licence, such as cc-by-4.0, for the card.")
    add(
        "--language",
        nargs="+",
        default=[],
        help="Their languages, for the card, the tasks of evaluate, and the small letters of I and "
        "İ: tags such as en.",
    )
    options = parser.read(arguments)
    if options.teacher is not None:
        check_repo_id(options.teacher)
    if options.language:
        check_language(options.language, "--language")
    if options.license is not None:
        from st_static.cards.check_card import check_licence
        from st_static.cards.render import licence_fields

        for problem in check_licence(licence_fields(options.license)):
            raise ValueError(f"--license: {problem}")
    from st_static.model.text_vectors import convert

    languages = list(dict.fromkeys(map(primary_of, options.language)))
    source = {"teacher": options.teacher, "license": options.license, "languages": languages}
    _print(convert(options.file, options.output, options.limit, options.dtype, **source))
    return 0


def _print(done: Conversion) -> None:
    """Print what became of the vectors, what may surprise, and the next commands."""
    vocabulary, record = done.known, done.record
    print(f"{done.output}: {record.words:,} words, {record.dimension} dimensions")
    if vocabulary.normalization.lowercase:
        few = f"only a few words have one: {_listed(done.capitalised)}" if done.capitalised else ""
        dotless = ", I to ı and İ to i as in Turkish" if vocabulary.normalization.dotless_i else ""
        print(f"Capitals: texts are lower-cased{dotless} ({few or 'no word has a capital'})")
    else:
        print(f"Capitals: count, for words have them: {_listed(done.capitalised)}")
    if vocabulary.spellings:
        print(f"Added, to find words that begin a sentence: {_listed(vocabulary.spellings)}")
    accents = "are dropped (no word has one)" if vocabulary.normalization.strip_accents else "stay"
    print(f"Accents: {accents}")
    if vocabulary.form:
        brought = (
            f"; so are {_listed(vocabulary.brought)} of the words" if vocabulary.brought else ""
        )
        print(f"Canonical form: texts are brought to {vocabulary.form}, that of the words{brought}")
    others = "any other has" if record.punctuation else "it has"
    print(f"Punctuation: {record.punctuation:,} of the words; {others} no vector")
    before = "rows left out, for their words came before"
    for fault, words in (
        (before, done.repeated),
        (f"{before} in another canonical form", vocabulary.alike),
        ("rows left out, for unknown words have no vector", done.reserved),
        ("words that are never found, for texts are split otherwise", done.never_found),
    ):
        if words:
            print(f"Warning: {fault}: {_listed(words)}", file=sys.stderr)
    model = shlex.quote(str(done.output))
    print(f"Next: st-static evaluate {model} …, st-static card {model}")


def _listed(words: Sequence[str | LeftOut]) -> str:
    """Count words and quote a few of them: `7 ('New', 'York' (line 9), …)`."""
    shown = [
        repr(word) if isinstance(word, str) else f"{word.word!r} (line {word.line})"
        for word in words[:_NAMED]
    ]
    more = ["…"] if len(words) > _NAMED else []
    return f"{len(words):,} ({', '.join([*shown, *more])})"
