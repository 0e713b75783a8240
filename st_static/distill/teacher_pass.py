"""Word and sentence vectors from one pass of the teacher (paper section 2.1).

Batches are run in the order of the sentences, and halved where memory runs out. The vectors of a
word are summed up over batches; a token that stands in no sentence is read on its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional as F

from st_static.distill.alignment import WordBags, WordSpans, align, find_words, word_bags
from st_static.distill.pieces import teacher_pieces
from st_static.distill.stages import Selected
from st_static.distill.teacher import Teacher, TokenBatch
from st_static.files import read_arrays, write_arrays
from st_static.model.tokenizer import CONTINUATION, ENGLISH, WORD_BEGIN, Normalization, unknown_id

logger = logging.getLogger(__name__)

Part = TypeVar("Part")


class WordVectors(NamedTuple):
    """The summands of a batch.

    Attributes:
        word: Distinct words, [U].
        sums: Sum over sentences of each word's vector, [U, h].
        counts: Number of those sentences, [U].
    """

    word: NDArray[np.int64]
    sums: NDArray[np.float32]
    counts: NDArray[np.int64]


class WordSums:
    """Sums of word vectors; adding is associative and commutative, up to rounding.

    Batches are added in the order of the sentences within a shard, and shards in their order, so
    that the same sentences give the same bytes, whatever process ran which. A batch that was halved
    may round differently.

    Args:
        n_tokens: Rows, one for each token id of the student, V.
        dimension: The dimension of token vectors, h.

    Attributes:
        sums: Sum over sentences of each word's vector, [V, h].
        counts: Number of those sentences, [V].
    """

    def __init__(self, n_tokens: int, dimension: int) -> None:
        # float32 holds sums of some hundred vectors, N per word, to six digits.
        self.sums = np.zeros((n_tokens, dimension), dtype=np.float32)
        self.counts = np.zeros(n_tokens, dtype=np.int64)

    def add(self, words: WordVectors) -> None:
        """Add the sums and counts of distinct words."""
        # Right only as words are distinct: of a repeated index, `+=` would keep one summand.
        self.sums[words.word] += words.sums
        self.counts[words.word] += words.counts

    def means(self) -> NDArray[np.float32]:
        """The mean vector of each word, [V, h]; zero for a word without a sentence."""
        counts = np.maximum(self.counts, 1).astype(np.float32)
        means: NDArray[np.float32] = self.sums / counts[:, None]
        return means

    def save(self, file: Path) -> None:
        """Write sums and counts, atomically."""
        write_arrays(file, {"sums": self.sums, "counts": self.counts})

    @classmethod
    def load(cls, file: Path) -> Self:
        """The sums that `save` wrote."""
        saved = read_arrays(file)
        sums = cls(*saved["sums"].shape)
        sums.sums, sums.counts = saved["sums"], saved["counts"]
        return sums


def token_batches(lengths: NDArray[np.integer], batch_tokens: int) -> list[slice]:
    """Cut sentences that are sorted by length into batches of at most `batch_tokens` tokens.

    Args:
        lengths: Tokens of each sentence, special tokens included, ascending, [S].
        batch_tokens: Most tokens in a batch, padding included; a longer sentence goes alone.

    Example:
        >>> token_batches(np.array([2, 2, 3, 9]), 6)
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    batches, start = [], 0
    for stop in range(1, len(lengths) + 1):
        if stop == len(lengths) or (stop - start + 1) * int(lengths[stop]) > batch_tokens:
            batches.append(slice(start, stop))
            start = stop
    return batches


def padded_tokens(batches: Sequence[slice], lengths: NDArray[np.integer]) -> list[int]:
    """Tokens of each batch, padding included: what the teacher's time goes by.

    Example:
        >>> padded_tokens([slice(0, 2), slice(2, 3)], np.array([1, 2, 3]))
        [4, 3]
    """
    return [(batch.stop - batch.start) * int(lengths[batch.stop - 1]) for batch in batches]


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that the memory of the processor or the GPU is full."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        "can't allocate memory" in str(error) or "out of memory" in str(error)
    )


