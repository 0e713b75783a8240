"""Damaged indexes: each is refused in one sentence, and none ends the process, hangs or is used."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from st_static import FastEncoder, SearchIndex
from st_static.files import Arrays, read_arrays, read_arrow, write_arrays, write_arrow
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer
from st_static.search import index_files
from st_static.search.index_files import ARRAYS, FILES, HALVES, HEADER, ROWS, WORDS

OTHERS = sorted(FILES - {HEADER})
FLIPS = 200  # of each file


@pytest.fixture(scope="module")
def encoder() -> FastEncoder:
    tokenizer = build_tokenizer(["car", "boat", "red"])
    table = np.zeros((tokenizer.get_vocab_size(), 3), np.float32)
    table[-3:] = np.eye(3)
    return FastEncoder(StaticModel(tokenizer, table, normalize=True, name="cars"), threads=1)


@pytest.fixture(scope="module")
def index(encoder: FastEncoder) -> SearchIndex:
    texts = ["a car", "the red boat", "", "zzz X7"] * 50
    columns = {"title": ["one", None, "three", "four"] * 50, "id": range(200)}
    return SearchIndex.build(encoder, texts, columns)


@pytest.fixture
def folder(index: SearchIndex, tmp_path: Path) -> Path:
    index.save(tmp_path / "index")
    return tmp_path / "index"


def refusal(folder: Path, encoder: FastEncoder) -> str:
    """Why an index is refused, in one line."""
    with pytest.raises(ValueError, match="index") as refused:
        SearchIndex.open(folder, encoder)
    said = str(refused.value)
    assert "\n" not in said
    assert "uild" in said  # again, or one first
    return said


@pytest.mark.parametrize("name", sorted(FILES))
def test_any_flipped_bit_is_refused(folder: Path, encoder: FastEncoder, name: str) -> None:
    rng, whole = np.random.default_rng(0), (folder / name).read_bytes()
    for position in rng.choice(len(whole), min(FLIPS, len(whole)), replace=False).tolist():
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        (folder / name).write_bytes(damaged)
        said = refusal(folder, encoder)
        assert name in said or name == HEADER
    (folder / name).write_bytes(whole)
    SearchIndex.open(folder, encoder)


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_of_another_length_are_refused(folder: Path, encoder, name: str) -> None:
    whole = (folder / name).read_bytes()
    for changed in (b"", whole[:-2], whole[: len(whole) // 2], whole + b"\0", whole * 2):
        (folder / name).write_bytes(changed)
        assert name in refusal(folder, encoder)
    os.truncate(folder / name, 2**36)  # sparse: takes no room, but would take long to read
    assert name in refusal(folder, encoder)
    (folder / name).unlink()
    refusal(folder, encoder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("name", sorted(FILES))
def test_what_is_no_file_is_refused(index, folder: Path, encoder, name: str) -> None:
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
        shutil.rmtree(folder)
        index.save(folder)
        (folder / name).unlink()
        make(folder / name)
        assert name in refusal(folder, encoder)
        if name == HEADER:
            with pytest.raises(ValueError, match="holds something that is not a search index"):
                index.save(folder)


def change_arrays(folder: Path, change: Callable[[Arrays], Any]) -> None:
    """Change the arrays of an index."""
    arrays = {name: array.copy() for name, array in read_arrays(folder / ARRAYS).items()}
    change(arrays)
    write_arrays(folder / ARRAYS, arrays)


def change_words(folder: Path, change: Callable[[pa.Array], pa.Array]) -> None:
    """Change the words of an index."""
    words = read_arrow(folder / WORDS)["word"].combine_chunks()
    write_arrow(folder / WORDS, pa.table({"word": change(pa.array(words.to_pylist(), words.type))}))


def damage_rows(folder: Path) -> None:
    """Let a title reach beyond the end of all titles."""
    rows = read_arrow(folder / ROWS)
    title = pa.array(["one"] * 200, pa.string())
    offsets = np.frombuffer(title.buffers()[1], np.int32).copy()
    offsets[100] = 2**30
    wrong = pa.StringArray.from_buffers(200, pa.py_buffer(offsets), title.buffers()[2])
    write_arrow(folder / ROWS, rows.set_column(0, "title", wrong))


def fill(name: str, value: float) -> Callable[[Path], None]:
    """Damage the first number of an array."""
    return lambda folder: change_arrays(folder, lambda arrays: arrays[name].put(0, value))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (fill("weights", np.nan), "its weights are not all from 0 to"),
        (fill("weights", np.inf), "its weights are not all from 0 to"),
        (fill("weights", -1), "its weights are not all from 0 to"),
        (fill("scales", np.nan), "its scales are not all from 0 to 1"),
        (fill("scales", -1), "its scales are not all from 0 to 1"),
        (fill("scales", 2), "its scales are not all from 0 to 1"),
        (fill("scales", 1e-40), "its scales are not those of its vectors"),
        (fill("tails", np.nan), "its tails are not all from 0 to"),
        (fill("tails", 9), "its tails are not all from 0 to"),
        (fill("probes", np.inf), "its probes are not all from"),
        (fill("texts", 200), "its texts are not all from 0 to 199"),
        (fill("texts", -1), "its texts are not all from 0 to 199"),
        (fill("starts", 2), "its words overlap, or some are missing"),
        (
            lambda folder: change_arrays(folder, lambda a: a["starts"].put([1, 2], [60, 50])),
            "its words overlap, or some are missing",
        ),
        (
            lambda folder: change_arrays(folder, lambda a: a["starts"].put(-1, 2**60)),
            "its words overlap, or some are missing",
        ),
        (
            lambda folder: change_arrays(folder, lambda a: a.update(tails=a["tails"][1:])),
            "its parts differ in length",
        ),
        (
            lambda folder: change_arrays(folder, lambda a: a.update(texts=a["texts"][1:])),
            "its parts differ in length",
        ),
        (
            lambda folder: change_arrays(folder, lambda a: a.update(tails=a["tails"] > 0)),
            "its numbers have other formats",
        ),
        (
            lambda folder: change_arrays(folder, lambda a: a.update(texts=a["texts"][None])),
            "its numbers have other formats",
        ),
        (lambda folder: change_words(folder, lambda w: w[::-1]), "its words are not in order"),
        (
            lambda folder: change_words(folder, lambda w: w.cast(pa.string())),
            "its words have another format",
        ),
        (
            lambda folder: change_words(folder, lambda w: w.slice(1)),
            "its parts differ in length",
        ),
        (
            lambda folder: change_words(folder, lambda w: w.cast(pa.large_binary())),
            "its words have another format",
        ),
        (damage_rows, "offset for slot 100 out of bounds"),
        (
            lambda folder: write_arrow(folder / ROWS, read_arrow(folder / ROWS).slice(1)),
            "its parts differ in length",
        ),
        (lambda folder: np.save(folder / HALVES[0], np.zeros((9, 2), np.uint8)), "differ in leng"),
        (lambda folder: np.savez(folder / "a.npz") or (folder / "a.npz").rename(folder / ROWS), ""),
    ],
)
def test_wrong_parts_are_refused_even_if_their_checksums_are_right(
    folder: Path, encoder: FastEncoder, damage: Callable[[Path], Any], says: str
) -> None:
    header = json.loads((folder / HEADER).read_text())
    damage(folder)
    index_files.write_header(folder, header["model"], header["probes"], header["stemmer"])
    said = refusal(folder, encoder)
    assert "is broken (" in said
    assert says in said


@pytest.mark.parametrize("other", [4, 5, 99])
def test_an_index_of_another_release_is_to_be_built_again(folder, encoder, other: int) -> None:
    header = json.loads((folder / HEADER).read_text()) | {"format": other}
    (folder / HEADER).write_text(json.dumps(header))
    assert refusal(folder, encoder).endswith(
        f"has the format {other} of another release; this one reads 6. Build it again."
    )


@pytest.mark.parametrize("other", ["5", 5.5, None, [5]])
def test_a_format_that_is_no_number_is_damage(folder: Path, encoder, other: object) -> None:
    header = json.loads((folder / HEADER).read_text()) | {"format": other}
    (folder / HEADER).write_text(json.dumps(header))
    assert "is broken (index.json has changed since it was written)" in refusal(folder, encoder)


def test_an_index_that_is_replaced_while_it_is_opened_is_read_again(
    index, folder: Path, encoder: FastEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    smaller, check = SearchIndex.build(encoder, ["a red car"]), index_files.check_regular
    saved = []

    def replaced_first(file: Path) -> int:
        if file.name != HEADER and not saved:
            saved.append(file)
            smaller.save(folder)
        return check(file)

    monkeypatch.setattr(index_files, "check_regular", replaced_first)
    assert len(SearchIndex.open(folder, encoder)) == 1


def test_an_index_that_is_saved_again_while_it_is_opened_is_read_again(
    index, folder: Path, encoder: FastEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, saved = index_files.check_regular, []

    def fails_first(file: Path) -> int:
        if file.name != HEADER and not saved:
            saved.append(file)
            index.save(folder)  # the same, so the header stays
            raise FileNotFoundError(file)  # of the folder that was there
        return check(file)

    monkeypatch.setattr(index_files, "check_regular", fails_first)
    assert len(SearchIndex.open(folder, encoder)) == len(index)


def test_a_stemmer_that_is_not_known_is_refused(folder: Path, encoder: FastEncoder) -> None:
    header = json.loads((folder / HEADER).read_text())
    index_files.write_header(folder, header["model"], header["probes"], "porter")  # type: ignore
    assert "is broken (Invalid enum value 'porter'" in refusal(folder, encoder)
