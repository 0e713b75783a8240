"""Word and sentence vectors from one pass of the teacher (paper section 2.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from st_static.distill.alignment import WordBags, WordSpans, align, find_words, word_bags
from st_static.distill.corpus.vocabulary import teacher_pieces
from st_static.distill.stages import Selected
from st_static.distill.teacher import Teacher, TokenBatch
from st_static.model.tokenizer import CONTINUATION, ENGLISH, WORD_BEGIN, Normalization, unknown_id
from st_static.threads import Workers
from st_static.tokens.fast_tokenizer import FastTokenizer

logger = logging.getLogger(__name__)

Part = TypeVar("Part")


class WordVectorSums(NamedTuple):
    """Sums of vectors of U distinct words."""

    word: NDArray[np.int64]  # [U]
    sums: NDArray[np.float32]  # of the word's vector over sentences, [U, h]
    counts: NDArray[np.int64]  # of these sentences, [U]


class WordSums(NamedTuple):
    """Sums of word vectors for all V tokens of the student. Parts added in a fixed order give the
    same bytes, unless a batch was halved for lack of memory."""

    sums: NDArray[np.float32]  # [V, h]: float32 holds sums of some hundred vectors to six digits
    counts: NDArray[np.int64]  # of summands, N per word at most, [V]

    @classmethod
    def zeros(cls, n_tokens: int, dimension: int) -> Self:
        """Make the sums of no vectors."""
        return cls(np.zeros((n_tokens, dimension), np.float32), np.zeros(n_tokens, np.int64))

    def add(self, words: WordVectorSums) -> None:
        """Add the sums and counts of distinct words."""
        # Right only as words are distinct: of a repeated index, `+=` would keep one summand.
        self.sums[words.word] += words.sums
        self.counts[words.word] += words.counts

    def means(self) -> NDArray[np.float32]:
        """Compute the mean vector of each word, [V, h]; zero for a word without a sentence."""
        counts = np.maximum(self.counts, 1).astype(np.float32)
        return self.sums / counts[:, None]


def token_batches(lengths: NDArray[np.integer], batch_tokens: int) -> list[slice]:
    """Cut texts of ascending lengths in tokens, special ones included, into batches.

    A batch has at most `batch_tokens` tokens with its padding; a longer text goes alone.

    >>> token_batches(np.array([2, 2, 3, 9]), 6)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    batches, start = [], 0
    for stop in range(1, len(lengths) + 1):
        if stop == len(lengths) or (stop - start + 1) * int(lengths[stop]) > batch_tokens:
            batches.append(slice(start, stop))
            start = stop
    return batches


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


def prepare(teacher: Teacher, tokenizer: Tokenizer, part: Selected) -> tuple[TokenBatch, WordBags]:
    """Tokenise sentences [B] for the teacher, and find the words that they were selected for."""
    sentences, words = part.texts.to_pylist(), part.words
    tokens = teacher.tokenize(sentences)
    spans = find_words(tokenizer, sentences)
    # (sentence, word) as one number, to keep only the occurrences of selected pairs.
    stride = tokenizer.get_vocab_size()
    selected = words.row_of_value * stride + words.values
    wanted = np.isin(spans.sentence * stride + spans.word, selected)
    spans = WordSpans(*(column[wanted] for column in spans))
    return tokens, word_bags(align(tokens, spans), spans)


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


def sentence_lengths(
    teacher: Teacher, selected: Selected, counted_by: Tokenizer | None = None
) -> NDArray[np.int64]:
    """Count the tokens of selected sentences [S], with the special ones and the prompt. Where the
    tokenizer of another teacher has counted them, a sentence counts for no less than those before
    it, so that lengths ascend."""
    lengths = selected.lengths
    if counted_by is not None and counted_by.to_str() != teacher.tokenizer.to_str():
        lengths = np.maximum.accumulate(FastTokenizer(teacher.tokenizer)(selected.texts).lengths)
    return lengths + np.int64(sum(map(len, teacher.surroundings())))


