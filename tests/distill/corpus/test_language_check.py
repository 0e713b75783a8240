"""Text in another language than the recipe's is warned of, once; other text never is."""

import logging

import pytest
from sentence_files import write_shards

from st_static.distill.config import SentencesConfig
from st_static.distill.corpus import splitting
from st_static.distill.corpus.docstrings import read_docstrings
from st_static.distill.corpus.sentences import sentence_key, sentence_shards, write_sentences
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.splitting import split_paragraphs, warn_of_other_language
from st_static.distill.engines import Processes

TEXTS = {
    "en": "We walked along the river until it got dark. Nobody had thought of bringing a lamp. The "
    "old bridge was closed because of the flood. So we asked a farmer whether he could take us "
    "across. He laughed and pointed at his small boat. My brother was afraid of the water.",
    "de": "Wir gingen am Fluss entlang, bis es dunkel wurde. Niemand hatte daran gedacht, eine "
    "Lampe mitzunehmen. Die alte Brücke war wegen des Hochwassers gesperrt. Also fragten wir einen "
    "Bauern, ob er uns übersetzen könnte. Er lachte und zeigte auf sein kleines Boot.",
    "fr": "Nous avons marché le long de la rivière jusqu'à la nuit. Personne n'avait pensé à "
    "prendre une lampe. Le vieux pont était fermé à cause de la crue. Nous avons donc demandé à "
    "un paysan s'il pouvait nous faire traverser. Il a ri et montré sa petite barque.",
    "ja": "暗くなるまで川沿いを歩きました。誰もランプを持ってくることを考えていませんでした。古い橋"
    "は洪水のために閉鎖されていました。そこで農夫に渡してもらえないかと頼みました。彼は笑って小さな"
    "舟を指さしました。弟は水を怖がっていました。",
    "nb": "Vi gikk langs elva til det ble mørkt. Ingen hadde tenkt på å ta med en lykt. Den gamle "
    "broa var stengt på grunn av flommen. Derfor spurte vi en bonde om han kunne frakte oss over. "
    "Han lo og pekte på den lille båten sin.",
    "ru": "Мы шли вдоль реки, пока не стемнело. Никто не подумал взять с собой фонарь. Старый мост "
    "был закрыт из-за наводнения. Поэтому мы спросили крестьянина, не перевезёт ли он нас. Он "
    "засмеялся и показал на свою маленькую лодку.",
}


def warnings(documents, language, folder, caplog, treated_as=("ja",)):
    """What is said of these documents."""
    folder.mkdir(exist_ok=True)
    write_sentences(documents, folder, SentencesConfig(), Processes(1), treated_as)
    warn_of_other_language(Shards(sentence_shards(folder), Processes(1)), language)
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("found", TEXTS)
def test_text_in_another_language_is_warned_of_once(found, tmp_path, caplog):
    language = "tr" if found != "tr" else "en"
    (message,) = warnings([TEXTS[found]], [language, "ko"], tmp_path, caplog)
    label = "no" if found == "nb" else found
    assert message.startswith("The recipe names the language tr and ko, but ")
    assert message.endswith(
        f"look like another language, {label}. If that is right, give the "
        f"recipe's language: --language {label}."
    )


@pytest.mark.parametrize("found", TEXTS)
@pytest.mark.parametrize("more", [[], ["sv"]])
def test_text_in_a_language_of_the_recipe_is_silent(found, more, tmp_path, caplog):
    language = [*more, found + "-XX"] if more else found
    assert warnings([TEXTS[found]], language, tmp_path, caplog) == []


def test_text_without_a_language_should_be_english(tmp_path, caplog):
    assert warnings([TEXTS["en"]], None, tmp_path / "en", caplog, ()) == []
    (message,) = warnings([TEXTS["fr"]], None, tmp_path / "fr", caplog, ())
    assert message.startswith("The recipe names no language, which stands for English, but ")
    assert message.endswith("--language fr.")


def test_no_language_of_a_mixed_text_is_a_clear_majority(tmp_path, caplog):
    texts = [TEXTS[name] + "\n" + " ".join(sorted(TEXTS[name].split(". "))) for name in TEXTS]
    assert warnings(texts, "tr", tmp_path, caplog) == []


def test_a_few_foreign_documents_are_silent(tmp_path, caplog):
    sentences = split_paragraphs([TEXTS["en"]], ["en"])
    english = [f"{text[:-1]} on day {day}." for day in range(9) for text in sentences]
    assert warnings([*english, TEXTS["de"]], "en", tmp_path, caplog) == []


@pytest.mark.parametrize("language", ["multilingual", "ast", ["ja", "tlh"]])
def test_of_languages_that_are_not_known_nothing_is_told(language, tmp_path, caplog):
    assert warnings([TEXTS["en"]], language, tmp_path, caplog) == []


@pytest.mark.parametrize("language", [None, "en", "code"])
def test_documentation_of_code_is_english(language, tmp_path, caplog):
    documents = list(read_docstrings(["argparse", "ctypes", "re", "struct", "numpy.linalg"]))
    assert warnings(documents, language, tmp_path, caplog, ()) == []


def test_the_sample_is_spread_over_all_shards(tmp_path, caplog, monkeypatch):
    """The first shard is English, the others are German."""
    from st_static.distill.corpus import sentences as module

    monkeypatch.setattr(module, "BLOCK_CHARACTERS", 3_000)

    def many(language, count):
        parts = split_paragraphs([TEXTS[language]], ["de"])
        return [" ".join(f"{part[:-1]} {day}." for part in parts) for day in range(count)]

    (message,) = warnings([*many("en", 12), *many("de", 90)], "en", tmp_path, caplog)
    assert len(sentence_shards(tmp_path)) > 5
    assert "of 100 places" in message
    assert message.endswith("--language de.")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_places_are_those_with_the_smallest_keys(tmp_path, monkeypatch, workers):
    """A place ends with its shard."""
    seen: list[str] = []
    monkeypatch.setattr(splitting, "classify", lambda text: (seen.append(text), ("en", 0))[1])
    shards = [[f"Sentence {i} of shard {n}." for i in range(130)] for n in range(3)]
    files = write_shards(tmp_path, shards)
    warn_of_other_language(Shards(files, Processes(workers)), "en")
    places = sorted(
        (sentence_key(text), n, i) for n in range(3) for i, text in enumerate(shards[n])
    )
    assert sorted(seen) == sorted(" ".join(shards[n][i : i + 10]) for _, n, i in places[:100])