def _halving(run: Callable[[slice], Part], rows: slice) -> list[Part]:
    """Run over texts; where memory runs out, over each half of them instead."""
    try:
        return [run(rows)]
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or rows.stop - rows.start == 1:
            raise
    # Outside the except block, whose traceback would keep the large tensors alive.
    logger.warning("%d texts do not fit into memory: halving", rows.stop - rows.start)
    middle = (rows.start + rows.stop) // 2
    return [*_halving(run, slice(rows.start, middle)), *_halving(run, slice(middle, rows.stop))]


class Prepared(NamedTuple):
    """A batch that is ready for the teacher.

    Attributes:
        tokens: The teacher's tokens, [B, T].
        bags: What to sum up for each word.
    """

    tokens: TokenBatch
    bags: WordBags


class Encoded(NamedTuple):
    """The teacher's vectors of a batch.

    Attributes:
        sentences: The sentence vectors, [B, d].
        words: What is added to the sums.
    """

    sentences: NDArray[np.float16]
    words: WordVectors


def prepare(teacher: Teacher, tokenizer: Tokenizer, part: Selected) -> Prepared:
    """Tokenise sentences for the teacher and find the words that they were selected for.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        part: The sentences, [B].
    """
    sentences, words = part.texts.to_pylist(), part.words
    tokens = teacher.tokenize(sentences)
    found = find_words(tokenizer, sentences)
    # (sentence, word) as one number, to keep only the occurrences of selected pairs.
    stride = tokenizer.get_vocab_size()
    selected = words.row_of_value * stride + words.values
    wanted = np.isin(found.sentence * stride + found.word, selected)
    found = WordSpans(*(column[wanted] for column in found))
    return Prepared(tokens, word_bags(align(tokens, found), found))


@torch.inference_mode()
def sum_tokens(tokens: torch.Tensor, bags: WordBags) -> NDArray[np.float32]:
    """Sum up weighted token vectors [B, T, h] for each word, [U, h]."""
    if not len(bags.word):
        return np.zeros((0, tokens.shape[-1]), dtype=np.float32)
    device = tokens.device
    sums = F.embedding_bag(
        torch.from_numpy(bags.tokens.values).to(device),
        tokens.flatten(0, 1).float(),  # a bfloat16 sum would keep two or three digits
        torch.from_numpy(bags.tokens.offsets[:-1].astype(np.int32)).to(device),
        mode="sum",
        per_sample_weights=torch.from_numpy(bags.weights).to(device),
    )
    return sums.cpu().numpy()


def encode_batches(
    teacher: Teacher, tokenizer: Tokenizer, selected: Selected, batches: Sequence[slice]
) -> Iterator[Encoded]:
    """Run the teacher over batches of the selected sentences.

    While the teacher works on one batch, the next is tokenised in a second thread.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        batches: Which sentences are in each batch.

    Yields:
        The vectors of each batch, or of its halves, in the order of the sentences.
    """
    with ThreadPoolExecutor(1) as thread:

        def submit(batch: slice) -> Future[Prepared]:
            return thread.submit(prepare, teacher, tokenizer, selected.rows(batch))

        pending = submit(batches[0]) if batches else None
        for batch, following in zip(batches, [*batches[1:], None], strict=True):
            assert pending is not None
            prepared = pending.result()
            pending = following and submit(following)

            def run(rows: slice, batch: slice = batch, whole: Prepared = prepared) -> Encoded:
                inputs = (
                    whole if rows == batch else prepare(teacher, tokenizer, selected.rows(rows))
                )
                tokens, sentences = teacher.forward(
                    torch.from_numpy(inputs.tokens.input_ids),
                    torch.from_numpy(inputs.tokens.attention_mask),
                )
                # Half of the disk and memory: rounding to float16 changes a cosine by less than
                # 1e-4, and the loss divides cosines by a temperature of 0.05.
                vectors: NDArray[np.float16] = sentences.to(torch.float16).cpu().numpy()
                bags = inputs.bags
                words = WordVectors(bags.word, sum_tokens(tokens, bags), bags.counts)
                return Encoded(vectors, words)

            yield from _halving(run, batch)


def extract_rows(
    teacher: Teacher, tokenizer: Tokenizer, selected: Selected, sums: WordSums
) -> Iterator[NDArray[np.float16]]:
    """Run the teacher over all selected sentences, without files.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        sums: Where the words' vectors are added.

    Yields:
        Sentence vectors, [B, d], in the order of the sentences.
    """
    batches, _ = sentence_batches(teacher, selected)
    for encoded in encode_batches(teacher, tokenizer, selected, batches):
        sums.add(encoded.words)
        yield encoded.sentences