def read_batches(
    teacher: Teacher, tokenizer: Tokenizer, selected: Selected, batches: Sequence[slice]
) -> Iterator[tuple[NDArray[np.float16], WordVectorSums]]:
    """Yield vectors of sentences [B, d] and of words of each batch, or of its halves, in order."""

    def read(rows: slice) -> tuple[TokenBatch, WordBags]:
        return prepare(teacher, tokenizer, selected.rows(rows))

    # While the teacher works on one batch, a second thread tokenises the next, at most a shard.
    with Workers(1) as thread:
        for batch, whole in zip(batches, thread.map(read, batches), strict=True):

            def run(
                rows: slice, batch: slice = batch, whole: tuple[TokenBatch, WordBags] = whole
            ) -> tuple[NDArray[np.float16], WordVectorSums]:
                inputs, bags = whole if rows == batch else read(rows)
                tokens, sentences = teacher.forward(
                    torch.from_numpy(inputs.input_ids), torch.from_numpy(inputs.attention_mask)
                )
                # Half of the disk and memory: rounding to float16 changes a cosine by less than
                # 1e-4, and the loss divides cosines by a temperature of 0.05.
                vectors: NDArray[np.float16] = sentences.to(torch.float16).cpu().numpy()
                return vectors, WordVectorSums(bags.word, sum_tokens(tokens, bags), bags.counts)

            yield from _halving(run, batch)


class IsolatedTokens:
    """Tokens [n] of the student that the teacher reads alone, between its special tokens. Those
    that it knows are in `batches`, of ascending `lengths` in its tokens, special ones included."""

    def __init__(
        self, teacher: Teacher, tokens: Sequence[str], normalization: Normalization = ENGLISH
    ) -> None:
        self._teacher = teacher
        pieces = teacher_pieces(teacher.tokenizer, normalization)
        unknown = unknown_id(teacher.tokenizer)

        def ids_of(token: str) -> list[int]:
            """Find the teacher's ids of a token; none if it knows no part of it."""
            if token in pieces:
                return [pieces[token]]
            text = token.removeprefix(CONTINUATION).removeprefix(WORD_BEGIN)
            ids = teacher.tokenizer.encode(text, add_special_tokens=False).ids
            names = (teacher.tokenizer.id_to_token(i) for i in ids if i != unknown)
            return ids if any(token and token.strip(WORD_BEGIN) for token in names) else []

        rows = [ids_of(token) for token in tokens]
        self._shape = len(rows), teacher.token_dimension
        self._order = sorted((i for i, row in enumerate(rows) if row), key=lambda i: len(rows[i]))
        self._rows = [rows[i] for i in self._order]
        self.lengths = np.array([len(row) for row in self._rows], dtype=np.int64)
        self.lengths += sum(map(len, teacher.surroundings()))
        self.batches = token_batches(self.lengths, teacher.batch_tokens)

    def encode(self, batches: Sequence[slice]) -> NDArray[np.float32]:
        """Run the teacher over batches: a token's mean last-layer vector, [rows, h]."""
        return np.concatenate([part for rows in batches for part in _halving(self._run, rows)])

    def gather(self, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Put the vectors of all batches, in order, into those of all tokens, [n, h]."""
        vectors = np.zeros(self._shape, dtype=np.float32)
        if self._order:
            vectors[self._order] = np.concatenate(parts)
        return vectors

    def _run(self, batch: slice) -> NDArray[np.float32]:
        teacher, rows = self._teacher, self._rows[batch]
        before, after = teacher.surroundings()
        if teacher.max_tokens is not None:
            rows = [row[: max(1, teacher.max_tokens - len(before) - len(after))] for row in rows]
        texts = [torch.tensor([*before, *row, *after]) for row in rows]
        ids = pad_sequence(texts, batch_first=True, padding_value=teacher.pad_id)
        sizes = torch.tensor([[len(row)] for row in rows])
        positions = torch.arange(ids.shape[1]) - len(before)  # 0 is a row's first token
        tokens, _ = teacher.forward(ids, (positions < sizes + len(after)).long())
        weights = ((positions >= 0) & (positions < sizes)) / sizes
        return torch.einsum("bt,bth->bh", weights.to(tokens.device), tokens.float()).cpu().numpy()


def isolated_vectors(
    teacher: Teacher, tokens: Sequence[str], normalization: Normalization = ENGLISH
) -> NDArray[np.float32]:
    """Give the vectors of `IsolatedTokens`, [n, h]; zero where the teacher knows no character."""
    isolated = IsolatedTokens(teacher, tokens, normalization)
    return isolated.gather([isolated.encode([batch]) for batch in isolated.batches])
