"""A corpus in parts: the blocks are the same for any number of workers, each is cut once."""

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import Part, file_parts, in_shares

texts = st.lists(st.text("ab", max_size=9), max_size=20)


def corpus_of(folder, files, **options):
    """A corpus of files with a document a line."""
    for number, lines in enumerate(files):
        (folder / f"{number:03d}.txt").write_text("".join(f"{line}\n" for line in lines))
    return Corpus(CorpusConfig(files=str(folder), **options))


def sized(*n_bytes):
    """Parts that hold so much text, in blocks of ten characters."""
    return [Part(number, 10, n_bytes=size) for number, size in enumerate(n_bytes)]


@given(st.lists(texts, min_size=1, max_size=6), st.integers(1, 60))
def test_parts_hold_every_document_in_order(files, size):
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(Path(folder), files)
        parts = file_parts(corpus, size)
        blocks = [block for part in parts for block in part.blocks()]
        assert [text for block in blocks for text in block] == list(corpus)
    assert [part.number for part in parts] == list(range(len(parts)))
    assert [file for part in parts for file in part.files] == corpus.files
    assert all(part.n_bytes <= size or len(part.files) == 1 for part in parts)
    # No two neighbours would have gone into one.
    neighbours = itertools.pairwise(parts)
    assert all(a.n_bytes + b.n_bytes > size for a, b in neighbours if len(b.files) == 1)


def test_many_small_files_are_few_parts_and_a_large_one_is_alone(tmp_path):
    files = [["tiny"]] * 200 + [["x" * 900]] + [["tiny"]] * 200
    parts = file_parts(corpus_of(tmp_path, files), 500)
    assert [len(part.files) for part in parts] == [100, 100, 1, 100, 100]


def test_compressed_files_count_for_what_they_hold(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(b"x" * 100)
    (tmp_path / "b.txt").write_bytes(b"x" * 100)
    (part,) = file_parts(Corpus(CorpusConfig(files=str(tmp_path))), 1000)
    assert part.n_bytes == 600


@pytest.mark.parametrize(
    ("sizes", "workers", "n_shares"),
    [
        ([1000], 4, [4, 4, 4, 4]),
        ([25], 4, [3, 3, 3]),  # no more than it has blocks
        ([1000, 20, 0], 1, [1, 1, 1]),
        ([0, 0], 4, [1, 1]),  # may be no files of text, or text that grew
    ],
)
def test_each_share_of_a_part_is_given_once(sizes, workers, n_shares):
    shares = in_shares(sized(*sizes), workers)
    assert [part.n_shares for part in shares] == n_shares
    expected = {(part.number, i) for part in shares for i in range(part.n_shares)}
    assert {(part.number, part.share) for part in shares} == expected


def test_only_large_parts_are_shared_and_large_shares_come_first():
    shares = in_shares(sized(30, 400, 30, 40), 2)
    assert [(part.number, part.share, part.n_shares) for part in shares] == [
        *((1, 0, 2), (1, 1, 2)),
        *((3, 0, 1), (0, 0, 1), (2, 0, 1)),
    ]


def test_a_part_is_named_by_its_files_without_its_text(tmp_path):
    files = corpus_of(tmp_path, [["secret"], [], []]).files
    assert str(Part(0, 9, files)) == f"{files[0]} to {files[2]} (share 1 of 1)"
    assert str(Part(0, 9, files[:1], share=1, n_shares=4)) == f"{files[0]} (share 2 of 4)"
    assert str(Part(7, 9, documents=["secret"])) == "block 7 of the corpus"
