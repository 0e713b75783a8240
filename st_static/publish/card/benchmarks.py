"""Choose mteb's benchmark and peers for a model, by its languages."""

from __future__ import annotations

from collections.abc import Sequence

ENGLISH = "MTEB(eng, v1)"
_MULTILINGUAL = "MTEB(Multilingual, v2)"
_OF_LANGUAGE = {
    **{"de": "MTEB(deu, v1)", "en": ENGLISH, "es": "MTEB(spa, v1)", "fa": "MTEB(fas, v2)"},
    **{"fr": "MTEB(fra, v1)", "ja": "JMTEB(v2)", "ko": "MTEB(kor, v2)", "nl": "MTEB(nld, v1)"},
    **{"pl": "MTEB(pol, v1)", "pt": "MTEB(por, v1)", "ru": "MTEB(rus, v1.1)"},
    **{"sk": "MTEB(slk, v1)", "th": "MTEB(tha, v1)", "zh": "MTEB(cmn, v1)"},
}
# Two small tasks of their benchmarks, to score a new model on in a minute.
_SMALL_TASKS = {"en": ("STS12", "STS13"), "ja": ("JSTS", "JSICK")}
# Static models with published scores on benchmarks.
_PEERS = {
    ENGLISH: ("minishlab/potion-base-8M",),
    "MTEB(eng, v2)": ("minishlab/potion-base-8M",),
    "JMTEB(v2)": ("minishlab/potion-multilingual-128M",),
}


def benchmark_of(languages: Sequence[str]) -> str:
    """Choose the benchmark of a model's language; for several languages, the multilingual one.

    Languages are codes without script and region; none is English, and so is source code.

    Example:
        >>> benchmark_of(["ja"]), benchmark_of(["en", "ja"])
        ('JMTEB(v2)', 'MTEB(Multilingual, v2)')
    """
    [language, *others] = [code for code in languages if code != "code"] or ["en"]
    return _MULTILINGUAL if others else _OF_LANGUAGE.get(language, _MULTILINGUAL)


def options_to_score(languages: Sequence[str]) -> list[str]:
    """Suggest options of `st-static evaluate` for a new model; none of its languages is English.

    They are small tasks in its languages; else the benchmark of its one language; else the
    languages, and TASK for a task that the user finds.

    Example:
        >>> options_to_score(["ja"]), options_to_score(["fo"])
        (['--tasks', 'JSTS', 'JSICK'], ['--tasks', 'TASK', '--language', 'fo'])
    """
    languages = list(languages) or ["en"]
    tasks = [task for language in languages for task in _SMALL_TASKS.get(language, ())]
    if tasks:
        return ["--tasks", *tasks]
    if languages == ["multilingual"] or (len(languages) == 1 and languages[0] in _OF_LANGUAGE):
        return ["--benchmark", benchmark_of(languages)]
    return ["--tasks", "TASK", "--language", *languages]


def usual_peers(benchmark: str) -> tuple[str, ...]:
    """Name the models whose published scores on a benchmark are on a card by default."""
    return _PEERS.get(benchmark, ())
