"""Sentences that mean the same in other words, by language, to try a teacher on.

`paraphrases.json` has six pairs a language, of the same six things. The two of a pair share hardly
a word, so that a model whose vectors only tell which words there are does not put them together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

from st_static.languages import primary_of


def paraphrases_in(languages: Sequence[str]) -> dict[str, list[str]]:
    """Read a dozen sentences in each of some languages that there are any for; none is English.

    Returns:
        By language, sentences of which each is followed, or preceded, by its paraphrase.

    Example:
        >>> paraphrases_in(["ja", "sw"])["ja"][2:4]
        ['彼は中古車を買った。', '男性は一度人が乗った自動車を購入しました。']
    """
    text = resources.files("st_static.distill").joinpath("paraphrases.json").read_text("utf-8")
    there: dict[str, list[str]] = json.loads(text)
    codes = dict.fromkeys(map(primary_of, languages or ["en"]))
    return {code: there[code] for code in codes if code in there}