def sentence_batches(teacher: Teacher, selected: Selected) -> tuple[list[slice], list[int]]:
    """Cut all selected sentences into batches, and count each batch's tokens with its padding."""
    lengths = selected.lengths + sum(map(len, teacher.surroundings()))
    batches = token_batches(lengths, teacher.batch_tokens)
    return batches, padded_tokens(batches, lengths)


class TokensAlone:
    """Tokens of the student that the teacher reads on their own, between its special tokens.

    Args:
        teacher: The teacher.
        tokens: Words, pieces and characters of the student, [n].
        normalization: What became of the student's text before it was split.

    Attributes:
        batches: Which of the tokens that the teacher knows, by length, are in each batch.
        n_tokens: Tokens of each batch, padding included.
    """

    def __init__(
        self, teacher: Teacher, tokens: Sequence[str], normalization: Normalization = ENGLISH
    ) -> None:
        self._teacher = teacher
        pieces = teacher_pieces(teacher.tokenizer, normalization)
        unknown = unknown_id(teacher.tokenizer)

        def ids_of(token: str) -> list[int]:
            """The teacher's ids of a token; none if it knows nothing of it."""
            if token in pieces:
                return [pieces[token]]
            text = token.removeprefix(CONTINUATION).removeprefix(WORD_BEGIN)
            ids = teacher.tokenizer.encode(text, add_special_tokens=False).ids
            known = (teacher.tokenizer.id_to_token(i) for i in ids if i != unknown)
            return ids if any(token and token.strip(WORD_BEGIN) for token in known) else []

        rows = [ids_of(token) for token in tokens]
        self._shape = len(rows), teacher.token_dimension
        self._known = sorted((i for i, row in enumerate(rows) if row), key=lambda i: len(rows[i]))
        self._rows = [rows[i] for i in self._known]
        lengths = np.array([len(row) for row in self._rows], dtype=np.int64)
        lengths += sum(map(len, teacher.surroundings()))
        self.batches = token_batches(lengths, teacher.batch_tokens)
        self.n_tokens = padded_tokens(self.batches, lengths)

    def encode(self, batches: Sequence[slice]) -> NDArray[np.float32]:
        """Run the teacher over batches: a token's mean last-layer vector, [rows, h]."""
        return np.concatenate([part for rows in batches for part in _halving(self._run, rows)])

    def gather(self, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """The vectors of all tokens, [n, h], from those of all batches in their order."""
        vectors = np.zeros(self._shape, dtype=np.float32)
        if self._known:
            vectors[self._known] = np.concatenate(parts)
        return vectors

    def _run(self, batch: slice) -> NDArray[np.float32]:
        teacher, rows = self._teacher, self._rows[batch]
        before, after = teacher.surroundings()
        if teacher.max_tokens is not None:
            rows = [row[: max(1, teacher.max_tokens - len(before) - len(after))] for row in rows]
        sizes = np.array([len(row) for row in rows])
        positions = np.arange(len(before) + sizes.max() + len(after))
        ids = np.full((len(rows), len(positions)), teacher.pad_id, dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(before) + len(row) + len(after)] = [*before, *row, *after]
        present = positions < (len(before) + sizes + len(after))[:, None]
        inside = (positions >= len(before)) & (positions < (len(before) + sizes)[:, None])
        mask = torch.from_numpy(present.astype(np.int64))
        tokens, _ = teacher.forward(torch.from_numpy(ids), mask)
        weights = torch.from_numpy(inside / sizes[:, None]).to(tokens.device, torch.float32)
        return torch.einsum("bt,bth->bh", weights, tokens.float()).cpu().numpy()


def vectors_alone(
    teacher: Teacher, tokens: Sequence[str], normalization: Normalization = ENGLISH
) -> NDArray[np.float32]:
    """Give the teacher's vectors of tokens of the student on their own, between special tokens.

    Args:
        teacher: The teacher.
        tokens: Words, pieces and characters of the student, [n].
        normalization: What became of the student's text before it was split.

    Returns:
        The mean over the token's last-layer vectors, [n, h]; zero where the teacher does not
        know any of its characters.
    """
    alone = TokensAlone(teacher, tokens, normalization)
    return alone.gather([alone.encode([batch]) for batch in alone.batches])
